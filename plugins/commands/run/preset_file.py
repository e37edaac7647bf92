"""Fields that a sweep found best, in a file: what they are, for which model, by which cases.

``sweep --save-preset`` writes it and ``--preset`` takes it: the fields count as if they were typed,
those that are typed win, and the run says that they were tuned, and whether by cases that it tests.
How the best are found is told in `edit_harness_plugins.commands.studies.sweep.landscape`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edit_harness import durable
from edit_harness.errors import DataError, ResourceError, UsageError
from edit_harness.folder.manifest import Tuning
from edit_harness.interfaces import ModelShape
from edit_harness.registry.presets import shape_of
from edit_harness.wording import counted

if TYPE_CHECKING:
    from edit_harness.model.model import Model

FORMAT = 1
KINDS: Mapping[str, type] = {
    "editor": str, "fields": dict, "chosen": list, "rest": str, "model": dict, "task": str,
    "cases": dict, "points": int, "score": dict,
}  # fmt: skip
SIZES = ("type", "layers", "hidden")
"""What two models of one shape have in common."""


@dataclass(frozen=True)
class Tuned:
    """An editor's fields for one model, and how they were found."""

    editor: str
    fields: Mapping[str, Any]
    """All that the editor would otherwise take from a preset, and what was given: JSON."""
    chosen: Sequence[str]
    """Those that were tried out."""
    rest: str
    """Where the others come from."""
    model: Mapping[str, Any]
    """name, family, type, layers, hidden, digest."""
    task: str
    cases: Mapping[str, str]
    """The marks of the cases that they were tried on, by id: see `edit_harness.run.tuning.mark`."""
    points: int
    """How many combinations were tried."""
    score: Mapping[str, Any]
    """name, value, low, high, n."""

    def over(self, editor: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return an editor's settings: these fields as they would be typed, and what is given.

        Raises `UsageError` if the fields are another editor's.
        """
        if editor != self.editor:
            raise UsageError(
                f"the preset is of editor {self.editor}, not of {editor}",
                f"add --editor {self.editor}, or leave --preset out",
            )
        return {**{name: typed(name, value) for name, value in self.fields.items()}, **given}

    def check(self, shape: ModelShape) -> None:
        """Raise `UsageError` if a model is of another shape than the one they were tuned for."""
        mine = tuple(self.model.get(size) for size in SIZES)
        if mine != tuple(getattr(shape, size) for size in SIZES):
            raise UsageError(
                f"the preset is for {self.model.get('name')} ({_shape(mine)}), not for a model of "
                f"{_shape(tuple(getattr(shape, size) for size in SIZES))}",
                "sweep on this model, with --save-preset; or leave --preset out",
            )

    def source(self, given: Mapping[str, Any], digest: str) -> str:
        """Return the fields' provenance, as presets have one, for a model with a digest."""
        low, high = (f"{100 * self.score[end]:.1f}" for end in ("low", "high"))
        told = (
            f"{', '.join(self.chosen)} by {counted(len(self.cases), 'case')} of {self.task}, "
            f"{self.score['name']} {100 * self.score['value']:.1f} ({low} to {high}), "
            f"best of {counted(self.points, 'point')}"
        )
        if digest != self.model.get("digest"):
            told += f", on other weights of this shape ({self.model.get('name')})"
        if self.rest:
            told += f"; the rest: {self.rest}"
        other = [n for n, v in given.items() if n in self.fields and v != typed(n, self.fields[n])]
        return f"tuned ({told})" + (f" but for {', '.join(other)}" if other else "")

    @property
    def entry(self) -> Tuning:
        """What the manifest of a run keeps of it."""
        return Tuning(
            fields=list(self.chosen),
            task=self.task,
            cases=len(self.cases),
            cases_sha256=self.digest,
            marks=sorted(self.cases.values()),
            score=dict(self.score),
        )

    @property
    def digest(self) -> str:
        """SHA-256 over the cases' ids and marks."""
        return durable.digest(dict(self.cases))

    def save(self, path: Path) -> None:
        """Write it as JSON, with a digest of all of it. Raises `ResourceError`."""
        try:
            durable.put(path, durable.sealed({"format": FORMAT, **asdict(self)}))
        except OSError as error:
            raise ResourceError(
                f"{path} cannot be written: {error.strerror}", "name another file: --save-preset"
            ) from None


def over(
    tuned: Tuned | None, editor: str, args: Mapping[str, Any], model: Model
) -> tuple[dict[str, Any], str]:
    """Return an editor's settings on a model, with those that were tuned, and where these come from.

    Raises `UsageError` if they are of another editor or a model of another shape.
    """
    if tuned is None:
        return dict(args), ""
    settings = tuned.over(editor, args)
    tuned.check(shape_of(model.module.config, model.source.family))
    return settings, tuned.source(args, model.digest)


def read(path: Path) -> Tuned:
    """Return the preset of a file. Raises `DataError` if it is none, or not as it was written."""
    remedy = "name a file that `edit-harness sweep --save-preset FILE` has written"
    try:
        data = path.read_bytes()
        found = durable.strict(data)
    except OSError as error:
        raise DataError(f"the preset {path} cannot be read: {error.strerror}", remedy) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"the preset {path} is no JSON: {error}", remedy) from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise DataError(f"{path} is no preset of format {FORMAT}", remedy)
    if wrong := [name for name, kind in KINDS.items() if not isinstance(found.get(name), kind)]:
        raise DataError(f"the preset {path} has no {wrong[0]}, or a wrong one", remedy)
    if not _is_score(found["score"]):
        raise DataError(f"the preset {path} has no score, or a wrong one", remedy)
    try:
        durable.unsealed(data)
    except ValueError as error:
        remedy = "sweep again, with --save-preset; fields of your own: --editor-args"
        raise DataError(f"the preset {path} is not to be trusted: {error}", remedy) from None
    return Tuned(**{name: found[name] for name in KINDS})


def _is_score(score: Mapping[str, Any]) -> bool:
    """Tell whether a score is a share of something, with an interval."""
    ends = [score.get(name) for name in ("value", "low", "high")]
    return isinstance(score.get("name"), str) and all(
        isinstance(end, int | float) and not isinstance(end, bool) and 0 <= end <= 1 for end in ends
    )


def typed(name: str, value: Any) -> str:
    """Return a field's value as it would be typed. Raises `DataError` for what nobody can type."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(typed(name, item) for item in value)
    if isinstance(value, str | int | float):
        return str(value)
    raise DataError(f"field {name} of the preset is no text, number or list: {value!r:.40}")


def _shape(sizes: tuple[Any, ...]) -> str:
    return "{}, {} layers of width {}".format(*sizes)
