"""A worker without a pool: what it says of itself, what it refuses, what it tells of a batch."""

import pickle
import socket
from dataclasses import dataclass, replace

import pytest
from support.commands import stored
from support.local_workers import Some
from support.saboteurs import Honest

from edit_harness.errors import DataError, LeakError, PluginError, UsageError
from edit_harness.registry import packages
from edit_harness.registry.registry import Plugins
from edit_harness.run import loop, plan
from edit_harness.run.spec import ALL, ModelRef, RunSpec
from edit_harness_plugins.commands.distributed import worker

PLUGINS = Plugins.installed()
HOST = socket.gethostname()
NAMES = ("case 0", "case 1", "case 2", "case 4")
BATCH = worker.Batch({0: frozenset((name, 0) for name in NAMES)})


@dataclass
class Failing(Honest):
    """Raises an error at one subject."""

    error: str = "ValueError('no edit')"

    def edit(self, model, requests):
        if requests[0].subject == "Case 2":
            raise eval(self.error)
        return super().edit(model, requests)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return stored(tmp_path_factory.mktemp("models"))


@pytest.fixture
def ordered(folder, monkeypatch):
    monkeypatch.setattr(plan, "CHUNKS", ((10**9, 2),))

    def ordered(editor=None, model=str(folder), **changes):
        spec = RunSpec(editor or Honest(), Some(), model=ModelRef(model))
        order = worker.Order(runs=[(spec, ALL)], loading={"device": "cpu"})
        return replace(order, **changes)

    return ordered


@pytest.fixture
def plugins(monkeypatch):
    monkeypatch.setattr(Plugins, "installed", lambda: PLUGINS)


@pytest.mark.parametrize(
    ("changes", "error", "told"),
    [
        ({"editor": "rmoe"}, PluginError, f"did you mean rome or r-rome? (worker on {HOST})"),
        ({"loading": {"device": "cuda:77"}}, UsageError, "the device 'cuda:77' cannot be used"),
    ],
)
def test_what_a_worker_cannot_do_is_told_with_its_host(ordered, plugins, changes, error, told):
    failed = worker.Worker(0, ordered(**changes)).start()
    again = pickle.loads(pickle.dumps(failed.error))
    assert type(again) is error
    assert told in again.cause
    assert again.cause.count(HOST) == 1
    assert again.remedy


def test_a_plugin_that_is_not_on_the_worker_is_told(ordered, monkeypatch, tmp_path):
    missing = str(tmp_path / "mine.py")
    monkeypatch.setenv(packages.FILES, missing)
    error = worker.Worker(0, ordered()).start().error
    assert missing in error.cause
    assert error.cause.endswith(f"(worker on {HOST})")


def started(order):
    made = worker.Worker(0, order)
    made.start()
    return made


def came(events):
    return [event for event in events if isinstance(event, worker.Came)]


def test_rows_of_a_failed_device_are_left_to_others(ordered, plugins):
    made = started(ordered(Failing("RuntimeError('CUDA error: uncorrectable ECC')")))
    *events, last = made.run(BATCH)
    assert isinstance(last, worker.Died)
    assert "uncorrectable ECC" in last.why
    assert [r.case for event in came(events) for _, r in event.records] == ["case 0", "case 1"]


def test_what_nobody_foresaw_is_told_too(ordered, plugins, monkeypatch):
    made = started(ordered())
    monkeypatch.setattr(loop, "chunks", lambda *given, **more: 1 / 0)
    *_, last = made.run(BATCH)
    assert last.error.cause.startswith(f"internal error on {HOST}: ZeroDivisionError")


class OwnError(DataError):
    """An error of a plugin's that pickle cannot make again."""

    def __init__(self, file, line):
        super().__init__(f"{file}:{line} is broken", "mend it")


def test_errors_of_plugins_travel_as_ours():
    made = pickle.loads(pickle.dumps(worker.portable(OwnError("a.json", 3))))
    assert (type(made), made.cause, made.remedy) == (DataError, "a.json:3 is broken", "mend it")
    leak = LeakError("a weight", "editor x")
    made = pickle.loads(pickle.dumps(worker.portable(leak)))
    assert (type(made), str(made), made.code) == (LeakError, str(leak), 3)
