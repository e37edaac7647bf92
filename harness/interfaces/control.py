"""A control: what edited models do besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from ..data import Graded, Query

if TYPE_CHECKING:
    from ..model.model import Model


class Control:
    """Asks edited models what no edit is about, so that side effects show; see `edit_harness.run.effects`.

    It has either a `query`, for any edit, or its own `examine`, which sees a module that holds the edit: an
    edit by adaptors or a prefix is refused there before the run.
    """

    version: ClassVar[str] = "0"
    citation: ClassVar[str] = ""
    needs: ClassVar[str] = ""
    """What has to be installed or at hand, in a few words."""
    note: ClassVar[str] = ""
    """What a reader of its numbers must know."""
    takes: ClassVar[str] = ""
    """The field that ``--control NAME:VALUE`` sets; empty if there is none."""
    practical: ClassVar[Sequence[str]] = ()
    """The fields that change no number; they do not identify it. What they lead to belongs into `provenance`."""

    @property
    def provenance(self) -> Mapping[str, str]:
        """What its numbers depend on besides fields and version, such as a digest of its documents."""
        return {}

    def load(self) -> None:
        """Load what it needs besides a model, such as its documents.

        Raises `UsageError` for settings that name nothing, and `DataError` for data that are not there.
        """

    def prepare(self, model: Model) -> None:
        """Get ready for a model, which stays as it is; called again for each copy of it."""

    def query(self, model: Model) -> Query | None:
        """Return what each edited model is asked; None if `examine` is to measure it."""
        return None

    def examine(self) -> Graded:
        """Measure the model that it was prepared for, whose module holds an edit now, or none.

        The same model and documents give the same marks. What it changes about the process is put
        back. It is not called if there is a `query`.
        """
        raise NotImplementedError(f"{type(self).__name__} neither asks a query nor examines")
