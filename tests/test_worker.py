"""A worker without a pool: what it says of itself, what it refuses, what it tells of a unit."""

import json
import pickle
import socket
from dataclasses import dataclass, replace

import pytest
from crews import Some
from saboteurs import Honest

from edit_harness.errors import DataError, HarnessError, LeakError, PluginError, UsageError
from edit_harness.registry import discovery
from edit_harness.registry.plugins import Plugins
from edit_harness.run import loop, plan
from edit_harness.run.spec import ALL, ModelRef, RunSpec
from edit_harness.testing import tiny_model
from edit_harness_plugins.commands.distributed import worker
from edit_harness_plugins.commands.distributed.crew import DeviceError, Unit
from edit_harness_plugins.commands.distributed.worker import Order, Worker

PLUGINS = Plugins.installed()
HOST = socket.gethostname()
NAMES = ("case 0", "case 1", "case 2", "case 4")
UNIT = Unit(0, {"0": frozenset((name, 0) for name in NAMES)}, 1.0)


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
    """Return a folder with a tiny model."""
    path = tmp_path_factory.mktemp("models") / "tiny"
    model = tiny_model()
    model.module.save_pretrained(path)
    model.tokens.tokenizer.save_pretrained(path)
    return path


@pytest.fixture
def ordered(folder, monkeypatch):
    monkeypatch.setattr(plan, "CHUNKS", ((10**9, 2),))

    def ordered(editor=None, model=str(folder), **changes):
        spec = RunSpec(editor or Honest(), Some(), model=ModelRef(model))
        order = Order(runs=[(spec, ALL)], loading={"device": "cpu"}, packages=[])
        return replace(order, **changes)

    return ordered


@pytest.fixture
def plugins(monkeypatch):
    monkeypatch.setattr(worker, "_plugins", lambda: PLUGINS)


def test_a_card_is_json_and_says_what_the_worker_is(ordered, plugins):
    made = Worker(ordered())
    card = made.card()
    assert json.loads(json.dumps(card))["host"] == HOST
    assert card["device"] == "cpu"
    assert card["memory"] > 2**28
    assert card["chunk"] == 2
    assert card["versions"].keys() == {"python", "edit-harness", "torch", "transformers"}
    ours = next(each for each in card["packages"] if each["name"] == "edit-harness")
    assert ("edit-harness", ours["digest"]) in card["identities"][0]["code"]


@pytest.mark.parametrize(
    ("changes", "error", "told", "remedy"),
    [
        (
            {"packages": [{"name": "edit-harness-x", "version": "1.2", "digest": "a" * 64}]},
            PluginError,
            f"the worker on {HOST} has no edit-harness-x 1.2 (aaaaaaaaaaaa)",
            "install the same on every worker",
        ),
        (
            {"editor": "rmoe"},
            PluginError,
            f"there is no editor 'rmoe'; did you mean rome or r-rome? (worker on {HOST})",
            "installed: ",
        ),
        (
            {"model": "./nowhere"},
            DataError,
            f"the model folder ./nowhere does not exist (worker on {HOST})",
            "name a folder in transformers' layout",
        ),
        (
            {"loading": {"device": "cuda:77"}},
            UsageError,
            "the device 'cuda:77' cannot be used",
            "try --device cpu",
        ),
    ],
)
def test_what_a_worker_cannot_do_is_told_with_its_host(
    ordered, plugins, changes, error, told, remedy
):
    with pytest.raises(error) as raised:
        Worker(ordered(**changes))
    again = pickle.loads(pickle.dumps(raised.value))
    assert type(again) is error
    assert again.cause.startswith(told)
    assert again.cause.count(HOST) == 1
    assert again.remedy.startswith(remedy)


def test_a_plugin_that_is_not_on_the_worker_is_told(ordered, monkeypatch, tmp_path):
    monkeypatch.setenv(discovery.FILES, "")
    missing = str(tmp_path / "mine.py")
    with pytest.raises(PluginError) as raised:
        Worker(ordered(environment={discovery.FILES: missing}))
    assert missing in raised.value.cause
    assert raised.value.cause.endswith(f"(worker on {HOST})")
    assert raised.value.remedy == "install the same on every worker"


def test_a_unit_yields_its_rows_in_order_and_what_there_is_to_tell(ordered, plugins):
    made = Worker(ordered(Failing()))
    came = list(made.work(UNIT))
    assert [(key, r.case, r.status) for rows, _, _ in came for key, r in rows] == [
        ("0", name, "edit_failed" if name == "case 2" else "ok") for name in NAMES
    ]
    (note,) = [note for _, notes, _ in came for note in notes]
    assert note[0] == "0"
    assert note[1].startswith("editing 2 cases together failed: ValueError: no edit")
    assert [list(made.work(replace(UNIT, visits={"0": frozenset()})))] == [[([], [], [])]]


def test_rows_of_a_failed_device_are_left_to_others(ordered, plugins):
    made = Worker(ordered(Failing("RuntimeError('CUDA error: uncorrectable ECC')")))
    came = []
    with pytest.raises(DeviceError, match="uncorrectable ECC"):
        came += made.work(UNIT)
    assert [r.case for rows, _, _ in came for _, r in rows] == ["case 0", "case 1"]


def test_what_nobody_foresaw_is_told_too(ordered, plugins, monkeypatch):
    made = Worker(ordered())
    monkeypatch.setattr(loop, "chunks", lambda *given, **more: 1 / 0)
    with pytest.raises(HarnessError, match=f"internal error on {HOST}: ZeroDivisionError"):
        list(made.work(UNIT))


class OwnError(DataError):
    """An error of a plugin's that pickle cannot make again."""

    def __init__(self, file, line):
        super().__init__(f"{file}:{line} is broken", "mend it")


def test_errors_of_plugins_travel_as_ours():
    made = pickle.loads(pickle.dumps(worker.portable(OwnError("a.json", 3))))
    assert (type(made), made.cause, made.remedy) == (DataError, "a.json:3 is broken", "mend it")
    leak = LeakError("a weight", [("a", 0)], editor="editor x")
    made = pickle.loads(pickle.dumps(worker.portable(leak)))
    assert (type(made), str(made), made.code) == (LeakError, str(leak), 3)


def test_the_environment_says_which_plugins_a_worker_has(monkeypatch):
    monkeypatch.setenv(discovery.ONLY, "edit-harness")
    monkeypatch.setenv(discovery.BLOCK, "x")
    order = worker.plugin_environment()
    assert order[discovery.ONLY] == "edit-harness"
    monkeypatch.delenv(discovery.ONLY)
    monkeypatch.setenv(discovery.FILES, "/a.py")
    worker._take({discovery.BLOCK: "y"})
    assert worker.plugin_environment() == {discovery.BLOCK: "y"}
