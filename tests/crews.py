"""Crews without Ray: workers in this process that die where they are told to, and real processes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, ClassVar

from saboteurs import Honest, adds_in_place

from edit_harness import Case, Choose, Generate, Probe, Request
from edit_harness.errors import HarnessError, Terminated
from edit_harness.interfaces import Task
from edit_harness.run import plan
from edit_harness_plugins.commands.distributed.crew import (
    Came,
    Died,
    Event,
    Failed,
    Finished,
    Ready,
    Unit,
)
from edit_harness_plugins.commands.distributed.worker import Order, Worker

COUNT = 12
POISON = "Case 7"


@dataclass
class Some(Task):
    """Cases that each ask for a choice and for a text; one may be of no use."""

    count: int = COUNT
    broken: int = 3
    requests: int = 1
    metrics = ("success",)

    def cases(self) -> Iterator[Case]:
        for number in range(self.count):
            request = Request("{} lives in", f"Case {number}", "Paris", "Rome")
            probes = (
                Probe("efficacy", Choose(request.text, ("Paris", "Rome"))),
                Probe("generation", Generate(request.text, max_new_tokens=3)),
            )
            problem = "it has no subject" if number == self.broken else ""
            yield Case(f"case {number}", (request,) * self.requests, probes, problem=problem)


class Killed(Terminated):
    """Stands for the end of a worker's process: nothing in a run holds it up."""


@dataclass
class Mortal(Honest):
    """Kills the worker, in this process, that edits one of the subjects in ``deadly``."""

    deadly: ClassVar[set[int]] = set()

    def edit(self, model: Any, requests: Any) -> Any:
        if int(requests[0].subject.split()[1]) in self.deadly:
            raise Killed
        return super().edit(model, requests)


@dataclass
class Leaking(Honest):
    """Changes the model at one subject."""

    def edit(self, model: Any, requests: Any) -> Any:
        if requests[0].subject == POISON:
            adds_in_place(model)
        return super().edit(model, requests)


@dataclass
class Poison(Honest):
    """Kills the process that edits one subject."""

    def edit(self, model: Any, requests: Any) -> Any:
        if requests[0].subject == POISON:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().edit(model, requests)


Dies = Callable[[int, int, int], bool]
"""Tells of a worker, a unit and a number of its rows whether the worker dies before the next one."""


class Together:
    """Workers in this process: a unit at a time, in the order in which they were sent."""

    def __init__(self, order: Order, size: int, dies: Dies = lambda *_: False) -> None:
        self.order, self.size, self.dies = order, size, dies
        self.workers: dict[int, Worker] = {}
        self.pending: deque[tuple[int, Unit | None]] = deque()
        self.sent: list[Unit] = []
        self.hired, self.closed, self.dismissed = 0, False, list[int]()

    def hire(self) -> int:
        self.hired += 1
        self.pending.append((self.hired, None))
        return self.hired

    def send(self, worker: int, unit: Unit) -> None:
        self.sent.append(unit)
        self.pending.append((worker, unit))

    def events(self, timeout: float) -> Iterator[Event]:
        if self.pending:
            worker, unit = self.pending.popleft()
            yield from self._start(worker) if unit is None else self._work(worker, unit)

    def _start(self, worker: int) -> Iterator[Event]:
        if self.dies(worker, -1, 0):
            yield Died(worker, "no memory")
            return
        try:
            made = Worker(pickle.loads(pickle.dumps(self.order)))
        except HarnessError as error:
            yield Failed(worker, None, pickle.loads(pickle.dumps(error)))
            return
        self.workers[worker] = made
        yield Ready(worker, pickle.loads(pickle.dumps(made.card())))

    def _work(self, worker: int, unit: Unit) -> Iterator[Event]:
        rows = 0
        if self.dies(worker, unit.number, rows):
            yield Died(worker, "killed")
            return
        try:
            for came in self.workers[worker].work(unit):
                yield Came(worker, unit.number, *pickle.loads(pickle.dumps(came)))
                rows += len(came[0])
                if self.dies(worker, unit.number, rows):
                    yield Died(worker, "killed")
                    return
        except Killed:
            yield Died(worker, "killed")
            return
        except HarnessError as error:
            yield Failed(worker, unit.number, pickle.loads(pickle.dumps(error)))
            return
        yield Finished(worker, unit.number)

    def dismiss(self, worker: int) -> None:
        self.dismissed.append(worker)
        self.workers.pop(worker, None)
        self.pending = deque(each for each in self.pending if each[0] != worker)

    def close(self) -> None:
        self.closed = True


def _serve(order: Order, pipe: Connection, worker: int, chunk: int) -> None:
    """Be a worker, in a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    plan.CHUNKS = ((10**9, chunk),)
    try:
        made = Worker(order)
    except HarnessError as error:
        pipe.send(Failed(worker, None, error))
        return
    pipe.send(Ready(worker, made.card()))
    while True:
        unit = pipe.recv()
        try:
            for came in made.work(unit):
                pipe.send(Came(worker, unit.number, *came))
        except HarnessError as error:
            pipe.send(Failed(worker, unit.number, error))
        else:
            pipe.send(Finished(worker, unit.number))


class Processes:
    """Workers that are processes; ``before`` is called with each event, and may kill some."""

    def __init__(
        self, order: Order, size: int, chunk: int, before: Callable[[Processes, Event], None]
    ) -> None:
        self.order, self.size, self.chunk, self.before = order, size, chunk, before
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["edit_harness_plugins.commands.distributed.worker"])
        self.processes: dict[int, Any] = {}
        self.pipes: dict[Connection, int] = {}
        self.hired = 0

    def hire(self) -> int:
        self.hired += 1
        here, there = self.context.Pipe()
        given = self.order, there, self.hired, self.chunk
        process = self.context.Process(target=_serve, args=given, daemon=True)
        process.start()
        there.close()
        self.processes[self.hired], self.pipes[here] = process, self.hired
        return self.hired

    def send(self, worker: int, unit: Unit) -> None:
        (pipe,) = (pipe for pipe, of in self.pipes.items() if of == worker)
        with suppress(BrokenPipeError):  # that it died is told by its pipe
            pipe.send(unit)

    def events(self, timeout: float) -> Iterator[Event]:
        for pipe in wait(list(self.pipes), timeout):
            worker = self.pipes[pipe]
            try:
                event = pipe.recv()
            except (EOFError, ConnectionResetError):
                del self.pipes[pipe]
                self.processes[worker].join()
                yield Died(worker, f"exit code {self.processes[worker].exitcode}")
            else:
                self.before(self, event)
                yield event

    def dismiss(self, worker: int) -> None:
        self.processes[worker].kill()

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.join()
