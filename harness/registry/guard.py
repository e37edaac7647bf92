"""Import and run strangers' code so that an accident stays one.

What it prints is kept from the result, and what an import changes is put back. What it writes below Python's
streams, as a process that it starts does, goes where that leads; and who calls ``os._exit`` ends the program.

This is against accidents, not against malice: a plugin is code with the rights of who runs it.
"""

from __future__ import annotations

import io
import logging
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TextIO

from . import process

SLOW = 2.0
"""Seconds that the registration of an installed package may take without a note."""

log = logging.getLogger("edit_harness")


@dataclass
class Import:
    """How an import went."""

    limit: float = math.inf
    """Seconds that it may take without a note."""
    seconds: float = 0.0
    printed: str = ""
    changed: list[str] = field(default_factory=list)
    """What it changed about the process; it is as it was."""

    @property
    def notes(self) -> Iterator[str]:
        """What a user should know of it, as ends of sentences."""
        if self.printed.strip():
            yield f"printed while it was loaded: {' '.join(self.printed.split())[:200]}"
        if self.changed:
            yield f"changed {', '.join(self.changed)} while it was loaded; that was put back"
        if self.seconds > self.limit:
            yield (
                f"took {self.seconds:.1f} s to load; its author can name factories as texts, "
                "so that they are imported when they are used"
            )


class Caught(io.TextIOBase):
    """A stream that is caught for a while. Logging that is set up meanwhile keeps it for good."""

    def __init__(self, real: TextIO | None, caught: io.StringIO) -> None:
        self.real, self.caught, self.catches = real, caught, True

    def write(self, text: str) -> int:
        """Write to what it stands for, unless that is caught."""
        to = self.caught if self.catches else self.real
        return len(text) if to is None else to.write(text)

    def flush(self) -> None:
        """Flush what it stands for."""
        if self.real is not None:  # as where there is no terminal
            self.real.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


@contextmanager
def importing(limit: float = math.inf) -> Iterator[Import]:
    """Catch what is printed, time it, and put back what changed."""
    went, printed = Import(limit), io.StringIO()
    out, err = Caught(sys.stdout, printed), Caught(sys.stderr, printed)
    before, path = process.read(), list(sys.path)
    start = time.perf_counter()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            yield went
    finally:
        went.seconds = time.perf_counter() - start
        out.catches = err.catches = False
        went.printed = printed.getvalue()
        went.changed = process.put_back(before)
        # What is added may be needed later, for factories that are texts.
        if gone := [folder for folder in path if folder not in sys.path]:
            sys.path[:0] = gone
            went.changed.append("sys.path")


@contextmanager
def measuring() -> Iterator[None]:
    """Let what plugins print go where messages go: stdout carries the result."""
    with redirect_stdout(sys.stderr):
        yield


@cache
def note(text: str) -> None:
    """Tell the user something, once in a process."""
    log.warning(text)
