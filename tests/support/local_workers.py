"""Workers without Ray: in this process, where they die as they are told to, and real processes."""

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

from support.saboteurs import Honest, adds_in_place

from edit_harness import Case, Choose, Generate, Probe, Request
from edit_harness.errors import Terminated
from edit_harness.interfaces import Task
from edit_harness.run import plan
from edit_harness_plugins.commands.distributed.worker import (
    Batch,
    Came,
    Died,
    Event,
    Order,
    Ready,
    Worker,
)

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
"""Tells of a worker, a batch (-1 while it starts) and a number of its rows whether the worker dies there."""


class Together:
    """Workers in this process: a batch at a time, in the order in which they were sent."""

    def __init__(self, order: Order, size: int, dies: Dies = lambda *_: False) -> None:
        self.order, self.size, self.dies = order, size, dies
        self.workers: dict[int, Worker] = {}
        self.pending: deque[tuple[int, Batch | None]] = deque()
        self.sent: list[Batch] = []
        self.started, self.ran, self.closed, self.killed = 0, -1, False, list[int]()

    def start(self) -> int:
        self.started += 1
        self.pending.append((self.started, None))
        return self.started

    def send(self, worker: int, batch: Batch) -> None:
        self.sent.append(batch)
        self.pending.append((worker, batch))

    def events(self, timeout: float) -> Iterator[Event]:
        if self.pending:
            worker, batch = self.pending.popleft()
            yield from self._start(worker) if batch is None else self._run(worker, batch)

    def _start(self, worker: int) -> Iterator[Event]:
        if self.dies(worker, -1, 0):
            yield Died(worker, "no memory")
            return
        self.workers[worker] = Worker(worker, pickle.loads(pickle.dumps(self.order)))
        yield pickle.loads(pickle.dumps(self.workers[worker].start()))

    def _run(self, worker: int, batch: Batch) -> Iterator[Event]:
        self.ran += 1
        rows, number = 0, self.ran
        if self.dies(worker, number, rows):
            yield Died(worker, "killed")
            return
        try:
            for event in self.workers[worker].run(batch):
                yield pickle.loads(pickle.dumps(event))
                if isinstance(event, Came):
                    rows += len(event.records)
                    if self.dies(worker, number, rows):
                        yield Died(worker, "killed")
                        return
        except Killed:
            yield Died(worker, "killed")

    def kill(self, worker: int) -> None:
        self.killed.append(worker)
        self.workers.pop(worker, None)
        self.pending = deque(each for each in self.pending if each[0] != worker)

    def close(self) -> None:
        self.closed = True


def _serve(order: Order, pipe: Connection, worker: int, chunk: int) -> None:
    """Be a worker, in a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    plan.CHUNKS = ((10**9, chunk),)
    made = Worker(worker, order)
    pipe.send(started := made.start())
    while isinstance(started, Ready):
        for event in made.run(pipe.recv()):
            pipe.send(event)


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
        self.started = 0

    def start(self) -> int:
        self.started += 1
        here, there = self.context.Pipe()
        given = self.order, there, self.started, self.chunk
        process = self.context.Process(target=_serve, args=given, daemon=True)
        process.start()
        there.close()
        self.processes[self.started], self.pipes[here] = process, self.started
        return self.started

    def send(self, worker: int, batch: Batch) -> None:
        (pipe,) = (pipe for pipe, of in self.pipes.items() if of == worker)
        with suppress(BrokenPipeError):  # that it died is told by its pipe
            pipe.send(batch)

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

    def kill(self, worker: int) -> None:
        self.processes[worker].kill()

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.join()
