"""What runs in a worker's process: a model that is loaded once, and units that are run on it.

A worker assembles what the driver has assembled, from the same order and by the same code, and runs
units by the same route as a run in one process. It writes no run folder: rows, notes and events go to
the driver. How they travel is the crew's matter.
"""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Generator, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import torch

from edit_harness import errors
from edit_harness.cases import Visit
from edit_harness.errors import HarnessError, PluginError
from edit_harness.folder.manifests import as_json
from edit_harness.folder.records import Record
from edit_harness.model.model import Model
from edit_harness.registry import discovery
from edit_harness.registry.blame import said
from edit_harness.registry.plugins import Plugins
from edit_harness.run import assembly, evaluation, plan
from edit_harness.run.evaluation import Evaluation
from edit_harness.run.failures import DeviceLostError
from edit_harness.run.loop import FailurePolicy, Loop
from edit_harness.run.spec import RunSpec, Selection

from . import agreement
from .crew import DeviceError, Unit

PLUGINS = (discovery.ONLY, discovery.BLOCK, discovery.FILES, discovery.FOLDERS)
"""The variables that say which plugins there are."""
LOST = "device_error"
"""The status of rows that are made where a device fails; another worker makes them anew."""
Rows = list[tuple[str, Record]]
Notes = list[tuple[str, str]]
Events = list[tuple[str, str, Mapping[str, Any]]]


def plugin_environment() -> dict[str, str]:
    """Return what the environment says of plugins, for other processes to have the same."""
    return {name: os.environ[name] for name in PLUGINS if name in os.environ}


@dataclass(frozen=True, kw_only=True)
class Order:
    """All that a worker needs to assemble what the driver has assembled; it can be pickled."""

    runs: Sequence[tuple[RunSpec, Selection]]
    """Runs of one model and one task's cases."""
    loading: Mapping[str, Any]
    """How the model is loaded: arguments of `edit_harness.loading.loading.load` that change no number."""
    packages: Sequence[Mapping[str, str]]
    """What the driver's plugins came in: name, version, source, digest."""
    environment: Mapping[str, str] = field(default_factory=plugin_environment)
    """What the driver's environment says of plugins."""
    threads: int = 1
    """How many threads compute on a CPU: the last bits of numbers depend on it."""
    case_timeout: float | None = None
    reload: bool = False
    """Whether the model is loaded anew after a leak."""
    selfcheck: bool = False

    @classmethod
    def of(
        cls, evaluations: Sequence[Evaluation], loading: Mapping[str, Any], care: FailurePolicy
    ) -> Order:
        """Return the order for evaluations of the driver's, which are of one model and task."""
        code = {id(p): (each, p) for each in evaluations for p in each.packages}
        return cls(
            runs=[(each.spec, each.selection) for each in evaluations],
            loading=loading,
            packages=[p.identity for each, p in code.values() if p in each.plugins.packages],
            threads=torch.get_num_threads(),
            case_timeout=care.case_timeout,
            reload=care.reload is not None,
            selfcheck=care.selfcheck,
        )

    @property
    def spec(self) -> RunSpec:
        """One of the runs, which have model, task and seed in common."""
        return self.runs[0][0]


class Worker:
    """Holds a model, and runs units on it; raises `HarnessError` that names the host if it cannot."""

    def __init__(self, order: Order) -> None:
        self.order = order
        with _named_host():
            _take(order.environment)
            self.plugins = _plugins()
            agreement.check_packages(order.packages, packages(self.plugins), socket.gethostname())
            model, spec = self._load(), order.spec
            benchmark = assembly.make_benchmark(
                self.plugins, spec.task, spec.task_args, model.source, spec.seed
            )
            self.evaluations = [
                evaluation.assemble(self.plugins, model, benchmark, *run) for run in order.runs
            ]
        care = FailurePolicy(
            case_timeout=order.case_timeout,
            reload=self._load if order.reload else None,
            selfcheck=order.selfcheck,
        )
        self._bench = Loop(care)

    def _load(self) -> Model:
        ref, loading = self.order.spec.model, self.order.loading
        assert ref is not None  # the driver has seen to that
        trusted = loading.get("trust_remote_code", False)
        assembly.checked_source(self.plugins, ref.name, ref.revision, trusted)
        model = assembly.load(self.plugins, ref.name, **ref.options, **loading)
        torch.set_num_threads(self.order.threads)
        return model

    def card(self) -> dict[str, Any]:
        """Return what this worker is and has assembled, as JSON."""
        model = self.evaluations[0].model
        return {
            **surroundings(self.plugins, model.device),
            "chunk": plan.chunk_size(model),
            "environment": self.evaluations[0].environment,
            "identities": [as_json(each.identity) for each in self.evaluations],
        }

    def work(self, unit: Unit) -> Iterator[tuple[Rows, Notes, Events]]:
        """Yield the rows of a unit as they come, with what there is to tell.

        Raises what a run in one process would raise, as a `HarnessError` that can be pickled, and
        `DeviceError` if the device failed.
        """
        keys = {each: str(place) for place, each in enumerate(self.evaluations)}
        trays = {
            each: Tray(each, unit.visits.get(key, frozenset()), unit.alone)
            for each, key in keys.items()
        }
        with _errors_told():
            try:
                for each, record in self._bench.run(trays):
                    rows = [(keys[each], record)] if record.status != LOST else []
                    yield rows, *_told(keys, trays)
            except HarnessError:
                yield [], *_told(keys, trays)
                raise
            yield [], *_told(keys, trays)


@dataclass
class Tray:
    """The rows of one editor that a unit wants, and what there is to tell of them."""

    evaluation: Evaluation
    wanted: AbstractSet[Visit]
    alone: bool = False
    notes: list[str] = field(default_factory=list)
    events: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    _known: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.suspects: AbstractSet[Visit] = self.wanted if self.alone else frozenset()

    @property
    def done(self) -> AbstractSet[Visit]:
        """The visits that the unit does not want, or has."""
        return set(self.evaluation.visits) - self.wanted

    def add(self, record: Record) -> Record:
        """Count a record as made; its number of tries is the driver's to know."""
        self.wanted = self.wanted - {record.visit}
        self.suspects = self.suspects - {record.visit}
        return record

    def tell(self, line: str) -> None:
        """Keep a line for the driver, once."""
        if line not in self._known:
            self._known.add(line)
            self.notes.append(line)

    def event(self, kind: str, **details: Any) -> None:
        """Keep something that happened for the driver."""
        self.events.append((kind, details))


def _told(keys: Mapping[Evaluation, str], trays: Mapping[Evaluation, Tray]) -> tuple[Notes, Events]:
    """Return what there is to tell since the last time."""
    notes = [(keys[each], line) for each, tray in trays.items() for line in tray.notes]
    events = [(keys[each], *event) for each, tray in trays.items() for event in tray.events]
    for tray in trays.values():
        tray.notes.clear()
        tray.events.clear()
    return notes, events


def surroundings(plugins: Plugins, device: torch.device) -> dict[str, Any]:
    """Return what a process has to work with, as JSON: needs no model.

    ``memory`` is in bytes: the device's, or the machine's for a CPU.
    """
    names = "edit-harness", "torch", "transformers"
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "device": evaluation.processor(device),
        "memory": _memory(device),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in names},
        },
        "packages": packages(plugins),
    }


def packages(plugins: Plugins) -> list[dict[str, str]]:
    """Return what the plugins came in, by name: name, version, source and digest of each."""
    return sorted((p.identity for p in plugins.packages), key=lambda each: each["name"])


def _memory(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _take(environment: Mapping[str, str]) -> None:
    """Let the environment say of plugins what another one says."""
    for name in PLUGINS:
        os.environ.pop(name, None)
    os.environ.update(environment)


def _plugins() -> Plugins:
    try:
        return Plugins.installed()
    except HarnessError as error:  # a file that is not on this machine
        raise PluginError(error.cause, "install the same on every worker") from None


@contextmanager
def _named_host() -> Generator[None]:
    """Say of an error on which host it was, in a form that can be pickled."""
    try:
        with _errors_told():
            yield
    except HarnessError as error:
        host = socket.gethostname()
        if host not in error.cause:
            error.cause = f"{error.cause} (worker on {host})"
        raise


@contextmanager
def _errors_told() -> Generator[None]:
    """Let every error be one of ours, which the driver can unpickle and tell the user."""
    try:
        yield
    except DeviceLostError as error:
        raise DeviceError(f"the device failed: {error}") from None
    except HarnessError as error:
        if isinstance(error.__cause__, DeviceLostError):
            raise DeviceError(error.cause, error.remedy) from None
        raise portable(error) from None
    except SystemExit as error:
        raise PluginError(f"a plugin ended the program: {said(error)}") from None
    except Exception as error:
        raise HarnessError(
            f"internal error on {socket.gethostname()}: {said(error)}",
            "please report it with what --executor local says to --debug",
        ) from None


def portable(error: HarnessError) -> HarnessError:
    """Return an error as the nearest kind of `edit_harness.errors`: a plugin's own may not travel."""
    kind = next(each for each in type(error).__mro__ if each.__module__ == errors.__name__)
    made: HarnessError = HarnessError.__new__(kind, error.cause)
    made.cause, made.remedy = error.cause, error.remedy
    return made
