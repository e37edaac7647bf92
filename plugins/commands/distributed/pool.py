"""The driver's side of a run on workers: it deals out chunks, writes the records that come, and bears losses.

The driver alone writes, so that a run on workers is resumed and ends as one in one process. What a worker
that dies was at goes back to the queue; a chunk that takes down two without a record between them is taken
apart, and a case that takes down two more is given up as one whose device failed.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from edit_harness.data import Visit
from edit_harness.errors import DataError, PluginError, ResourceError, counted
from edit_harness.folder.manifest import Identity
from edit_harness.folder.record import Record
from edit_harness.interfaces import Executor
from edit_harness.run import plan
from edit_harness.run.estimates import values
from edit_harness.run.evaluation import Evaluation
from edit_harness.run.loop import Turn, Turns, record_unusable
from edit_harness.run.rows import RunRows
from edit_harness_plugins.segments import begin, software

from ..results.compare import identities, short
from .worker import INSTALL, Batch, Came, Died, Failed, Finished, Order, Ready

if TYPE_CHECKING:
    from .on_ray import Actors

LOG = logging.getLogger(__name__)
WAIT = 1.0  # seconds
PLACE = ("host", "pid", "device")
TWICE = 2
"""Workers that a job may take down without a record before it is taken apart, or given up."""
MANY = 3
"""So many cases that are given up end a run, and so many workers in a row that do not start."""


class WorkerExecutor(Executor):
    """Lets workers run the cases, who load the model by its name."""

    elsewhere = True

    @abstractmethod
    def workers(self, order: Order) -> Actors:
        """Return workers of whom none is started yet. Raises what `ready` raises."""

    def loading(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return how the driver itself loads the model, which it only identifies."""
        return {**options, "device": "cpu", "device_map": None}

    def turns(self, loading: Mapping[str, Any]) -> Turns:
        """Return what makes the records of runs, whose workers load the model in this way."""

        def turns(rows: Mapping[Evaluation, RunRows]) -> Generator[Turn]:
            yield from record_unusable(rows)
            if all(set(each.visits) <= its.done for each, its in rows.items()):
                return
            runs = [(each.spec, each.selection) for each in rows]
            order = Order(runs=runs, loading=loading, threads=torch.get_num_threads())
            with closing(self.workers(order)) as workers:
                yield from Pool(workers, rows).turns()

        return turns


@dataclass
class Job:
    """What one worker gets: a chunk of the plan, or chunks that go on from each other."""

    steps: Sequence[tuple[int, frozenset[Visit]]]
    """The visits that are wanted of each step, with the place of its evaluation."""
    alone: bool = False
    deaths: int = 0
    """Workers that it took down since its last record."""

    def __post_init__(self) -> None:
        self.left: dict[int, set[Visit]] = {}
        for place, visits in self.steps:
            self.left.setdefault(place, set()).update(visits)

    def came(self, place: int, visit: Visit) -> bool:
        """Take a record in, and tell whether it was still wanted."""
        if visit not in self.left.get(place, ()):
            return False
        self.left[place].remove(visit)
        self.deaths = 0
        return True

    def apart(self) -> list[Job]:
        """Return a job for each step that has something left."""
        left = [(place, visits & self.left[place]) for place, visits in self.steps]
        return [Job([step], alone=True) for step in left if step[1]]


def jobs(done: Mapping[Evaluation, AbstractSet[Visit]], size: int) -> list[Job]:
    """Return what is not done of a plan that all evaluations share, in the chunks of one process."""
    found: list[list[tuple[int, frozenset[Visit]]]] = []
    for groups in zip(*(plan.grouped(each.steps, size) for each in done), strict=True):
        if groups[0][0].fresh or not found:
            found.append([])
        for place, (known, group) in enumerate(zip(done.values(), groups, strict=True)):
            found[-1] += [(place, frozenset(step.visits) - known) for step in group]
    wanted = ([step for step in steps if step[1]] for steps in found)
    return [Job(steps) for steps in wanted if steps]


class Pool:
    """Workers at work on runs of one plan, and what the driver knows of them."""

    def __init__(self, workers: Actors, rows: Mapping[Evaluation, RunRows]) -> None:
        self.workers, self.rows = workers, rows
        self.evaluations = list(rows)
        self.queue: deque[Job] = deque()
        self.starting: set[int] = set()
        self.idle: deque[int] = deque()
        self.busy: dict[int, Job] = {}
        self.first: Mapping[str, Any] = {}  # the card of the first that was ready
        self.stillborn = 0  # workers in a row that died before they were ready
        self.given_up = 0
        self.died: list[str] = []

    def turns(self) -> Iterator[Turn]:
        """Yield the records as they are written, once all workers are ready and agree."""
        while len(self.idle) < self.workers.size:
            yield from self._events(self.workers.size)
        # On what the numbers are made, which is not what the driver is on.
        environment = {**self.first["environment"], "workers": str(self.workers.size)}
        for each, its in self.rows.items():
            if not set(each.visits) <= its.done:
                begin(its, environment)
        self.queue.extend(jobs({e: its.done for e, its in self.rows.items()}, self.first["chunk"]))
        while self.queue or self.busy:
            while self.queue and self.idle:
                worker, job = self.idle.popleft(), self.queue.popleft()
                self.busy[worker] = job
                left = {place: frozenset(visits) for place, visits in job.left.items()}
                self.workers.send(worker, Batch(left, job.alone))
            yield from self._events(min(self.workers.size, len(self.queue) + len(self.busy)))
        for its in self.rows.values() if self.died else ():
            last = f", the last of them: {self.died[-1]}"
            its.tell(f"{counted(len(self.died), 'worker')} died{last}; others did their work")

    def _events(self, wanted: int) -> Iterator[Turn]:
        """Have so many workers, take in what has happened, and yield the records that came."""
        for _ in range(len(self.starting) + len(self.idle) + len(self.busy), wanted):
            self.starting.add(self.workers.start())
        for event in self.workers.events(WAIT):
            worker = event.worker
            if not (worker in self.starting or worker in self.idle or worker in self.busy):
                continue  # it is gone
            match event:
                case Ready():
                    self._welcome(event)
                case Came():
                    for place, line in event.notes:
                        self.rows[self.evaluations[place]].tell(line)
                    for place, record in event.records:
                        if self.busy[worker].came(place, record.visit):
                            evaluation = self.evaluations[place]
                            yield evaluation, self.rows[evaluation].add(record)
                case Finished():
                    self.idle.append(worker)
                    yield from self._again(self.busy.pop(worker), "it did not return all records")
                case Failed():
                    raise event.error
                case Died():
                    self.workers.kill(worker)
                    yield from self._gone(worker, event.why)

    def _welcome(self, event: Ready) -> None:
        card = event.card
        for evaluation, found in zip(self.evaluations, card["identities"], strict=True):
            check_identity(evaluation.identity, found, card["host"])
        self.first = self.first or card
        if apart := software(self.first["environment"], card["environment"]):
            told = f"{'; '.join(apart)} as that on {self.first['host']}"
            raise DataError(
                f"the worker on {card['host']} has {told}",
                "use workers of one kind, with the same installed: their numbers differ in the last digits",
            )
        self.stillborn = 0
        self.starting.discard(event.worker)
        self.idle.append(event.worker)
        LOG.info("worker %s: %s, process %s, %s", event.worker, *map(card.get, PLACE))

    def _gone(self, worker: int, why: str) -> Iterator[Turn]:
        """Bear that a worker is gone. Raises `ResourceError` if it is one of several that do not start."""
        self.died.append(why)
        LOG.info("worker %s died: %s", worker, why)
        if worker in self.busy:
            yield from self._again(self.busy.pop(worker), why)
        elif worker in self.idle:
            self.idle.remove(worker)
        else:
            self.starting.discard(worker)
            self.stillborn += 1
            if self.stillborn == MANY:
                raise ResourceError(
                    f"{MANY} workers in a row died before they were ready, the last of them: {why}",
                    INSTALL,
                )

    def _again(self, job: Job, why: str) -> Iterator[Turn]:
        """Let what is left of a job run again: as it was, or taken apart; or give it up."""
        if not any(job.left.values()):
            return
        job.deaths += 1
        if job.deaths < TWICE:
            self.queue.appendleft(job)
        elif job.alone or any(e.regime.mode == "sequential" for e in self.evaluations):
            yield from self._give_up(job, why)
        else:
            self.queue.extendleft(reversed(job.apart()))

    def _give_up(self, job: Job, why: str) -> Iterator[Turn]:
        """Yield failures for what no worker survives. Raises `ResourceError` if it is too much."""
        message = f"{TWICE} workers died of it, the last of them: {why}"
        for place, left in job.left.items():
            evaluation = self.evaluations[place]
            for name, state in (visit for visit in evaluation.visits if visit in left):
                case = next(c for step in evaluation.steps for c in step.measure if c.id == name)
                status = "device_error"
                given = values(case, ((), ()), evaluation.metrics, status)
                record = Record(name, status, given, state=state, message=message)
                yield evaluation, self.rows[evaluation].add(record)
        self.given_up += 1
        if self.given_up == MANY:
            raise ResourceError(
                f"{MANY} cases took down each worker that ran them; the last time: {why}",
                "see to the workers, or to the editor; then: --retry-failed",
            )


def check_identity(wanted: Identity, found: Identity, host: str) -> None:
    """Raise `DataError` or `PluginError` if a worker has not assembled the run that the driver has."""
    if not (changes := identities(wanted, found)):
        return
    part, _, name = changes[0].field.partition(".")
    if part == "code":
        raise PluginError(f"the worker on {host} has another {name}", INSTALL)
    values = f"{short(changes[0].second)}, not {short(changes[0].first)}"
    said = f"the worker on {host} has another {changes[0].field}: {values}"
    if part in ("model", "task", "together"):
        raise DataError(said, "give every worker the same files")
    raise PluginError(said, INSTALL)
