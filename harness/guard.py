"""Import and run strangers' code so that an accident stays one.

What it prints is kept from the result, what an import changes is put back, and nothing ends the program from within.

This is against accidents, not against malice: a plugin is code with the rights of who runs it.
"""

from __future__ import annotations

import ctypes
import fcntl
import io
import logging
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NoReturn, TextIO

from edit_harness import process

SLOW = 2.0
"""Seconds that the registration of an installed package may take without a note."""

LIBRARIES = (
    "sys.path",
    "the warnings filters",
    "the root logger's level",
    "numpy's handling of errors",
)
"""What large libraries set when they are imported, to no harm of the numbers."""

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
    before = {name: state for name, state in process.read().items() if name not in LIBRARIES}
    path = list(sys.path)
    start = time.perf_counter()
    try:
        with _result_apart(), redirect_stdout(out), redirect_stderr(err):
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
    """Let what plugins print go where messages go, and let none of them end the program."""
    with _result_apart(), redirect_stdout(sys.stderr), staying():
        yield


@contextmanager
def staying() -> Iterator[None]:
    """Make ``os._exit`` raise `SystemExit` in this process; those that it starts may end as they like."""
    ours, real = os.getpid(), os._exit

    def stay(status: int) -> NoReturn:
        if os.getpid() != ours:
            real(status)
        raise SystemExit(f"os._exit({status}) was called, which would have ended the whole run")

    os._exit = stay
    try:
        yield
    finally:
        os._exit = real


@contextmanager
def _result_apart() -> Iterator[None]:
    """Let what is written below Python's streams go where messages go: stdout carries the result."""
    _flush()
    try:
        kept = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    except OSError:  # it is closed
        yield
        return
    try:
        _turn_to_messages()
        yield
    finally:
        _flush()
        os.dup2(kept, 1)
        os.close(kept)


def _turn_to_messages() -> None:
    try:
        os.dup2(2, 1)
    except OSError:  # there are none
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)


def _flush() -> None:
    """Write what Python's streams and C's hold back to where they lead at present."""
    for stream in (sys.__stdout__, sys.stdout):
        with suppress(AttributeError, OSError, ValueError):  # none, broken, closed
            stream.flush()  # type: ignore[union-attr]
    with suppress(AttributeError, OSError):  # not every system has it
        ctypes.CDLL(None).fflush(None)


@cache
def note(text: str) -> None:
    """Tell the user something, once in a process."""
    log.warning(text)
