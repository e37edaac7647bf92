"""The crew on Ray: an actor for each worker.

What an actor makes streams back as it is made. Ray restarts and repeats nothing here: who dies is told
as `Died`, and what becomes of a unit then is `edit_harness_plugins.commands.distributed.pool`'s matter. Ray itself is
`edit_harness_plugins.commands.distributed.connection`'s, and how many workers there can be is told in
`edit_harness_plugins.commands.distributed.places`.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from edit_harness import signals
from edit_harness.errors import HarnessError, PluginError, ResourceError
from edit_harness.registry.guard import said

from .connection import connected, nodes, ray
from .crew import Died, Event, Failed, Unit
from .hand import Hand
from .heartbeats import BEATS, Roll
from .places import Demand, Settings, demanded, seats

if TYPE_CHECKING:
    from .worker import Order, Worker

TRAVELS = ("EDIT_HARNESS_", "OMP_NUM_THREADS", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
"""Beginnings of the variables that a worker gets from the command's environment; none is a secret."""
STEP = 1.0
"""Seconds of a wait that are not interrupted."""
log = logging.getLogger(__name__)


@contextmanager
def ready(settings: Settings) -> Generator[int]:
    """Start or join Ray for a while, and yield how many workers there are to be.

    Raises `UsageError` if Ray is not installed, `ResourceError` if no cluster answers or it has no
    room for the workers wished.
    """
    with connected(settings):
        yield _demand(settings).workers


def crew(order: Order, settings: Settings) -> Actors:
    """Return a crew that nobody is hired for yet. Raises what `ready` raises."""
    return staff(partial(_employed, order), settings)


def _employed(order: Order) -> Worker:
    from .worker import Worker

    return Worker(order)


def staff(make: Callable[[], Any], settings: Settings) -> Actors:
    """Return a crew as `crew` does, of whatever ``make`` returns in a worker's process.

    That has ``card`` and ``work`` as `edit_harness_plugins.commands.distributed.worker.Worker` has them.
    """
    with ExitStack() as stack:
        stack.enter_context(connected(settings))
        return Actors(make, settings, _demand(settings), stack.pop_all())


def _demand(settings: Settings) -> Demand:
    with signals.held():
        return demanded(nodes(), settings)


@dataclass
class _Hired:
    """A worker as its crew knows it."""

    handle: Any
    stream: Any
    """Yields what it is at; None if it is free."""
    unit: int | None = None
    since: float = 0.0
    placed: bool = False


class Actors:
    """A `Crew` whose workers are Ray's actors; it holds Ray until it is closed."""

    def __init__(
        self, make: Callable[[], Any], settings: Settings, demand: Demand, held: ExitStack
    ) -> None:
        self._settings, self._demand, self._held = settings, demand, held
        self._make = ray().put(make)
        self._roll = _roll()
        self._numbers = count()
        self._hired: dict[int, _Hired] = {}
        self._asked: Any = None
        self._when = time.monotonic()

    @property
    def size(self) -> int:
        """How many workers there are to be."""
        return self._demand.workers

    @signals.held()
    def hire(self) -> int:
        """Start another worker, wherever there is room; nodes get workers in turn."""
        number = next(self._numbers)
        handle = _actor(number, self._roll, self._demand, self._settings, "SPREAD")
        self._hired[number] = _Hired(
            handle, _streaming(handle.start).remote(self._make), since=time.monotonic()
        )
        return number

    @signals.held()
    def send(self, worker: int, unit: Unit) -> None:
        """Give a worker that is free its next unit."""
        hired = self._hired[worker]
        hired.stream, hired.unit = _streaming(hired.handle.work).remote(unit), unit.number

    def events(self, timeout: float) -> Iterator[Event]:
        """Yield what has happened, after so many seconds at the latest; maybe nothing."""
        with signals.held():
            happened = list(self._events(timeout))
        yield from happened

    def _events(self, timeout: float) -> Iterator[Event]:
        for number in self._with_news(timeout):
            if number in self._hired:
                yield from self._next(number)
        if (silences := self._silences()) is not None:
            yield from self._silent(silences)
            yield from self._without_place()

    def _with_news(self, timeout: float) -> list[int]:
        streams = {id(h.stream): (n, h.stream) for n, h in self._hired.items() if h.stream}
        waited = [stream for _, stream in streams.values()]
        if not waited:
            time.sleep(timeout)
            return []
        ray().wait(waited, timeout=timeout)
        ready, _ = ray().wait(waited, num_returns=len(waited), timeout=0)
        return [streams[id(stream)][0] for stream in ready]

    def _next(self, number: int) -> Iterator[Event]:
        """Yield the next event that a worker has made."""
        hired, problems = self._hired[number], ray().exceptions
        try:
            event = ray().get(next(hired.stream))
        except StopIteration:
            hired.stream = None
            return
        except problems.RayTaskError as error:
            log.debug("a worker's error", exc_info=error)
            hired.stream, event = None, Failed(number, hired.unit, _unforeseen(error))
        except problems.RayError as error:
            log.debug("a worker's end", exc_info=error)
            self.dismiss(number)
            event = Died(number, _why(str(error)))
        yield event

    def _silences(self) -> dict[int, float] | None:
        """Return the seconds since each worker was heard of; None if that was not asked lately."""
        if self._asked is None:
            patience = min(self._settings.heartbeat, self._settings.placement)
            if time.monotonic() - self._when >= patience / BEATS:
                self._asked = self._roll.silences.remote()
            return None
        answered, _ = ray().wait([self._asked], timeout=0)
        if not answered:
            return None
        answer, self._asked, self._when = self._asked, None, time.monotonic()
        try:
            return dict(ray().get(answer))
        except ray().exceptions.RayError:  # it is started again
            return None

    def _silent(self, silences: Mapping[int, float]) -> Iterator[Event]:
        """Yield the death of each worker that was silent for too long."""
        for number, seconds in silences.items():
            if number in self._hired:
                self._hired[number].placed = True
                if seconds > self._settings.heartbeat:
                    self.dismiss(number)
                    yield Died(number, f"it was silent for {seconds:.0f} s and was killed")

    def _without_place(self) -> Iterator[Event]:
        """Yield a failure for each worker that got no place in time.

        Who is to replace another one may wait for as long as others work: a node may be gone for good.
        """
        patience, now = self._settings.placement, time.monotonic()
        others = any(hired.placed for hired in self._hired.values())
        for number, hired in list(self._hired.items()):
            waits = number >= self.size and others
            if not hired.placed and now - hired.since > patience and not waits:
                self.dismiss(number)
                yield Failed(number, None, _no_place(self._demand, patience))

    @signals.held()
    def dismiss(self, worker: int) -> None:
        """Kill a worker; nothing more is heard of it."""
        if hired := self._hired.pop(worker, None):
            with suppress(ray().exceptions.RayError):
                ray().kill(hired.handle)

    @signals.held()
    def close(self) -> None:
        """Kill all workers, and leave Ray or stop it."""
        with self._held:
            for worker in list(self._hired):
                self.dismiss(worker)
            with suppress(ray().exceptions.RayError):
                ray().kill(self._roll)


def survey(settings: Settings) -> list[dict[str, Any]]:
    """Return what each worker that the settings wish would have, and one on each node besides.

    Each is as `edit_harness_plugins.commands.distributed.hand.surroundings` has it, with ``node``, the node's name; or has ``node`` and ``problem`` alone.
    """
    with connected(settings):
        there = nodes()
        demand = demanded(there, settings)
        roll = _roll()
        hands = [
            (node, _actor(number, roll, takes, settings, _at(node.id)))
            for number, (node, takes) in enumerate(seats(there, demand))
        ]
        asked = [(node, hand.surroundings.remote()) for node, hand in hands]
        return [{"node": node.host, **_answered(one, demand, settings)} for node, one in asked]


def _answered(asked: Any, demand: Demand, settings: Settings) -> dict[str, Any]:
    """Wait for what a worker says of itself."""
    problems = ray().exceptions
    if not _there(asked, settings.placement):
        raise _no_place(demand, settings.placement)
    try:
        return dict(ray().get(asked))
    except problems.RayTaskError as error:
        return {"problem": _unforeseen(error).cause}
    except problems.RayError as error:
        return {"problem": _why(str(error))}


def _there(asked: Any, patience: float) -> bool:
    """Tell whether an answer came within so many seconds."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        with signals.held():
            if ray().wait([asked], timeout=STEP)[0]:
                return True
    return False


def _actor(number: int, roll: Any, takes: Demand, settings: Settings, where: Any) -> Any:
    """Start an actor that Ray neither starts again nor asks twice."""
    passed = {k: v for k, v in os.environ.items() if k.startswith(TRAVELS)}
    options = {
        "num_cpus": takes.cpus,
        "num_gpus": takes.gpus,
        "max_restarts": 0,
        "max_task_retries": 0,
        "scheduling_strategy": where,
        "runtime_env": {"env_vars": passed},
    }
    kind = ray().remote(Hand).options(**options)
    return kind.remote(number, roll, settings.heartbeat, os.getcwd())


def _roll() -> Any:
    """Start the roll beside this process; Ray starts it again should it die."""
    here = _at(ray().get_runtime_context().get_node_id())
    return (
        ray().remote(Roll).options(num_cpus=0, max_restarts=-1, scheduling_strategy=here).remote()
    )


def _at(node: str) -> Any:
    return ray().util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)


def _streaming(method: Any) -> Any:
    return method.options(num_returns="streaming")


def _no_place(demand: Demand, patience: float) -> ResourceError:
    return ResourceError(
        f"a worker got no place within {patience:g} s: others hold what the cluster has ({demand})",
        "wait for them, see `ray status`, or fewer workers: --executor-args num_workers=N",
    )


def _unforeseen(error: Any) -> HarnessError:
    """Return what it means that something else than a worker's own code failed in its process."""
    if "No module named 'edit_harness" in str(error):
        return PluginError("a worker has no edit-harness", "install the same on every node")
    return HarnessError(f"internal error in a worker: {said(error.cause)}", "please report it")


def _why(told: str) -> str:
    """Return Ray's account of a death in a few words."""
    if "running low on memory" in told:
        return "Ray ended it, since its node was running out of memory"
    if "node" in told and ("node has died" in told or "node was terminated" in told):
        return "its node is gone"
    return "its process ended"
