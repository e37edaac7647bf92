"""The edit of a sequence, kept in the run folder until its end: a resumed run goes on from it.

It is kept once all rows of the states before are written, so that none is made under an edit that was
found twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import files
from ..edits import Edit
from ..errors import DataError, PluginError


@dataclass(frozen=True)
class KeptEdit:
    """The edit after a state of a sequence, and what is known of the cases so far."""

    state: int
    edit: Edit
    notes: Mapping[str, Any]
    """JSON: diagnostics, seconds and failures by case."""

    @classmethod
    def load(cls, folder: Path, device: str) -> KeptEdit | None:
        """Return what `save` kept; None if there is nothing, or not as it was written."""
        try:
            notes = files.unsealed((folder / DOCUMENT).read_bytes())
            path = folder / notes["file"]
            if files.sha256_of(path) == notes["digest"]:
                return cls(notes["state"], Edit.load(path, device=device), notes)
        except (OSError, ValueError, KeyError, DataError, PluginError):
            pass
        return None

    def save(self, folder: Path) -> None:
        """Keep this in place of what was; an edit that cannot be saved, such as a patch, is not kept."""
        path = folder / f"sequence-{self.state}.safetensors"
        try:
            with files.replacing(path) as partial:
                self.edit.save(partial)
        except PluginError:
            return
        own = {"state": self.state, "file": path.name, "digest": files.sha256_of(path)}
        files.put(folder / DOCUMENT, files.sealed({**self.notes, **own}))
        clear(folder, but=path)


DOCUMENT = "sequence.json"


def clear(folder: Path | None, but: Path | None = None) -> None:
    """Remove the edits that are kept in a folder, but for one; without one, all that is kept."""
    if not folder:
        return
    with suppress(OSError):
        for path in folder.glob("sequence-*.safetensors"):
            if path != but:
                path.unlink()
        if but is None:
            (folder / DOCUMENT).unlink(missing_ok=True)
