"""Heartbeats: what tells a worker that is at work from one that will never answer. It imports no Ray.

A worker's process beats from a thread of its own, so that a long computation does not silence it. One
that was stopped, or in which something holds Python's lock for good, falls silent; so does one whose
main thread does not come back from a call of compiled code when the time of its cases is over. What
becomes of who is silent is the crew's matter.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from edit_harness import allowance

BEATS = 6
"""Beats in the time for which silence is suffered, so that one that is late or lost does not count."""


@dataclass
class Pulse:
    """Beats for a process for as long as it lives, and for as long as its alarms are heard."""

    beat: Callable[[], object]
    """Tells somebody else that this process lives; what it raises is not minded."""
    patience: float
    """Seconds for which silence is suffered."""
    unheard: Callable[[], bool] = allowance.unheard

    def start(self) -> None:
        """Beat at once, and go on in a thread that ends with the process."""
        self.once()
        threading.Thread(target=self._run, name="pulse", daemon=True).start()

    def once(self) -> None:
        """Beat, unless an alarm rang that nobody heard."""
        if not self.unheard():
            with suppress(Exception):
                self.beat()

    def _run(self) -> None:
        while True:
            time.sleep(self.patience / BEATS)
            self.once()


@dataclass
class Roll:
    """When each worker was last heard of, all by the clock of the process that holds it."""

    clock: Callable[[], float] = time.monotonic
    _last: dict[int, float] = field(default_factory=dict)

    def beat(self, worker: int) -> None:
        """Note that a worker has just been heard of."""
        self._last[worker] = self.clock()

    def silences(self) -> dict[int, float]:
        """Return the seconds since each worker was last heard of."""
        now = self.clock()
        return {worker: now - last for worker, last in self._last.items()}
