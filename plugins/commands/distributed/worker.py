"""A worker's process: the order it gets, the model it loads once, the batches of chunks it runs, what it sends back.

A worker assembles what the driver has assembled, from the same order and by the same code, and runs
chunks by the same route as a run in one process. It writes no run folder: it sends records, notes and
events to the driver, which writes them (`pool`). How they travel is the executor's matter (`on_ray`).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import torch

from edit_harness import errors
from edit_harness.data import Visit
from edit_harness.errors import HarnessError, PluginError
from edit_harness.folder.record import Record
from edit_harness.model.model import Model
from edit_harness.registry.guard import said
from edit_harness.registry.registry import Plugins
from edit_harness.run import assembly, evaluation, plan, trial
from edit_harness.run.evaluation import Evaluation
from edit_harness.run.failures import DeviceLostError
from edit_harness.run.loop import FailurePolicy, Loop
from edit_harness.run.spec import RunSpec, Selection

INSTALL = "install the same on every worker"
LOST = "device_error"
"""The status of rows that are made where a device fails; another worker makes them anew."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """All that a worker needs to assemble what the driver has assembled; it can be pickled."""

    runs: Sequence[tuple[RunSpec, Selection]]
    """Runs of one model and one task's cases."""
    loading: Mapping[str, Any]
    """How the model is loaded: arguments of `edit_harness.loading.load.load` that change no number."""
    care: FailurePolicy
    """What is done about what goes wrong."""
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
    """A worker has loaded the model and can run batches."""

    worker: int
    card: Mapping[str, Any]
    """What the worker is and has assembled: see `Worker.card`."""


@dataclass(frozen=True)
class Came:
    """A worker sends some verified records of its batch, in order, by the places of their evaluations."""

    worker: int
    records: Sequence[tuple[int, Record]]
    notes: Sequence[tuple[int, str]] = ()
    """Lines for readers of the runs."""
    events: Sequence[tuple[int, str, Mapping[str, Any]]] = ()
    """What happened: place, kind and details of each."""


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
        self.spec, _ = order.runs[0]

    def start(self) -> Event:
        """Load the model and assemble the runs; an error names the host."""
        host = socket.gethostname()
        try:
            self.plugins = Plugins.installed()
            model, spec = self._load(), self.spec
            benchmark = assembly.make_benchmark(
                self.plugins, spec.task, spec.task_args, model.source, spec.seed
            )
            self.evaluations = [
                evaluation.assemble(self.plugins, model, benchmark, *run) for run in self.order.runs
            ]
            for each in self.evaluations:
                trial.check_seen(each)
        except (Exception, SystemExit) as error:
            made = portable(error)
            made.cause += f" (worker on {host})" * (host not in made.cause)
            return Failed(self.number, made)
        self._bench = Loop(self.order.care)
        return Ready(self.number, self.card())

    def _load(self) -> Model:
        ref, loading = self.spec.model, self.order.loading
        assert ref is not None  # the driver has seen to that
        trusted = loading.get("trust_remote_code", False)
        assembly.checked_source(self.plugins, ref.name, ref.revision, trusted)
        model = assembly.load(self.plugins, ref.name, **ref.options, **loading)
        torch.set_num_threads(self.order.threads)
        return model

    def card(self) -> dict[str, Any]:
        """Return what this worker is and has assembled, for the driver to compare."""
        model = self.evaluations[0].model
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "device": assembly.processor(model.device),
            "chunk": plan.chunk_size(model),
            "environment": self.evaluations[0].environment,
            "identities": [each.identity for each in self.evaluations],
        }

    def run(self, batch: Batch) -> Iterator[Event]:
        """Run a batch; yield its records as they are made, and last what came of it."""
        buffers = {
            each: Buffer(each, batch.visits.get(place, frozenset()))
            for place, each in enumerate(self.evaluations)
        }
        places = {each: place for place, each in enumerate(self.evaluations)}

        def sent(*records: tuple[int, Record]) -> Came:
            notes = [(places[e], line) for e, its in buffers.items() for line in its.notes]
            events = [(places[e], *event) for e, its in buffers.items() for event in its.events]
            for its in buffers.values():
                its.notes, its.events = [], []
            return Came(self.number, records, notes, events)

        try:
            for each, record in self._bench.run(buffers, alone=batch.alone):
                yield sent(*[(places[each], record)] * (record.status != LOST))
        except (Exception, SystemExit) as error:
            yield sent()
            if isinstance(error.__cause__, DeviceLostError):
                yield Died(self.number, f"the device failed: {error.__cause__}")
            else:
                yield Failed(self.number, portable(error))
        else:
            yield sent()
            yield Finished(self.number)


@dataclass
class Buffer:
    """Stands in for a run folder: which records of one run a batch wants, and what to tell the driver."""

    evaluation: Evaluation
    wanted: AbstractSet[Visit]
    notes: list[str] = field(default_factory=list)
    events: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    _told: set[str] = field(default_factory=set)

    @property
    def done(self) -> AbstractSet[Visit]:
        """The visits that the batch does not want, or has."""
        return set(self.evaluation.visits) - self.wanted

    def add(self, record: Record) -> Record:
        """Count a record as made; the driver knows which try it is."""
        self.wanted = self.wanted - {record.visit}
        return record

    def tell(self, line: str) -> None:
        """Keep a line for the driver, once."""
        if line not in self._told:
            self._told.add(line)
            self.notes.append(line)

    def event(self, kind: str, **details: Any) -> None:
        """Keep something that happened for the driver."""
        self.events.append((kind, details))


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
