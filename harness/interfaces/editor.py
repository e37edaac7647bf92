"""The interface of editors, which turn requests into edits, and their presets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..data import Request

if TYPE_CHECKING:
    from ..edits import Edit
    from ..model.model import Model


@dataclass(frozen=True)
class ModelShape:
    """A model as far as its configuration tells."""

    family: str
    """Key into `Editor.presets`, such as ``"gpt2-xl"``; empty if no family is recognised."""
    type: str
    """The architecture's name in transformers, such as ``"gpt2"``."""
    layers: int
    hidden: int
    """Width of the residual stream."""


Origin = Literal["paper", "ported", "tuned", "guessed"]


@dataclass(frozen=True)
class Preset:
    """Hyperparameters for one model family, and where they come from."""

    values: Mapping[str, Any]
    source: str
    """The repository or the rule that the values come from."""
    origin: Origin = "ported"
    """paper: of the editor's authors for this family; ported: of others, or of the authors for a
    family like it; tuned: by experiments on this family; guessed: nobody has published any."""

    def __str__(self) -> str:
        return f"{self.origin} ({self.source})"


FROM_PRESET: Any = None
"""Default of an editor's field whose value depends on the model: it comes from a preset."""


@dataclass(frozen=True)
class Making:
    """What the command ``prepare`` hands to `Editor.make` and `Task.make`."""

    folder: Path
    """The cache's folder for this model's weights, or for this task; it may not exist yet."""
    data: str = ""
    """``--data``: a name or a file that the plugin knows how to read."""
    imported: str = ""
    """``--import``: a file of the authors to take over instead of making it."""
    report: Callable[[str], None] = print
    """Takes a line for the user, such as a validation figure."""
    advance: Callable[[int, int], None] = lambda done, total: None
    """Takes how much is done, and the total."""


class Editor(ABC):
    """Turns requests into an `Edit` of a model, leaving the model as it was.

    Fields that are `FROM_PRESET` are filled from the family's preset before a method gets a model.
    """

    presets: ClassVar[Mapping[str, Preset]] = {}
    citation: ClassVar[str] = ""
    needs: ClassVar[str] = ""
    """What it needs of requests and models, and what to prepare, in a few words."""
    takes: ClassVar[frozenset[str]] = frozenset()
    """What it needs of each request: ``subject``, or names of `Request.tags`. A run without is refused."""

    @property
    def variant(self) -> str:
        """What tables add to the name in brackets where the editor departs from its paper."""
        return ""

    @property
    def moment_layers(self) -> tuple[int, ...]:
        """The layers whose covariance of keys the command ``prepare`` computes for it."""
        return ()

    @property
    def parts(self) -> Sequence[Editor]:
        """The editors that it calls: see `edit_harness.inner`. What they need counts as its own."""
        return ()

    @property
    def provenance(self) -> Mapping[str, str]:
        """Digests of what `prepare` found and the edits depend on, for the record of the run."""
        return {}

    @property
    def found(self) -> Mapping[str, Any]:
        """What `prepare` found that readers of a run want to see; JSON-ready, not part of its identity."""
        return {}

    def guess(self, shape: ModelShape) -> Preset | None:
        """Return hyperparameters for a family without a preset; None if the user has to give them."""
        return None

    def check(self, model: Model) -> None:
        """Raise `PluginError` if the editor cannot edit this model."""

    def make(self, model: Model, making: Making) -> bool:
        """Make what `prepare` loads, and store it in the cache; return False for nothing.

        The command ``prepare`` calls it after computing the covariances of `moment_layers`.
        """
        return False

    def prepare(self, model: Model) -> None:
        """Load or compute what edits share, such as statistics; its time is not counted as edit time.

        Raises `DataError` that names the command if something has to be made first.
        """

    @abstractmethod
    def edit(self, model: Model, requests: Sequence[Request]) -> Edit:
        """Return one edit that writes all requests into the model as it stands."""

    def edit_each(self, model: Model, batches: Sequence[Sequence[Request]]) -> list[Edit]:
        """Return an independent edit for each batch; override it where finding many together costs less."""
        return [self.edit(model, requests) for requests in batches]

    def extend(self, model: Model, previous: Edit, requests: Sequence[Request]) -> Edit:
        """Return ``previous`` and the requests as one edit, for sequences.

        Override it if edits share state, as a codebook or a prompt does: the default edits under
        `Model.applied`, where adaptors and prefixes have no effect.
        """
        with model.applied(previous):
            return previous + self.edit(model, requests)

    def finish(self, model: Model, edit: Edit) -> Edit:
        """Return an edit as it is measured and kept; a sequence goes on from the edit as it was before."""
        return edit


def whole(editor: Editor) -> Iterator[Editor]:
    """Yield an editor and all editors that it calls, directly or not."""
    yield editor
    for part in editor.parts:
        yield from whole(part)
