"""The edit of a sequence, kept in the run folder until its end: a resumed run goes on from it.

It is kept once all rows of the states before are written: none is of an edit found twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from .. import files
from ..edits import Edit
from ..errors import DataError, PluginError


def keep(folder: Path, state: int, edit: Edit, notes: Mapping[str, Any]) -> None:
    """Keep an edit in place of the last, with what is known of its cases; a patch cannot be kept."""
    path = folder / f"sequence-{state}.safetensors"
    with suppress(PluginError):
        with files.replacing(path) as partial:
            edit.save(partial)
        own = {"state": state, "file": path.name, "digest": files.sha256_of(path)}
        files.put(folder / "sequence.json", files.sealed({**notes, **own}))
        clear(folder, path.name)


def kept(folder: Path, device: str) -> tuple[Edit, dict[str, Any]] | None:
    """Return the edit that is kept, and its notes with its ``state``; None if there is none as it was written."""
    with suppress(OSError, ValueError, KeyError, DataError, PluginError):
        notes = files.unsealed((folder / "sequence.json").read_bytes())
        path = folder / notes["file"]
        if files.sha256_of(path) == notes["digest"]:
            return Edit.load(path, device=device), notes
    return None


def clear(folder: Path, but: str = "") -> None:
    """Remove the edits that are kept but for one; without one, all that is kept."""
    for path in folder.glob("sequence[.-]*"):
        if not but or path.name not in (but, "sequence.json"):
            path.unlink(missing_ok=True)
