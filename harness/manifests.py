"""Whether a manifest is of the form that a run writes, so that nothing stumbles over a stranger's.

Its values are not judged here: that a name is installed or a digest right is told where it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import Any

from edit_harness.errors import RunFolderError

ANY = (dict, NoneType)
KINDS: Mapping[str, Any] = {
    "cases": list, "visits": int, "label": str, "preset": str, "metrics": list, "judged_by": ANY,
    "judge_settings": ANY, "preview": ANY, "preview.floor": (int, float), "model": dict,
    "model.path": str, "identity": dict, "identity.seed": int, "identity.judge": ANY,
    "identity.regime": dict, "identity.regime.mode": str, "identity.regime.checkpoints": list,
    "identity.task": dict, "identity.task.name": str, "identity.model": dict,
    "identity.model.dtype": str,
}  # fmt: skip
"""The kinds of entries, by the names that lead to them."""
NEEDED = ("identity.seed", "identity.judge", "identity.regime.mode", "identity.regime.checkpoints")
"""What reading a run needs; computing its numbers needs the following too."""
NUMBERED = ("model.path", "identity.task.name", "identity.model.dtype")
JUDGE = {"name": str, "version": str, "fields": dict, "provenance": dict}
"""What a judge has in it, under ``judged_by`` and ``identity.judge``."""


def check(manifest: Mapping[str, Any], folder: Path, *, numbers: bool = False) -> None:
    """Raise `RunFolderError` for an entry of a wrong kind, or one that is missing.

    ``numbers`` asks for what results are written with, too.
    """
    for name, kind in KINDS.items():
        if (value := _at(manifest, name)) is not ... and not isinstance(value, kind):
            raise _damaged(folder, name)
    for name in (*NEEDED, *(NUMBERED if numbers else ())):
        if _at(manifest, name) is ...:
            raise _damaged(folder, name)
    for name in ("cases", "metrics"):
        if not all(isinstance(text, str) for text in manifest.get(name, ())):
            raise _damaged(folder, name)
    for name in ("judged_by", "identity.judge") if numbers else ():
        judge = _at(manifest, name)
        if isinstance(judge, dict) and not _is_judge(judge):
            raise _damaged(folder, name)
    if manifest["identity"]["seed"] < 0:
        raise _damaged(folder, "identity.seed")


def _is_judge(entry: Mapping[str, Any]) -> bool:
    return all(isinstance(entry.get(name), kind) for name, kind in JUDGE.items())


def _at(manifest: Any, name: str) -> Any:
    """Return the entry to which names lead; an ellipsis, which JSON has not, if there is none."""
    for part in name.split("."):
        if not isinstance(manifest, Mapping) or part not in manifest:
            return ...
        manifest = manifest[part]
    return manifest


def _damaged(folder: Path, name: str) -> RunFolderError:
    return RunFolderError(
        f"the manifest of {folder} is damaged: {name} is missing or of another kind",
        "the command that made the run writes it again",
    )
