"""The command ``check``, on small packages that conform or do not."""

import importlib.util
import sys

import pytest
from click.testing import CliRunner
from support.checked import checked, command, put

from edit_harness import PluginError
from edit_harness.cli import main
from edit_harness_plugins.commands.authoring import check as checking

MANY = """
from edit_harness import Judge, Measure, Metric, Task, hookimpl
from step_many_editor import Steepest

class Strict(Judge):
    kinds = {"word": "nothing"}
    def judge(self, replies):
        return []

class Sure(Metric):
    measures = {"X": Measure("mean of p", probes=("efficacy",))}
    def measure(self, case, before, after):
        return {"post_X": float(after[0].prob(0))}

class None_: ...

@hookimpl
def edit_harness_register_editors(register):
    register("steepest", Steepest, "One step of fixed length")
@hookimpl
def edit_harness_register_metrics(register):
    register("sure", Sure, "Sure of itself")
@hookimpl
def edit_harness_register_judges(register):
    register("strict", Strict, "Nothing is right")
@hookimpl
def edit_harness_register_suites(register):
    register("steepest", None_, "None")
"""
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


def test_a_package_that_conforms_gets_a_verdict_for_each_check_and_a_run(tmp_path):
    put(tmp_path, "step-good")
    # Settings of pytest that are somebody else's: an option that does not exist would end it.
    settings = {"PYTEST_ADDOPTS": "--no-such-option"}
    code, told, checks = checked(tmp_path, "Step_Good", "--limit", "2", **settings)
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


def test_an_editor_that_edits_in_place_is_named_among_components_of_all_kinds(tmp_path):
    put(tmp_path, "step-many", MANY, harm="model.parameter(name).data.add_(1e-3)")
    code, told, checks = checked(tmp_path, "step-many", "--no-run", COLUMNS="200")
    assert code == 6
    assert "FAILED checks.py::Test editor steepest::test_leaves_the_model_and" in told
    assert "changed and not put back: weights" in told
    assert "Traceback" not in told
    for subject, check, outcome, why in (
        ("plugin step_many", "components are of their kind", "FAILED", "is no Suite"),
        ("suite steepest", "names what it tries", "FAILED", ""),
        ("editor steepest", "is imported", "PASSED", ""),
        ("judge strict", "can be tried without settings", "FAILED", "names it and its replies"),
        ("metric sure", "is pure", "PASSED", ""),
    ):
        assert checks[subject, check] == outcome
        assert why in told


def test_a_case_of_no_use_is_no_failure_and_words_choose_checks(tmp_path):
    (tmp_path / "quiz.py").write_text(TASK, encoding="utf-8")
    given = (tmp_path / "quiz.py", "-k")
    done = command(tmp_path, *given, "every case answered")
    assert done.returncode == 0
    assert "ES " in done.stdout
    assert command(tmp_path, *given, "xyzzy").returncode == 6, "no check has that word"


@pytest.fixture
def found(tmp_path, monkeypatch):
    put(tmp_path, "step-good")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("step_good", None)


def test_packages_are_found_by_any_spelling_and_files_by_name_and_path(
    found, monkeypatch, tmp_path
):
    assert str(checking.find("Step.Good")) == "step-good 1.0"
    with pytest.raises(PluginError, match=r"did you mean step-good\?"):
        checking.find("step-godo")
    monkeypatch.setenv("EDIT_HARNESS_BLOCK", "step-good")
    with pytest.raises(PluginError, match=r"step-good 1.0 is left out: EDIT_HARNESS_BLOCK"):
        checking.find("step-good")
    file = tmp_path / "quiz.py"
    file.touch()
    monkeypatch.setenv("EDIT_HARNESS_PLUGIN_FILES", str(file))
    for name in ("quiz.py", str(file)):
        assert checking.find(name).source == str(file.resolve())


def test_without_pytest_the_error_says_what_to_install(found, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pytest" else find_spec(name)
    )
    result = CliRunner().invoke(main, ["plugins", "check", "step-good"])
    assert result.exit_code == 3
    assert "the suites need pytest" in result.stderr
    assert "pip install 'pytest>=9' pytest-xdist" in result.stderr
