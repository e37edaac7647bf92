"""The command ``check``, on small packages that conform or do not."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner
from support.builders import distribution

from edit_harness import PluginError
from edit_harness.cli import main
from edit_harness_plugins.commands.authoring import check as checking

METADATA = """Metadata-Version: 2.4
Name: {name}
Version: 1.0
Summary: One step of fixed length
License-Expression: MIT
Requires-Python: >=3.11
Requires-Dist: edit-harness
"""
REGISTRATION = """
from edit_harness import hookimpl
@hookimpl
def edit_harness_register_editors(register):
    register("steepest", "{module}_editor:Steepest", "One step of fixed length")
@hookimpl
def edit_harness_register_suites(register):
    register("steepest", "{module}_suite:TestSteepest", "A longer step")
"""
EDITOR = '''
import os, time
from dataclasses import dataclass
import torch
from edit_harness import Editor
from edit_harness.edits import Dense, Edit
from edit_harness.errors import PluginError

@dataclass
class Steepest(Editor):
    """Moves one projection against its gradient, by a fixed length."""

    layer: int = 0
    length: float = 1.0

    def edit(self, model, requests):
        name = f"{{model.architecture.projection(self.layer).name}}.weight"
        weight = model.parameter(name).detach().clone().requires_grad_()
        (gradient,) = torch.autograd.grad(model.nll(requests, {{name: weight}}).sum(), weight)
        {harm}
        return Edit({{name: Dense(-self.length * gradient / gradient.norm())}})
'''
SUITE = """
from edit_harness.testing import EditorTests
from {module}_editor import Steepest

class TestSteepest(EditorTests):
    editor = Steepest(length=2.0)
"""
JUDGE = """
from edit_harness import Judge, hookimpl
class Strict(Judge):
    kinds = {"word": "nothing"}
    def judge(self, replies):
        return []
@hookimpl
def edit_harness_register_judges(register):
    register("strict", Strict, "Nothing is right")
"""


def put(folder, name, registration=REGISTRATION, harm="pass", suite=SUITE):
    """Write an installed package with an editor and its suite."""
    module = name.replace("-", "_")
    folder.mkdir(exist_ok=True)
    (folder / f"{module}_editor.py").write_text(EDITOR.format(harm=harm), encoding="utf-8")
    (folder / f"{module}_suite.py").write_text(suite.format(module=module), encoding="utf-8")
    distribution(folder, name, registration.replace("{module}", module))
    info = folder / f"{module}-1.0.dist-info" / "METADATA"
    info.write_text(METADATA.format(name=name), encoding="utf-8")
    files = [f"{module}{part}.py,," for part in ("", "_editor", "_suite")]
    info.with_name("RECORD").write_text("\n".join(files), encoding="utf-8")
    return folder


def command(folder, *args, **env):
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))
    settings = {"PYTHONPATH": path, "COLUMNS": "80", "OMP_NUM_THREADS": "1", **env}
    return subprocess.run(
        [sys.executable, "-m", "edit_harness", "check", *map(str, args)],
        capture_output=True, text=True, check=False, env=os.environ | settings,
    )  # fmt: skip


def checked(folder, *args, **env):
    """Return the exit code, what was printed, and what came of the checks by subject and name."""
    done = command(folder, *args, **env)
    said = re.findall(
        r"^\[gw\d+\] .*?([A-Z]+) checks\.py::Test (.+?)::test_(\S+)", done.stdout, re.MULTILINE
    )
    return (
        done.returncode,
        done.stdout + done.stderr,
        {(subject, name.replace("_", " ")): outcome for outcome, subject, name in said},
    )


def test_a_package_that_conforms_gets_a_verdict_for_each_check_and_a_run(tmp_path):
    put(tmp_path, "step-good")
    # Settings of pytest that are somebody else's: an option that does not exist would end it.
    code, told, checks = checked(
        tmp_path, "Step_Good", "--limit", "2", PYTEST_ADDOPTS="--no-such-option"
    )
    assert code == 0, told
    assert told.startswith(f"step-good 1.0\nfrom {tmp_path.resolve()}\n")
    assert set(checks.values()) <= {"PASSED", "SKIPPED"}
    editor, run = "editor steepest", "run of steepest on counterfact"
    assert {subject for subject, _ in checks} == {"plugin step_good", editor, run}
    # It has a suite of its own, so that its defaults are not tried.
    assert (editor, "can be tried without settings") not in checks
    assert checks[run, "ends with every case answered"] == "PASSED"
    assert "ES " in told
    assert " passed" in told.splitlines()[-1]
    assert "failed" not in told.splitlines()[-1]


def test_an_editor_that_edits_in_place_is_named_with_what_it_changed(tmp_path):
    put(tmp_path, "step-bad", harm="model.parameter(name).data.add_(1e-3)")
    done = command(tmp_path, "step-bad", "-k", "process as they were", "--no-run")
    assert done.returncode == 6
    assert "FAILED checks.py::Test editor steepest::test_leaves_the_model_and" in done.stdout
    assert "changed and not put back: weights" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert "1 failed" in done.stdout.splitlines()[-1]


def test_what_ends_the_interpreter_is_named_and_given_up_in_the_end(tmp_path):
    put(tmp_path, "step-dead", harm="os._exit(0)")
    code, told, checks = checked(tmp_path, "step-dead", "-k", "editor", "--no-run")
    assert code == 6
    failed = [subject for (subject, _), outcome in checks.items() if outcome == "FAILED"]
    # Three are enough to see that it will not get any better.
    assert failed == ["editor steepest"] * 3
    assert "crashed while running" in told
    assert "maximum crashed workers reached" in told


DROWSY = """
    def test_drowsy_one_sleeps(self):
        import time
        time.sleep(600)

    def test_drowsy_two_wakes(self):
        pass
"""


def test_what_hangs_is_named_and_the_rest_is_checked(tmp_path):
    put(tmp_path, "step-slow", suite=SUITE + DROWSY)
    code, told, checks = checked(
        tmp_path, "step-slow", "-k", "drowsy", "--no-run", "--seconds", "5"
    )
    assert code == 6
    assert checks["editor steepest", "drowsy one sleeps"] == "FAILED"
    assert "Timeout" in told
    assert "test_drowsy_one_sleeps" in told
    assert checks["editor steepest", "drowsy two wakes"] == "PASSED"


def test_a_module_that_cannot_be_imported_is_named(tmp_path):
    put(tmp_path, "step-broken", "import nothing_of_that_name")
    code, told, checks = checked(tmp_path, "step-broken", "--no-run")
    assert code == 6
    assert checks["plugin step_broken", "is imported and registers"] == "FAILED"
    assert "No module named 'nothing_of_that_name'" in told


def test_a_module_that_ends_the_interpreter_is_no_pass(tmp_path):
    put(tmp_path, "step-broken", "import os; os._exit(7)")
    code, told, _ = checked(tmp_path, "step-broken", "--no-run")
    assert code == 6
    assert "the interpreter died before the first check" in told


def test_a_suite_that_is_none_fails(tmp_path):
    put(tmp_path, "step-bare", suite="class TestSteepest: ...\n")
    code, told, checks = checked(tmp_path, "step-bare", "--no-run")
    assert code == 6
    failed = [name for (_, name), outcome in checks.items() if outcome == "FAILED"]
    assert failed == [
        "components are of their kind",
        "names what it tries",
    ]
    assert "is no Suite" in told
    # A suite that is of no use does not hide that the component can be tried without.
    assert checks["editor steepest", "is deterministic"] == "PASSED"


def test_what_is_not_tried_is_shown_as_such_and_is_no_pass(tmp_path):
    put(tmp_path, "step-judge", JUDGE)
    code, told, checks = checked(tmp_path, "step-judge", "-k", "strict", COLUMNS="200")
    assert code == 6
    assert checks["judge strict", "can be tried without settings"] == "FAILED"
    assert "register one that names it and its replies" in told


@pytest.fixture
def found(tmp_path, monkeypatch):
    put(tmp_path, "step-good")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("step_good", None)


@pytest.mark.parametrize(
    ("name", "cause", "remedy"),
    [
        ("step-godo", "did you mean step-good?", "step-good"),
        ("./step-good", "no package './step-good'", "check NAME --plugin FILE"),
    ],
)  # fmt: skip
def test_a_name_that_is_none_of_a_package_leads_to_one(found, name, cause, remedy):
    with pytest.raises(PluginError) as caught:
        checking.find(name)
    assert cause in caught.value.cause
    assert remedy in caught.value.remedy


def test_a_package_is_found_by_any_spelling_of_its_name(found):
    assert str(checking.find("Step.Good")) == "step-good 1.0"


def test_a_package_that_is_left_out_is_not_checked(found, monkeypatch):
    monkeypatch.setenv("EDIT_HARNESS_BLOCK", "step-good")
    with pytest.raises(PluginError, match=r"step-good 1.0 is left out: EDIT_HARNESS_BLOCK"):
        checking.find("step-good")


def test_words_that_no_check_has_are_an_error(tmp_path):
    done = command(tmp_path, metric(tmp_path), "--plugin", tmp_path / "sure.py", "-k", "xyzzy")
    assert done.returncode == 6
    assert "no tests ran" in done.stdout or "deselected" in done.stdout


METRIC = """
import os
from pathlib import Path
from edit_harness import Measure, Metric, hookimpl
MAIN = os.getpid()

class Sure(Metric):
    measures = {"X": Measure("mean of p", probes=("efficacy",))}
    def measure(self, case, before, after):
        if not case.probes or case.probes[0].role != "efficacy":
            return {}
        HARM
        return {"post_X": float(after[0].prob(0))}

@hookimpl
def edit_harness_register_metrics(register):
    register("sure", Sure, "Sure of itself")
"""


def metric(tmp_path, harm="pass"):
    file = tmp_path / "sure.py"
    file.write_text(METRIC.replace("HARM", harm), encoding="utf-8")
    return file


def test_a_metric_that_no_task_names_is_tried_with_cases_that_are_made_up(tmp_path):
    file = metric(tmp_path)
    code, told, checks = checked(tmp_path, file, "--plugin", file)
    assert code == 0, told
    assert {subject for subject, _ in checks} == {"metric sure"}
    assert checks["metric sure", "is pure"] == "PASSED"


def test_an_error_in_the_author_s_code_has_file_and_line_and_each_failure_a_reason(tmp_path):
    file = metric(tmp_path, "a, b = before[0], *()")
    done = command(tmp_path, "sure.py", "--plugin", file, "-k", "metric")
    # No made-up case concerns a metric that fails on all of them.
    assert done.returncode == 6
    put(tmp_path, "step-odd", harm="a, b = (1,)")
    done = command(tmp_path, "step-odd", "-k", "editor", "--no-run")
    line = 1 + (tmp_path / "step_odd_editor.py").read_text().split("a, b")[0].count("\n")
    assert f"step_odd_editor.py:{line}: " in done.stdout
    assert "not enough values to unpack" in done.stdout


TASK = """
from edit_harness import Case, Choose, Probe, Request, Task, hookimpl
REQUEST = Request("{} lives in", "Ann", "Rome", "Oslo")
class Quiz(Task):
    metrics = ("success",)
    def cases(self):
        yield Case("0", (REQUEST,), (Probe("efficacy", Choose(REQUEST.text, ("Rome", "Oslo"))),))
        yield Case("1", (), (), problem="no objects")
@hookimpl
def edit_harness_register_tasks(register):
    register("quiz", Quiz, "Questions")
"""


def test_a_case_of_no_use_is_no_failure(tmp_path):
    file = tmp_path / "quiz.py"
    file.write_text(TASK, encoding="utf-8")
    done = command(tmp_path, "quiz.py", "--plugin", file, "-k", "every case answered")
    assert done.returncode == 0
    assert "ES " in done.stdout


def test_a_file_that_is_not_named_leads_to_a_command_that_works(tmp_path, monkeypatch):
    file = metric(tmp_path)
    with pytest.raises(PluginError) as caught:
        checking.find(str(file))
    assert "check NAME --plugin FILE" in caught.value.remedy
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDIT_HARNESS_PLUGIN_FILES", str(file))
    assert checking.find("sure.py").source == str(file.resolve())
    assert checking.find(str(file)).source == str(file.resolve())


def test_without_pytest_the_error_says_what_to_install(found, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pytest" else find_spec(name)
    )
    result = CliRunner().invoke(main, ["check", "step-good"])
    assert result.exit_code == 3
    assert "the suites need pytest" in result.stderr
    assert "pip install 'pytest>=9' pytest-xdist" in result.stderr


def test_the_command_needs_no_torch():
    code = (
        "import sys, edit_harness_plugins.commands.authoring.check; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
