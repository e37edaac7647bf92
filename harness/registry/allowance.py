"""How long a case may take, and an alarm that ends what takes longer.

The alarm is a signal, so there is one in the main thread only; and what hangs inside a single call
of compiled code is not ended before that call returns.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from ..errors import Expired

LEAST = 300.0
"""Seconds that any case may take unless the user says otherwise."""
TIMES = 10
"""A case may take so many times what the median of the cases before it took."""


class Allowance:
    """What the cases of a run may take: ``seconds`` each, or as the cases before them say."""

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds
        self._taken: list[float] = []

    def took(self, seconds: float) -> None:
        """Take in what a case took."""
        self._taken.append(seconds)

    def of(self, cases: int) -> float:
        """Return how many seconds so many cases may take together."""
        if self.seconds is not None:
            return cases * self.seconds
        return max(LEAST, cases * (TIMES * median(self._taken) if self._taken else LEAST))

    @contextmanager
    def spent_on(self, cases: int) -> Iterator[None]:
        """Raise `Expired` in the block if it takes longer than so many cases may."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        allowed = self.of(max(cases, 1))

        def ring(*_: Any) -> None:
            raise Expired(f"it took longer than {allowed:.3g} s")

        handler = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, allowed)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler)
