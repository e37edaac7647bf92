"""Whether a manifest is of the form that a run writes, so that nothing stumbles over a stranger's.

Its values are not judged here: that a name is installed or a digest right is told where it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any

from ..errors import RunFolderError

ANY = (dict, NoneType)
KINDS: Mapping[str, Any] = {
    "cases": list, "visits": int, "label": str, "preset": str, "metrics": list, "judged_by": ANY,
    "tuned": ANY, "tuned.fields": list, "tuned.task": str, "tuned.cases": int, "tuned.tested": int,
    "tuned.marks": list,
    "judge_settings": ANY, "preview": ANY, "preview.floor": (int, float), "model": dict,
    "model.path": str, "identity": dict, "identity.seed": int, "identity.judge": ANY,
    "identity.regime": dict, "identity.regime.mode": str, "identity.regime.checkpoints": list,
    "identity.task": dict, "identity.task.name": str, "identity.model": dict,
    "identity.model.dtype": str, "identity.editor": dict, "identity.editor.name": str,
    "identity.editor.version": str, "identity.editor.fields": dict,
    "identity.editor.provenance": dict, "identity.controls": list, "identity.sample": int,
    "model.name": str, "model.note": (str, NoneType),
    "model.revision": (str, NoneType), "task": dict, "task.origin": (str, NoneType),
    "task.notes": list, "task.trimmed": int, "task.conflicts": str, "distributions": list,
    "environment": dict, "segments": list, "shard": dict,
    "shard.number": int, "shard.of": int, "shard.cases": list, "shard.cases_digest": str,
    "shard.planned": int, "shard.spans": list, "shard.visits": list,
}  # fmt: skip
"""The kinds of entries, by the names that lead to them."""
NEEDED = ("identity.seed", "identity.judge", "identity.regime.mode", "identity.regime.checkpoints")
"""What reading a run needs; computing its numbers needs the following too."""
SHARD = tuple(name for name in KINDS if name.startswith("shard."))
"""What the manifest of a shard has to have."""
NUMBERED = ("model.path", "identity.task.name", "identity.model.dtype")
SHOWN = (
    "identity.editor.name", "identity.editor.version", "identity.editor.fields",
    "identity.editor.provenance", "model.name",
)  # fmt: skip
"""What a page of the run shows, and every run has."""
NUMERIC = ("torch", "transformers", "tokenizers", "numpy", "cuda", "processor")
"""What of an environment numbers may depend on: on another Python, system or number of threads, less."""
JUDGE = {"name": str, "version": str, "fields": dict, "provenance": dict}
"""What a judge has in it, under ``judged_by`` and ``identity.judge``, and a control."""


def check(manifest: Mapping[str, Any], folder: Path, *, numbers: bool = False) -> None:
    """Raise `RunFolderError` for an entry of a wrong kind, or one that is missing.

    ``numbers`` asks for what results are written with, too.
    """
    needed = (*NEEDED, *(NUMBERED if numbers else ()), *(SHARD if "shard" in manifest else ()))
    for name in wrong(manifest, needed, judges=numbers):
        raise damaged(folder, name)


def wrong(
    manifest: Mapping[str, Any], needed: Sequence[str], *, judges: bool = True
) -> Iterator[str]:
    """Yield the names of entries that are of a wrong kind, or missing though they are needed."""
    for name, kind in KINDS.items():
        value = at(manifest, name)
        if name in needed if value is ... else not _is(value, kind):
            yield name
    for name in ("cases", "metrics", "tuned.marks"):
        values = at(manifest, name)
        if values is not ... and not _all(values, str):
            yield name
    if not _all(manifest.get("distributions", ()), dict):
        yield "distributions"
    if not _all(manifest.get("segments", []), dict) or not all(
        map(_is_segment, segments(manifest))
    ):
        yield "segments"
    for name in ("judged_by", "identity.judge") if judges else ():
        judge = at(manifest, name)
        if isinstance(judge, dict) and not _is_judge(judge):
            yield name
    controls = at(manifest, "identity.controls")
    if isinstance(controls, list) and not all(
        _is_judge(each) and isinstance(each.get("id"), str) for each in controls
    ):
        yield "identity.controls"
    seed = at(manifest, "identity.seed")
    if isinstance(seed, int) and seed < 0:
        yield "identity.seed"


def segments(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what a run's rows were made with: environments, each with the rows ``from`` and ``to``.

    The last one goes to the end, and has no ``to``. A run of before there were segments has one.
    """
    old = manifest.get("environment")
    found: list[dict[str, Any]] = manifest.get("segments", [])
    return [{"from": 0, "to": None, "environment": old}] if old and not found else found


def extended(
    manifest: Mapping[str, Any], seq: int, environment: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the segments of a run whose rows are made in an environment from one on."""
    known = [s for s in segments(manifest) if s["from"] < seq]
    if seq and not known:  # the manifest was lost
        known = [{"from": 0, "environment": {}}]
    if known and known[-1]["environment"] == environment:
        return [*known[:-1], {**known[-1], "to": None}]
    ended = [{**segment, "to": seq - 1} for segment in known[-1:]]
    return [*known[:-1], *ended, {"from": seq, "to": None, "environment": dict(environment)}]


def values(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return what a run was made with, each value by its name; several where that has changed."""
    found: dict[str, dict[str, None]] = {}
    for segment in segments(manifest):
        for name, value in segment["environment"].items():
            found.setdefault(name, {})[str(value)] = None
    return {name: ", ".join(each) for name, each in found.items()}


def software(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Say in what two environments differ that numbers may depend on; what is not known of one is not."""
    return [
        f"{name} {other[name]}, not {one[name]}"
        for name in NUMERIC
        if name in one and name in other and one[name] != other[name]
    ]


def _is_segment(value: Mapping[str, Any]) -> bool:
    kinds = {"from": int, "to": (int, NoneType), "environment": dict, "asked": ANY}
    return all(_is(value.get(name), kind) for name, kind in kinds.items())


def _is(value: Any, kind: Any) -> bool:
    """Tell whether a value is of a kind; a truth is no number, though it is one in Python."""
    return isinstance(value, kind) and not isinstance(value, bool)


def _all(values: Any, kind: type) -> bool:
    return isinstance(values, list | tuple) and all(isinstance(value, kind) for value in values)


def _is_judge(entry: Any) -> bool:
    return isinstance(entry, Mapping) and all(
        isinstance(entry.get(name), kind) for name, kind in JUDGE.items()
    )


def at(manifest: Any, name: str) -> Any:
    """Return the entry to which names lead; an ellipsis, which JSON has not, if there is none."""
    for part in name.split("."):
        if not isinstance(manifest, Mapping) or part not in manifest:
            return ...
        manifest = manifest[part]
    return manifest


def damaged(folder: Path, name: str) -> RunFolderError:
    """Return the error for an entry that is missing, or of a wrong kind."""
    return RunFolderError(
        f"the manifest of {folder} is damaged: {name} is missing or of another kind",
        "the command that made the run writes it again",
    )
