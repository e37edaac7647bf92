"""Signals: Ctrl-C, SIGTERM, a closed terminal.

The first raises an error wherever the program is, so that edits are undone; a second one ends the process.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from ..errors import Terminated

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
