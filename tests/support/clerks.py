"""Stands in for a worker in tests of Ray: it does at once what a batch says, and loads nothing."""

import os
import signal
import threading
import time
from collections.abc import Iterator

from edit_harness.errors import HarnessError, ResourceError
from edit_harness.folder.record import Record
from edit_harness_plugins.commands.distributed.worker import (
    Batch,
    Came,
    Event,
    Failed,
    Finished,
    Ready,
)

PLAIN, DIES, FAILS, HAS_A_BUG, IS_SLOW = range(5)
ROWS = 3


class Clerk:
    """Yields a few rows of any batch; its one visit tells what the clerk does after the first."""

    def __init__(self, number: int) -> None:
        self.number = number

    def start(self) -> Event:
        card = {
            "pid": os.getpid(),
            "main": threading.current_thread() is threading.main_thread(),
            "interrupts": signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
            "folder": os.getcwd(),
            "said": os.environ.get("EDIT_HARNESS_SAID"),
            "threads": os.environ.get("OMP_NUM_THREADS"),
        }
        return Ready(self.number, card)

    def run(self, batch: Batch) -> Iterator[Event]:
        ((name, what),) = batch.visits[0]
        for i in range(ROWS):
            record = Record.of_no_use(f"{name}-{i}", "a stand-in")
            yield Came(self.number, [(0, record)])
            try:
                self._do(what if i == 0 else PLAIN)
            except HarnessError as error:
                yield Failed(self.number, error)
                return
        yield Finished(self.number)

    def _do(self, what: int) -> None:
        if what == DIES:
            os.kill(os.getpid(), signal.SIGKILL)
        elif what == FAILS:
            raise ResourceError("its memory is full", "free some")
        elif what == HAS_A_BUG:
            raise KeyError("a bug")
        elif what == IS_SLOW:
            time.sleep(0.5)


def dead(number: int) -> Clerk:
    """Die as a worker does whose plugin kills the interpreter."""
    os.kill(os.getpid(), signal.SIGKILL)
    return Clerk(number)
