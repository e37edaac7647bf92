"""Every misbehaving plugin is caught by the checks that are for it; what the suites promise besides."""

import importlib
import re
import sys
from collections import defaultdict

import pytest
from _pytest.outcomes import Skipped
from support import zoo
from support.builders import QUIZ, ROOT, distribution
from support.zoo_tasks import Listed

from edit_harness import Judge, Key, Reply
from edit_harness.registry import guard
from edit_harness.testing import EditorTests, JudgeTests, MetricTests, PluginTests, TaskTests
from edit_harness_plugins.commands.authoring.builder_suite import BuilderTests

ANIMALS = sorted(name for name in vars(zoo) if name.startswith("Test"))

HOOKS = "test_hooks_are_known"

AS_IT_WAS = "test_registering_leaves_the_process_as_it_was"
HEALTHY = {"quiz-healthy": (QUIZ, {})}
CAUGHT = {
    "quiz-noisy": (
        f"print('Welcome to the quiz!'){QUIZ}",
        {"test_registers_in_silence": "it prints when it is imported: 'Welcome to the quiz!'"},
    ),
    "quiz-heavy": (
        f"import scipy{QUIZ}",
        {"test_registers_without_heavy_modules": "it imports numpy, scipy: name the factory as"},
    ),
    "quiz-seeder": (
        f"import os, random\nrandom.seed(1)\nos.environ['QUIZ'] = '1'{QUIZ}",
        {AS_IT_WAS: "importing it changed the environment (QUIZ"},
    ),
    "quiz-unmarked": (
        QUIZ.replace("@hookimpl", ""),
        {HOOKS: "edit_harness_register_tasks is never called: mark it with @hook"},
    ),
    "quiz-misspelt": (
        QUIZ.replace("register_tasks", "register_taks"),
        {HOOKS: "unknown hook 'edit_harness_register_taks'"},
    ),
    "quiz-wrong-kind": (
        QUIZ.replace("(Task)", "").replace("cases", "questions"),
        {"test_components_are_of_their_kind": "is no Task"},
    ),
}
UNREGISTERED = {"quiz-misspelt", "quiz-unmarked"}
"""What a process of its own cannot register either, so that the checks of it fail too."""


class Notes:
    """What failed, by class and check, with the message; and what ran at all."""

    def __init__(self):
        self.failed = defaultdict(dict)
        self.ran = defaultdict(set)

    def pytest_runtest_logreport(self, report):
        *_, animal, check = report.nodeid.split("[")[0].split("::")
        self.ran[animal].add(check)
        if report.failed:
            self.failed[animal][check] = report.longreprtext


def run(file):
    """Run the suites of a file in this process."""
    notes, before = Notes(), guard.read()
    quiet = ["-q", "--tb=short", "--noconftest", "-p", "no:cacheprovider", "-p", "no:faulthandler"]
    pytest.main([*quiet, "-o", "python_files=*.py", f"--rootdir={ROOT}", str(file)], [notes])
    guard.put_back(before)
    return notes


@pytest.fixture(scope="module")
def animals():
    return run(zoo.__file__)


@pytest.mark.parametrize("name", ANIMALS)
def test_it_is_caught_by_the_checks_that_are_for_it(animals, name):
    suite = getattr(zoo, name)
    failed = animals.failed[name]
    checks = {check for check in dir(suite) if check.startswith("test_") and getattr(suite, check)}
    assert animals.ran[name] == checks
    if getattr(suite, "everything", False):
        assert failed.keys() >= suite.caught.keys()
    else:
        assert failed.keys() == suite.caught.keys()
    for check, words in suite.caught.items():
        assert words in failed[check]


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Install the packages into a folder, and run the suite of each."""
    folder = tmp_path_factory.mktemp("packages")
    before, modules = guard.read(), []
    sys.path.insert(0, str(folder))
    lines = ["from edit_harness.testing import PluginTests"]
    for name, (source, _) in {**HEALTHY, **CAUGHT}.items():
        module = distribution(folder, name, source.replace("quiz-night", name))
        modules.append(module)
        lines += [f"import {module}", f"class Test_{module}(PluginTests): plugin = {module}"]
    importlib.invalidate_caches()
    file = folder / "try_packages.py"
    file.write_text("\n".join(lines), encoding="utf-8")
    notes = run(file)
    guard.put_back(before)
    sys.path.remove(str(folder))
    for module in modules:
        sys.modules.pop(module, None)
    return notes


@pytest.mark.parametrize("name", [*HEALTHY, *CAUGHT])
def test_a_package_is_caught_by_the_checks_that_are_for_it(packages, name):
    caught = (HEALTHY | CAUGHT)[name][1]
    animal = f"Test_{name.replace('-', '_')}"
    assert len(packages.ran[animal]) == 5
    failed = packages.failed[animal]
    if name in UNREGISTERED:
        assert all("cannot be registered" in failed[c] for c in failed.keys() - caught.keys())
    else:
        assert failed.keys() == caught.keys()
    for check, words in caught.items():
        assert words in failed[check]


SUITES = {
    "Editors": EditorTests,
    "Tasks": TaskTests,
    "Metrics": MetricTests,
    "Judges": JudgeTests,
    "Builders": BuilderTests,
    "Packages": PluginTests,
}


def test_a_task_goes_to_another_process_as_json():
    """Item 21 of issue I: its class by name and its fields; what is no JSON stays here."""

    def check(task):
        type("Suite", (TaskTests,), {"task": task})().test_cases_are_the_same_in_another_process()

    check(Listed(3))
    with pytest.raises(Skipped, match="cannot be given its fields: Object of type set"):
        check(Listed(extra={1}))


@pytest.mark.parametrize("kind", SUITES)
def test_the_page_has_every_check_and_no_other(kind):
    """In the table of its kind, with what to do if it fails; what it says is its docstring."""
    page = (ROOT / "docs" / "how-to" / "plugins.md").read_text(encoding="utf-8")
    (section,) = re.findall(rf"^### {kind}$(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL)
    rows = [[cell.strip() for cell in line.split(" | ")] for line in section.splitlines()]
    rows = [row for row in rows if row[0].startswith("| `test_")]
    assert all(len(row) == 2 and all(row) for row in rows)
    told = [row[0].strip("| `") for row in rows]
    checks = {name for name in dir(SUITES[kind]) if name.startswith("test_")}
    assert sorted(told) == sorted(checks)
    assert all(getattr(SUITES[kind], name).__doc__ for name in checks)


def test_what_is_compared_is_told():
    """Also in an installed package, whose asserts pytest leaves alone unless it is told."""

    class Ones(Judge):
        def judge(self, replies):
            return [1] * 9

    suite = type("Suite", (JudgeTests,), {"judge": Ones(), "replies": [Reply("", "", Key("word"))]})
    with pytest.raises(AssertionError, match=r"return a verdict for each reply(.|\n)*9 == 1"):
        suite().test_verdicts_are_sound()
