"""Signals: Ctrl-C, SIGTERM, a closed terminal, and an alarm for what takes too long.

The first of those raises an error wherever the program is, so that edits are undone; a second one ends the process.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from ..errors import Expired, Terminated

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143}
"""The exit code of each signal. A closed terminal is as SIGTERM."""


def install() -> None:
    """Handle the signals whatever the process that started this one did, but for ``nohup``, which is a user's wish."""
    asked: set[int] = set()

    def end(number: int, frame: FrameType | None) -> None:
        if asked:
            if sys.stderr.isatty():  # the bar of progress hides the cursor
                os.write(sys.stderr.fileno(), b"\x1b[?25h")
            os._exit(CODES[signal.Signals(number)])
        asked.add(number)
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated

    for number in CODES:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Raise `Expired` in the block if it takes longer; None is no limit.

    The alarm is a signal, so there is one in the main thread only; and what hangs inside a single call
    of compiled code is not ended before that call returns.
    """
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_: object) -> None:
        raise Expired(f"it took longer than {seconds:.3g} s")

    handler = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
