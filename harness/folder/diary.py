"""events.jsonl: when a run folder was written to, and what was odd. No number depends on it.

So nothing stops for its sake: one that is damaged is moved aside, and what cannot be noted is not.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from ..errors import HarnessError, RunFolderError
from .log import MARK, Log


class Diary:
    """The events of a run folder; it is kept open between `open` and `close`, or else for a note."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "events.jsonl"
        self._log: Log | None = None

    def open(self, mark: str) -> None:
        """Keep it open, which only the process may that holds the folder."""
        self._log = self._opened(mark)

    def note(self, mark: str, kind: str, details: dict[str, Any]) -> None:
        """Note what happened, with the local time and its zone."""
        when = datetime.now().astimezone().isoformat(timespec="seconds")
        if (into := self._log or self._opened(mark)) is None:
            return
        with suppress(HarnessError):
            into.append({"time": when, "kind": kind, **dict(sorted(details.items()))})
        if into is not self._log:
            into.close()

    def close(self) -> None:
        """Close it."""
        if self._log is not None:
            self._log.close()
        self._log = None

    def _opened(self, mark: str) -> Log | None:
        try:
            try:
                return Log(self.path, mark or "0" * MARK, policy="none")
            except RunFolderError:
                os.replace(self.path, self.path.with_name("events.bad.jsonl"))
                return Log(self.path, mark or "0" * MARK, policy="none")
        except (HarnessError, OSError):
            return None
