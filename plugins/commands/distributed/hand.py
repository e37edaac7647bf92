"""What is in a worker's process on Ray: a worker, and the pulse that shows that it lives. It imports no Ray.

Ray calls its methods one after the other in the main thread, where alarms ring, and streams what they
yield to the driver.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from typing import Any

from edit_harness.errors import HarnessError
from edit_harness.registry.registry import Plugins

from .crew import Came, Event, Failed, Finished, Ready, Unit
from .heartbeats import Pulse


class Hand:
    """What is in a worker's process: it works in the main thread, where alarms ring."""

    def __init__(self, number: int, roll: Any, patience: float, folder: str) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver's to handle
        with suppress(OSError):  # another machine may not have it
            os.chdir(folder)
        self.number = number
        Pulse(partial(roll.beat.remote, number), patience).start()

    def start(self, make: Callable[[], Any]) -> Iterator[Event]:
        """Load what there is to load; yield what came of it."""
        try:
            self._worker = make()
            yield Ready(self.number, self._worker.card())
        except HarnessError as error:
            yield Failed(self.number, None, error)

    def work(self, unit: Unit) -> Iterator[Event]:
        """Run a unit; yield its rows as they are made, and last what came of it."""
        try:
            for made in self._worker.work(unit):
                yield Came(self.number, unit.number, *made)
            yield Finished(self.number, unit.number)
        except HarnessError as error:
            yield Failed(self.number, unit.number, error)

    def surroundings(self) -> dict[str, Any]:
        """Say what the process has to work with."""
        return surroundings(Plugins.installed())


def surroundings(plugins: Plugins) -> dict[str, Any]:
    """Return what this process has, as `edit_harness_plugins.commands.distributed.worker.surroundings` has it, and its Ray."""
    from edit_harness.loading.loading import pick_device

    from . import worker

    said = worker.surroundings(plugins, pick_device("auto"))
    return {**said, "versions": {**said["versions"], "ray": version("ray")}}
