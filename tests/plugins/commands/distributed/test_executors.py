"""Executors by name, what they are told wrongly, and how a driver loads what others run."""

import json
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from support.builders import record
from support.commands import failed, invoked, stored
from support.local_workers import Together

import edit_harness as eh
from edit_harness.errors import ResourceError, UsageError
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import build_component
from edit_harness.run import assembly
from edit_harness.testing import tiny_model
from edit_harness_plugins.commands.distributed.pool import WorkerExecutor
from edit_harness_plugins.commands.run.local import turns

ROOM = 4
MADE = []
"""The workers of `Other`, the last of them last."""


@dataclass(frozen=True)
class Other(WorkerExecutor):
    """An executor whose workers are in this process."""

    num_workers: int = 1

    @contextmanager
    def ready(self):
        if self.num_workers > ROOM:
            raise ResourceError("there is no room", "less in --executor-args")
        yield f"on {self.num_workers} workers of other"

    def workers(self, order):
        MADE.append(Together(order, self.num_workers))
        return MADE[-1]


@pytest.fixture
def other(also):
    """Register it."""
    also(edit_harness_register_executors=lambda register: register("other", Other))
    MADE.clear()
    return MADE


def test_this_process_loads_what_it_is_told_and_a_driver_only_identifies_the_model(other):
    given = {"device": "cuda", "device_map": "auto", "dtype": "bfloat16"}
    installed = Plugins.installed()
    local, another = (
        build_component(installed.find("executor", name), {}) for name in ("local", "other")
    )
    assert local.turns({}) is turns
    assert local.loading(given) == given
    assert another.loading(given) == {**given, "device": "cpu", "device_map": None}


def test_python_and_the_command_run_on_workers(other, tmp_path):
    model, facts = str(stored(tmp_path)), tmp_path / "facts.json"
    facts.write_text(json.dumps([record(0), record(1, subject="Bob")]))
    given = {"model": model, "task": "counterfact", "editor": "prompt"}
    given["task_args"] = {"data": str(facts)}
    workers = {"executor": "other", "executor_args": {"num_workers": 2}}
    expected = eh.evaluate(**given, output=tmp_path / "one")
    found = eh.evaluate(**given, output=tmp_path / "two", **workers)
    assert found.estimates == expected.estimates
    args = ("-m", model, "-t", "counterfact", "--task-args", f"data={facts}", "--editor", "prompt")
    args += ("--executor", "other", "--executor-args", "num_workers=2", "-o", tmp_path / "three")
    done = invoked(*args)
    assert done.exit_code == 0
    assert "on 2 workers of other" in " ".join(done.stderr.split())
    assert [(made.size, made.closed) for made in other] == [(2, True)] * 2


def test_a_model_in_memory_cannot_go_to_workers(other, tmp_path):
    with pytest.raises(UsageError, match="workers of other cannot load a model that is in memory"):
        eh.evaluate(model=tiny_model(), executor="other", output=tmp_path)


def test_what_is_wrong_is_told_before_a_model_is_loaded_or_a_folder_made(
    other, tmp_path, monkeypatch
):
    monkeypatch.setattr(assembly, "load", lambda *given, **options: pytest.fail("it was loaded"))
    given = ("--editor", "ft", "-o", tmp_path, "--executor")
    crowded = invoked(*given, "other", "--executor-args", "num_workers=5")
    failed(crowded, 5, "there is no room", "less in --ex")
    failed(invoked(*given, "slurm"), 3, "there is no executor 'slurm'")
    assert not list(tmp_path.iterdir())
