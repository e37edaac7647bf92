"""A stranger's package, from its wheel to the numbers of a run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support.builders import distribution

from edit_harness import evaluate
from edit_harness.registry.registry import Plugins
from edit_harness.testing import tiny_model

PYPROJECT = """
[project]
name = "edit-harness-agenda"
version = "1.2"
dependencies = ["edit-harness"]

[project.entry-points.edit_harness]
agenda = "edit_harness_agenda"

[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[tool.setuptools]
packages = ["edit_harness_agenda"]

[tool.setuptools.package-data]
edit_harness_agenda = ["agenda.jsonl"]
"""
REGISTRATION = '''
"""Agenda: who meets whom."""

from edit_harness import hookimpl


@hookimpl
def edit_harness_register_editors(register):
    register("steepest", "edit_harness_agenda.editor:Steepest", "One step of fixed length")


@hookimpl
def edit_harness_register_tasks(register):
    register("agenda", "edit_harness_agenda.task:Agenda", "Who meets whom")


@hookimpl
def edit_harness_register_metrics(register):
    register("certainty", "edit_harness_agenda.metric:Certainty", "How sure is the model?")
'''
EDITOR = '''
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from edit_harness import Editor, Request
from edit_harness.edits import Dense, Edit
from edit_harness.model import Model


@dataclass
class Steepest(Editor):
    """Moves one projection against its gradient, by a fixed length."""

    layer: int = 0
    length: float = 1.0

    def edit(self, model: Model, requests: Sequence[Request]) -> Edit:
        name = f"{model.architecture.projection(self.layer).name}.weight"
        weight = model.parameter(name).detach().clone().requires_grad_()
        parts = [model.tokens.split(r.text, r.target_new) for r in requests]
        batch = model.batch([part.inputs for part in parts])
        spots = [
            (row, place, token)
            for row, part in enumerate(parts)
            for place, token in zip(part.places, part.target)
        ]
        rows, places, tokens = zip(*spots)
        logits = model.logits(batch, batch.places(rows, places), {name: weight})
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor(tokens))
        (gradient,) = torch.autograd.grad(loss, weight)
        return Edit({name: Dense(-self.length * gradient / gradient.norm())})
'''
TASK = '''
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from edit_harness import Case, Choose, Probe, Request, Task


@dataclass
class Agenda(Task):
    """Changes whom a person meets; others keep their appointments."""

    path: str = str(Path(__file__).with_name("agenda.jsonl"))
    metrics = ("success", "certainty")

    def cases(self) -> Iterable[Case]:
        for line in Path(self.path).read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            request = Request("{} meets", row["person"], row["new"], row["old"])
            candidates = (request.target_new, request.target_true)
            yield Case(row["id"], (request,), (
                Probe("efficacy", Choose(request.text, candidates)),
                Probe("paraphrase", Choose(f"The agenda of {row['person']} says", candidates)),
                *(Probe("neighborhood", Choose(f"{n} meets", candidates)) for n in row["others"]),
            ))
'''
METRIC = '''
from edit_harness import Measure, Metric, Scores


class Certainty(Metric):
    """The likelihood of the new object where it is asked for."""

    measures = {"certainty": Measure("mean of p(new)")}

    def measure(self, case, before, after):
        values = {}
        for probe, old, new in zip(case.probes, before, after, strict=True):
            if probe.role == "efficacy" and isinstance(old, Scores):
                values |= {"pre_certainty": old.prob(0), "post_certainty": new.prob(0)}
        return values
'''
DATA = """
{"id": "mon", "person": "Ada", "new": "Bob", "old": "Ann", "others": ["Danielle", "Paris"]}
{"id": "tue", "person": "Bob", "new": "Danielle", "old": "Ada", "others": ["Ann"]}
{"id": "wed", "person": "Ann", "new": "Ada Lovelace", "old": "Bob", "others": ["Ada", "Bob"]}
""".lstrip()
TESTS = """
import edit_harness_agenda
from edit_harness.testing import EditorTests, MetricTests, PluginTests, TaskTests
from edit_harness_agenda.editor import Steepest
from edit_harness_agenda.metric import Certainty
from edit_harness_agenda.task import Agenda


class TestSteepest(EditorTests):
    editor = Steepest()


class TestAgenda(TaskTests):
    task = Agenda()


class TestCertainty(MetricTests):
    metric = Certainty()
    task = Agenda()


class TestPlugin(PluginTests):
    plugin = edit_harness_agenda
"""


def python(*args, **env):
    command = [sys.executable, *map(str, args)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | env
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Build the package's wheel, and install it into a folder of its own."""
    source, target = tmp_path_factory.mktemp("agenda"), tmp_path_factory.mktemp("target")
    package = source / "edit_harness_agenda"
    package.mkdir()
    (source / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    files = {"__init__.py": REGISTRATION, "editor.py": EDITOR, "task.py": TASK}
    for name, text in {**files, "metric.py": METRIC, "agenda.jsonl": DATA}.items():
        (package / name).write_text(text, encoding="utf-8")
    options = ["--no-build-isolation", "--no-deps", "--no-index"]
    done = python("-m", "pip", "wheel", *options, "--wheel-dir", source, source)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = source.glob("*.whl")
    options = ["--no-deps", "--no-index", "--target", target]
    done = python("-m", "pip", "install", *options, wheel)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.fixture
def path(installed, monkeypatch):
    """Have the installed package on the path, and forget its modules afterwards."""
    monkeypatch.syspath_prepend(installed)
    yield installed
    for name in [name for name in sys.modules if name.startswith("edit_harness_agenda")]:
        del sys.modules[name]


def test_it_is_installed(path):
    plugins = Plugins.installed()
    for kind, name in (("editor", "steepest"), ("task", "agenda"), ("metric", "certainty")):
        component = plugins.find(kind, name)
        assert component.distribution == "edit-harness-agenda"
        assert component.version == "1.2"
        assert plugins.find(kind, f"edit-harness-agenda/{name}") is component
        assert Path(sys.modules[component.load().__module__].__file__).is_relative_to(path)
    assert not [f for f in plugins.failures if f.package.name == "edit-harness-agenda"]


def test_it_runs_from_end_to_end(path, tmp_path):
    torch.set_num_threads(1)
    options = {"model": tiny_model(), "output": tmp_path}
    run = evaluate("steepest", "agenda", **options, editor_args={"length": 3.0})
    assert [record.case for record in run.records] == ["mon", "tue", "wed"]
    assert not run.failures
    assert set(run.records[0].values) == {"success", "certainty"}
    before, after = (run.estimates[f"{when}_certainty"] for when in ("pre", "post"))
    assert after.value > before.value > 0
    assert run["ES"].n == 3
    assert "certainty" in run.table()
    assert run.manifest.identity.editor.version == "edit-harness-agenda 1.2"
    assert run.manifest.identity.editor.fields == {"layer": 0, "length": 3.0}
    again = evaluate("steepest", "agenda", **options, editor_args={"length": 3.0})
    assert again.folder.path == run.folder.path
    assert again.results() == run.results()
    # Bundled editors take its task, and its editor leaves no trace in the model.
    untouched = evaluate("none", "agenda", **options)
    assert untouched.estimates["pre_certainty"].value == pytest.approx(before.value)
    assert untouched.results()["noop"] == 3


def test_the_command_lists_it(installed):
    done = python("-m", "edit_harness", "plugins", PYTHONPATH=str(installed))
    assert done.returncode == 0, done.stderr
    assert "edit-harness-agenda" in done.stdout
    assert "1.2" in done.stdout


def test_its_own_tests_use_our_suites(installed, tmp_path):
    (tmp_path / "test_agenda.py").write_text(TESTS, encoding="utf-8")
    done = python(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path, PYTHONPATH=str(installed)
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def test_a_broken_package_is_named_and_stops_nobody(path, tmp_path, monkeypatch):
    distribution(tmp_path, "edit-harness-wreck", "import no_such_module\n", version="0.3")
    monkeypatch.syspath_prepend(tmp_path)
    plugins = Plugins.installed()
    (failure,) = (f for f in plugins.failures if f.package.name == "edit-harness-wreck")
    assert failure.package.version == "0.3"
    assert "No module named 'no_such_module'" in failure.reason
    assert plugins.find("editor", "steepest")
    assert plugins.find("editor", "rome")
    both = os.pathsep.join(map(str, (path, tmp_path)))
    done = python("-m", "edit_harness", "plugins", PYTHONPATH=both)
    assert "no_such_module" in done.stdout + done.stderr
    assert "edit-harness-wreck 0.3" in done.stdout + done.stderr
    assert "edit-harness-agenda" in done.stdout
