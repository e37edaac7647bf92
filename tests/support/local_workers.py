"""Workers without Ray, in this process, where they die as they are told to; runs on them and without."""

from __future__ import annotations

import json
import pickle
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from support.saboteurs import Honest, adds_in_place

from edit_harness import Case, Choose, Generate, Probe, Request
from edit_harness.errors import Terminated
from edit_harness.files import dumps
from edit_harness.interfaces import ModelSource, Task
from edit_harness.registry.registry import Plugins
from edit_harness.run import evaluation, loop
from edit_harness.run.assembly import load, make_benchmark
from edit_harness.run.spec import ModelRef, RunSpec
from edit_harness_plugins.commands.distributed.pool import WorkerExecutor
from edit_harness_plugins.commands.distributed.worker import (
    Batch,
    Came,
    Died,
    Event,
    Order,
    Worker,
)
from edit_harness_plugins.commands.run.local import Local

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


CHUNK = 2
HONEST = Mortal()
PLUGINS = Plugins.installed()
TIMING = ("seconds", "seq", "crc")
INVALID = {"case 3": "invalid_case"}


class Bench:
    """Runs the same evaluations in one process, and on workers."""

    def __init__(self, folder, output):
        self.name, self.output, self.plugins = str(folder), output, PLUGINS
        self.task = Some()
        self.workers = None
        self.last = ()

    def run(self, workers=None, editors=(HONEST,), where="workers", regime=None, **care):
        """Return the folders of a run on workers, or in this process."""
        made = self.assembled(editors, regime)
        self.last = folders = {each: each.open(self.output / where) for each in made}
        turns = (OfBench(self, workers) if workers else Local()).turns({"device": "cpu"})
        loop.run_all(folders, lambda e, r: None, turns=turns, **care)
        return list(folders.values())

    def assembled(self, editors, regime=None):
        model = load(self.plugins, self.name, device="cpu")
        benchmark = make_benchmark(self.plugins, self.task, {}, ModelSource(self.name))
        specs = [
            RunSpec(editor, self.task, model=ModelRef(self.name), regime=regime)
            for editor in editors
        ]
        return [evaluation.assemble(self.plugins, model, benchmark, spec) for spec in specs]


class OfBench(WorkerExecutor):
    """Has a bench's runs made by its workers."""

    def __init__(self, bench, workers):
        self.bench, self.make = bench, workers

    def workers(self, order):
        self.bench.workers = self.make(order)
        return self.bench.workers


def rows(folder):
    """Return what counts of each visit, as it stands in the file but for what a run's time makes."""
    lines = map(json.loads, folder.samples.read_text().splitlines())
    visits = {(row["case"], row["state"]): row for row in lines}
    assert len(visits) == folder.samples.read_text().count("\n"), "a visit has two rows"
    return {
        visit: dumps({key: value for key, value in row.items() if key not in TIMING})
        for visit, row in sorted(visits.items())
    }


def statuses(folder):
    return {record.case: record.status for record in folder.records() if record.status != "ok"}
