"""The driver's side of a run on workers: it hands out units, writes what comes, and bears losses.

The driver alone writes, and what it has written stays, so that a run on workers is resumed, ends and
lasts as one in one process. A worker that dies costs what it was at: that goes back to the queue. A
chunk that gets no worker further twice is taken apart, and what still takes workers down is given up
as a case whose device failed.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from edit_harness.cases import Visit
from edit_harness.errors import ResourceError
from edit_harness.folder.manifests import as_json
from edit_harness.folder.records import Record
from edit_harness.run.evaluation import Evaluation
from edit_harness.run.loop import FailurePolicy, Turn, record_unusable
from edit_harness.run.measure import failed
from edit_harness.run.rows import Overlap, Rows
from edit_harness.wording import counted

from . import agreement, units
from .crew import Came, Crew, DeviceError, Died, Event, Failed, Finished, Ready, Unit
from .units import Chunk

LOG = logging.getLogger(__name__)
WAIT = 1.0
"""Seconds that events are waited for at a time."""
TWICE = 2
"""Workers that a unit may take down without a row before it is taken apart, or given up."""
MANY = 3
"""So many cases that are given up end a run, and so many workers in a row that do not start."""
Hiring = Callable[[Sequence[Evaluation], FailurePolicy], Crew]
"""Makes the crew that runs some evaluations, of which none is at work yet."""


def turns(hiring: Hiring, rows: Mapping[Evaluation, Rows], care: FailurePolicy) -> Generator[Turn]:
    """Yield the records that are still to be made, as they are written, from a crew's workers.

    Raises what a run in one process raises; `PluginError` and `DataError` if a worker has not what
    the driver has; `ResourceError` if workers do not start, or die of several cases.
    """
    yield from record_unusable(rows)
    if any(not set(each.visits) <= its.done for each, its in rows.items()):
        with closing(hiring(list(rows), care)) as crew:
            yield from Pool(crew, rows).turns()


@dataclass
class Task:
    """Chunks that go to one worker, until all their rows are here."""

    chunks: Sequence[Chunk]
    alone: bool = False
    deaths: int = 0
    """Workers that it took down since its last row."""

    def __post_init__(self) -> None:
        wanted = units.joined([chunk.visits for chunk in self.chunks])
        self.left: dict[str, set[Visit]] = {key: set(visits) for key, visits in wanted.items()}

    @property
    def over(self) -> bool:
        """Whether nothing is left of it."""
        return not any(self.left.values())

    def came(self, key: str, visit: Visit) -> bool:
        """Take a row in, and tell whether it was still wanted."""
        if visit not in self.left.get(key, ()):
            return False
        self.left[key].remove(visit)
        self.deaths = 0
        return True

    def unit(self, number: int) -> Unit:
        """Return what is left of it as a unit."""
        visits = {key: frozenset(left) for key, left in self.left.items()}
        return Unit(number, visits, sum(chunk.work for chunk in self.chunks), self.alone)

    def rest(self) -> list[Chunk]:
        """Return the chunks that have something left, without what has come."""
        return [left for chunk in self.chunks if (left := chunk.without(self.left)).steps]


@dataclass
class Pool:
    """A crew at work on a plan."""

    crew: Crew
    rows: Mapping[Evaluation, Rows]
    planned: bool = False
    """Whether all of the first workers were ready and agreed, so that units are made."""
    queue: deque[Task] = field(default_factory=deque)
    starting: set[int] = field(default_factory=set)
    idle: deque[int] = field(default_factory=deque)
    busy: dict[int, Task] = field(default_factory=dict)
    first: Mapping[str, Any] = field(default_factory=dict)
    """The card of the first that was ready: all others are to be like it."""
    stillborn: int = 0
    """Workers in a row that died before they were ready."""
    given_up: int = 0
    overlaps: dict[Evaluation, Overlap] = field(default_factory=dict)
    """What is asked again before anything is made."""
    died: list[str] = field(default_factory=list)
    """Why each worker died that did."""

    def __post_init__(self) -> None:
        self._numbers = count()
        self._by_key = {str(key): each for key, each in enumerate(self.rows)}

    def turns(self) -> Iterator[Turn]:
        """Yield the records as they are written."""
        self._staff()
        while not self.planned or self.queue or self.busy or self._overlapped():
            for event in self.crew.events(WAIT):
                LOG.debug("%s of worker %d", type(event).__name__, event.worker)
                yield from self._take(event)
                self._staff()
        for its in self.rows.values() if self.died else ():
            last = f", the last of them: {self.died[-1]}"
            its.tell(f"{counted(len(self.died), 'worker')} died{last}; others did their work")

    def _staff(self) -> None:
        """Hire who is lacking, and hand out units to who is free."""
        lacking = self.crew.size
        if self.planned:
            lacking = min(lacking, len(self.queue) + len(self.busy))
        for _ in range(len(self.starting) + len(self.idle) + len(self.busy), lacking):
            self.starting.add(self.crew.hire())
        while self.planned and self.queue and self.idle:
            worker, task = self.idle.popleft(), self.queue.popleft()
            self.busy[worker] = task
            self.crew.send(worker, task.unit(next(self._numbers)))

    def _take(self, event: Event) -> Iterator[Turn]:
        """Take an event in; those of workers that are gone are of no interest."""
        worker = event.worker
        if worker not in self.starting and worker not in self.idle and worker not in self.busy:
            return
        match event:
            case Ready():
                self._welcome(event)
            case Came():
                yield from self._came(event)
            case Finished():
                yield from self._finished(worker)
            case Failed(error=DeviceError() as error):
                self.crew.dismiss(worker)
                yield from self._gone(worker, error.cause)
            case Failed():
                raise event.error
            case Died():
                yield from self._gone(worker, event.why)

    def _welcome(self, event: Ready) -> None:
        """Let a worker in that has what the driver has; make the plan once all have come."""
        agreement.check_identities([as_json(each.identity) for each in self.rows], event.card)
        self.first = self.first or event.card
        agreement.check_alike(self.first, event.card)
        self.stillborn = 0
        self.starting.discard(event.worker)
        self.idle.append(event.worker)
        for its in self.rows.values():
            said = {key: event.card[key] for key in ("host", "pid", "device")}
            its.event("worker", number=event.worker, **said)
        if not (self.planned or self.starting):
            self._plan()

    def _plan(self) -> None:
        """Note on what the numbers are made, which is not what the driver is on, and make the units."""
        self.planned = True
        environment = {**self.first["environment"], "workers": str(self.crew.size)}
        for each, its in self.rows.items():
            if overlap := its.begin(each, environment):
                self.overlaps[each] = overlap
        self._deal()

    def _deal(self) -> None:
        """Make the units of what is to be done: first of what is only asked again, if anything is."""
        done = {each: its.done for each, its in self.rows.items()}
        if self.overlaps:
            done = {each: set(each.visits) for each in done}
            done |= {each: set(overlap.done) for each, overlap in self.overlaps.items()}
        chunks = units.chunks(done, self.first["chunk"])
        self.queue.extend(map(Task, units.units(chunks, self.crew.size)))

    def _overlapped(self) -> bool:
        """Go on with what is to be made once all is asked again; tell whether there is any."""
        for overlap in self.overlaps.values():
            overlap.end()
        if self.overlaps:
            self.overlaps.clear()
            self._deal()
            self._staff()
        return bool(self.queue or self.busy)

    def _add(self, evaluation: Evaluation, record: Record) -> Iterator[Turn]:
        """Keep a record, and yield it as it is kept; one that was asked again is compared alone."""
        if overlap := self.overlaps.get(evaluation):
            overlap.add(record)
        else:
            yield evaluation, self.rows[evaluation].add(record)

    def _came(self, event: Came) -> Iterator[Turn]:
        for key, kind, details in event.events:
            self.rows[self._by_key[key]].event(kind, **details)
        for key, line in event.notes:
            self.rows[self._by_key[key]].tell(line)
        for key, record in event.records:
            if self.busy[event.worker].came(key, record.visit):
                yield from self._add(self._by_key[key], record)

    def _finished(self, worker: int) -> Iterator[Turn]:
        task = self.busy.pop(worker)
        self.idle.append(worker)
        if not task.over:
            yield from self._again(task, "it did not return all rows of a unit")

    def _gone(self, worker: int, why: str) -> Iterator[Turn]:
        """Bear that a worker is gone."""
        self.died.append(why)
        for its in self.rows.values():
            its.event("worker died", number=worker, why=why)
        if worker in self.starting:
            self._not_started(worker, why)
        elif worker in self.idle:
            self.idle.remove(worker)
        else:
            yield from self._again(self.busy.pop(worker), why)

    def _not_started(self, worker: int, why: str) -> None:
        self.starting.discard(worker)
        self.stillborn += 1
        if self.stillborn == MANY:
            raise ResourceError(
                f"{MANY} workers in a row died before they were ready, the last of them: {why}",
                "see what each has to work with: edit-harness cluster-check",
            )

    def _again(self, task: Task, why: str) -> Iterator[Turn]:
        """Let what is left of a task run again: as it was, or taken apart; or give it up."""
        task.deaths += 1
        if task.over:
            return
        if task.deaths < TWICE:
            self.queue.appendleft(task)
            return
        first, *others = task.rest()
        if task.alone or not first.apart:
            yield from self._give_up([first, *others], why)
            return
        if others:
            self.queue.appendleft(Task(others))
        self.queue.extendleft(Task([step], alone=True) for step in reversed(first.alone()))

    def _give_up(self, chunks: Sequence[Chunk], why: str) -> Iterator[Turn]:
        """Yield failures for what no worker survives. Raises `ResourceError` if it is too much."""
        message = f"{TWICE} workers died of it, the last of them: {why}"
        wanted = units.joined([chunk.visits for chunk in chunks])
        for key, visits in wanted.items():
            evaluation = self._by_key[key]
            for name, state in (visit for visit in evaluation.visits if visit in visits):
                case = evaluation.case(name)
                record = failed(case, state, "device_error", message, evaluation.metrics)
                yield from self._add(evaluation, record)
        self.given_up += 1
        if self.given_up == MANY:
            raise ResourceError(
                f"{MANY} cases took down each worker that ran them; the last time: {why}",
                "see to the workers, or to the editor; then: --retry-failed",
            )
