"""A worker's process: it assembles what the driver has assembled, and runs chunks as a run in one process does.

It writes no run folder: it sends records and notes to the driver, which writes them (`pool`).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch

from edit_harness import errors
from edit_harness.data import Visit
from edit_harness.errors import HarnessError, PluginError
from edit_harness.folder.record import Record
from edit_harness.registry.guard import said
from edit_harness.registry.registry import Plugins
from edit_harness.run import assembly, evaluation, plan
from edit_harness.run.evaluation import Evaluation
from edit_harness.run.failures import DeviceLostError
from edit_harness.run.loop import Loop
from edit_harness.run.spec import RunSpec, Selection

from ..run.local import environment, processor

INSTALL = "install the same on every worker"


@dataclass(frozen=True, kw_only=True)
class Order:
    """All that a worker needs to assemble what the driver has assembled; it can be pickled."""

    runs: Sequence[tuple[RunSpec, Selection]]
    loading: Mapping[str, Any]
    """How the model is loaded: arguments of `edit_harness_plugins.loading.load.load` that change no number."""
    threads: int = 1
    """How many threads compute on a CPU: the last bits of numbers depend on it."""


@dataclass(frozen=True)
class Batch:
    """What a worker makes in one go: a chunk of the plan, or chunks that go on from each other."""

    visits: Mapping[int, frozenset[Visit]]
    """The records to make, by the place of their evaluation in the order."""
    alone: bool = False
    """Whether each step is a chunk of its own, since the chunk took workers down."""


@dataclass(frozen=True)
class Ready:
    """A worker has loaded the model and can run batches; ``card`` is for the driver to compare."""

    worker: int
    card: Mapping[str, Any]


@dataclass(frozen=True)
class Came:
    """A worker sends verified records of its batch, and what to tell; each by its evaluation's place."""

    worker: int
    records: Sequence[tuple[int, Record]]
    notes: Sequence[tuple[int, str]] = ()


@dataclass(frozen=True)
class Finished:
    """A worker is through with its batch, and free."""

    worker: int


@dataclass(frozen=True)
class Failed:
    """A worker raised what a run in one process would have raised."""

    worker: int
    error: HarnessError


@dataclass(frozen=True)
class Died:
    """A worker is gone or of no use any more, since its device failed; another one gets its batch."""

    worker: int
    why: str


Event = Ready | Came | Finished | Failed | Died


class Worker:
    """Holds a model, and runs batches on it; what goes wrong is an event, too."""

    def __init__(self, number: int, order: Order) -> None:
        self.number, self.order = number, order

    def start(self) -> Event:
        """Load the model and assemble the runs; an error names the host."""
        host = socket.gethostname()
        try:
            plugins, spec, loading = Plugins.installed(), self.order.runs[0][0], self.order.loading
            ref = spec.model
            assert ref is not None  # the driver has seen to that
            model = assembly.load(plugins, ref.name, **ref.options, **loading)
            torch.set_num_threads(self.order.threads)
            benchmark = assembly.make_benchmark(
                plugins, spec.task, spec.task_args, model.source, spec.seed
            )
            self.evaluations = [
                evaluation.assemble(plugins, model, benchmark, *run) for run in self.order.runs
            ]
        except (Exception, SystemExit) as error:
            made = portable(error)
            made.cause += f" (worker on {host})" * (host not in made.cause)
            return Failed(self.number, made)
        self._bench = Loop()
        card = {
            "host": host,
            "pid": os.getpid(),
            "device": processor(model.device),
            "chunk": plan.chunk_size(model),
            "environment": environment(model),
            "identities": [each.identity for each in self.evaluations],
        }
        return Ready(self.number, card)

    def run(self, batch: Batch) -> Iterator[Event]:
        """Run a batch; yield its records as they are made, and last what came of it."""
        buffers = {
            each: Buffer(each, place, batch.visits.get(place, frozenset()))
            for place, each in enumerate(self.evaluations)
        }

        def sent(*records: tuple[int, Record]) -> Came:
            notes = list(chain.from_iterable(its.notes for its in buffers.values()))
            for its in buffers.values():
                its.notes = []
            return Came(self.number, records, notes)

        try:
            for each, record in self._bench.run(buffers, alone=batch.alone):
                yield sent((buffers[each].place, record))
        except (Exception, SystemExit) as error:
            yield sent()
            if isinstance(error.__cause__, DeviceLostError):
                yield Died(self.number, f"the device failed: {error.__cause__}")
            else:
                yield Failed(self.number, portable(error))
        else:
            yield sent()
            yield Finished(self.number)


class Buffer:
    """Stands in for a run folder: the records of one run that a batch wants, and what to tell the driver."""

    keeps = None
    """A worker keeps no edit."""

    def __init__(self, evaluation: Evaluation, place: int, wanted: AbstractSet[Visit]) -> None:
        self.place, self.done = place, set(evaluation.visits) - wanted
        self.notes: list[tuple[int, str]] = []
        self._told: set[str] = set()

    def add(self, record: Record) -> Record:
        """Count a record as made; the driver knows which try it is."""
        self.done.add(record.visit)
        return record

    def tell(self, line: str) -> None:
        """Keep a line for the driver, once."""
        if line not in self._told:
            self._told.add(line)
            self.notes.append((self.place, line))


def portable(error: BaseException) -> HarnessError:
    """Return an error as one of ours, which the driver can unpickle and tell the user."""
    if isinstance(error, SystemExit):
        return PluginError(f"a plugin ended the program: {said(error)}")
    if not isinstance(error, HarnessError):
        return HarnessError(
            f"internal error on {socket.gethostname()}: {said(error)}",
            "please report it with what --executor local says to --debug",
        )
    # A plugin's own kind of error may not travel.
    kind = next(each for each in type(error).__mro__ if each.__module__ == errors.__name__)
    made: HarnessError = HarnessError.__new__(kind, error.cause)
    made.cause, made.remedy = error.cause, error.remedy
    return made
