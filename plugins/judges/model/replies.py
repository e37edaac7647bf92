"""What servers have answered, on disk by the content of what was asked, so that it is paid once.

Whoever asks gives all that an answer depends on, and never a key of a server. A file that cannot be
read is as good as none; one that cannot be written costs only the next question.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Replies:
    """A folder of answers; without one, nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def get(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return what was answered; nothing if that is not known."""
        if not (path := self._path(asked)):
            return {}
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def put(self, asked: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Keep an answer."""
        if not (path := self._path(asked)):
            return
        # Two processes may write the same answer at once.
        part = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                part.write_text(json.dumps(answer), encoding="utf-8")
                os.replace(part, path)
            finally:
                part.unlink(missing_ok=True)

    def _path(self, asked: Mapping[str, Any]) -> Path | None:
        mark = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
        return self.folder / mark[:2] / f"{mark}.json" if self.folder else None
