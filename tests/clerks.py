"""What stands in for a worker in tests of crews: it does at once what a unit's number says, and loads nothing."""

import ctypes
import hashlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

from edit_harness.allowance import Allowance
from edit_harness.errors import ResourceError
from edit_harness.folder.record import Record
from edit_harness_plugins.commands.distributed.crew import Unit

PLAIN, DIES, IS_STOPPED, HOLDS_THE_LOCK, HEARS_NO_ALARM, FAILS, HAS_A_BUG, IS_SLOW = range(8)
ROWS = 3


class Clerk:
    """Yields a few rows of any unit; what it does after the first is told by the unit's number modulo 8."""

    def card(self) -> dict[str, Any]:
        """Return what tests look at."""
        return {
            "pid": os.getpid(),
            "main": threading.current_thread() is threading.main_thread(),
            "interrupts": signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
            "folder": os.getcwd(),
            "said": os.environ.get("EDIT_HARNESS_SAID"),
            "threads": os.environ.get("OMP_NUM_THREADS"),
        }

    def work(self, unit: Unit) -> Iterator[tuple[Any, Any, Any]]:
        """Yield rows, and do what the number says after the first."""
        for i in range(ROWS):
            yield [("0", Record.of_no_use(f"{unit.number}-{i}", "a stand-in"))], [], []
            if i == 0:
                self._do(unit.number % 8)

    def _do(self, what: int) -> None:
        if what == DIES:
            os.kill(os.getpid(), signal.SIGKILL)
        elif what == IS_STOPPED:
            os.kill(os.getpid(), signal.SIGSTOP)
        elif what == HOLDS_THE_LOCK:
            ctypes.PyDLL(None).pause()
        elif what == HEARS_NO_ALARM:
            with Allowance(0.1).spent_on(1):
                hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
        elif what == FAILS:
            raise ResourceError("its memory is full", "free some")
        elif what == HAS_A_BUG:
            raise KeyError("a bug")
        elif what == IS_SLOW:
            time.sleep(0.5)


def broken() -> Clerk:
    """Fail as a worker does that cannot load its model."""
    raise ResourceError("the model does not fit (worker on a host)", "use a smaller one")


def dead() -> Clerk:
    """Die as a worker does whose plugin kills the interpreter."""
    os.kill(os.getpid(), signal.SIGKILL)
    return Clerk()
