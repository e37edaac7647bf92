"""A preset file, of ``sweep --save-preset`` for ``--preset``: fields that count as if they were typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from edit_harness import files
from edit_harness.errors import DataError, UsageError, counted
from edit_harness.folder.manifest import Tuning, as_json, decoded

from ..report import written

if TYPE_CHECKING:
    from edit_harness.model.model import Model


class Score(Struct, frozen=True):
    """What the best point has reached."""

    name: str
    value: float
    low: float
    high: float
    n: int


class TunedModel(Struct, frozen=True, kw_only=True):
    """The model that fields were tuned for."""

    name: str
    family: str
    type: str
    layers: int
    hidden: int
    digest: str


class Tuned(Struct, frozen=True, kw_only=True):
    """An editor's fields for one model, and how they were found."""

    format: Literal[1] = 1
    editor: str
    fields: Mapping[str, Any]
    """All that the editor would otherwise take from a preset, and what was given."""
    chosen: Sequence[str]
    """Those that were tried out."""
    rest: str
    """Where the others come from."""
    model: TunedModel
    task: str
    cases: Mapping[str, str]
    """The marks of the cases that they were tried on, by id: see `edit_harness_plugins.composition.mark`."""
    points: int
    """How many combinations were tried."""
    score: Score

    def over(self, editor: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return these fields as they would be typed, and what is given. Raises `UsageError` for another editor."""
        if editor != self.editor:
            raise UsageError(
                f"the preset is of editor {self.editor}, not of {editor}",
                f"add --editor {self.editor}, or leave --preset out",
            )
        return {**{name: typed(value) for name, value in self.fields.items()}, **given}

    def source(self, given: Mapping[str, Any], digest: str) -> str:
        """Return the fields' provenance, as presets have one, for a model with a digest."""
        score = self.score
        value, low, high = (f"{100 * each:.1f}" for each in (score.value, score.low, score.high))
        told = (
            f"{', '.join(self.chosen)} by {counted(len(self.cases), 'case')} of {self.task}, "
            f"{score.name} {value} ({low} to {high}), best of {counted(self.points, 'point')}"
        )
        if digest != self.model.digest:
            told += f", on another model ({self.model.name})"
        if self.rest:
            told += f"; the rest: {self.rest}"
        other = [n for n, v in given.items() if n in self.fields and v != typed(self.fields[n])]
        return f"tuned ({told})" + (f" but for {', '.join(other)}" if other else "")

    @property
    def entry(self) -> Tuning:
        """What the manifest of a run keeps of it."""
        return Tuning(
            fields=list(self.chosen),
            task=self.task,
            cases=len(self.cases),
            cases_sha256=files.digest(dict(self.cases)),
            marks=sorted(self.cases.values()),
            score=as_json(self.score),
        )

    def save(self, path: Path) -> None:
        """Write it as JSON, with a digest of all of it. Raises `ResourceError`."""
        with written(path, "name another file: --save-preset"):
            files.put(path, files.sealed(as_json(self)))


def over(
    tuned: Tuned | None, editor: str, args: Mapping[str, Any], model: Model
) -> tuple[dict[str, Any], str]:
    """Return an editor's settings on a model, and where those that were tuned come from."""
    if tuned is None:
        return dict(args), ""
    return tuned.over(editor, args), tuned.source(args, model.digest)


def read(path: Path) -> Tuned:
    """Return the preset of a file. Raises `DataError` if it is none, or not as it was written."""
    remedy = "name a file that `edit-harness sweep --save-preset FILE` has written, as it is"
    try:
        return decoded(files.unsealed(path.read_bytes()), Tuned)
    except OSError as error:
        raise DataError(f"the preset {path} cannot be read: {error.strerror}", remedy) from None
    except ValueError as error:
        raise DataError(f"{path} is no preset: {error}", remedy) from None


def typed(value: Any) -> str:
    """Return a field's value as it would be typed."""
    if isinstance(value, list | tuple):
        return ",".join(map(typed, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
