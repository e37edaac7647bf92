"""Every misbehaving plugin is caught by the checks that are for it, or is isolated by name."""

import importlib
import sys
from collections import defaultdict

import pytest
from support import zoo
from support.builders import ROOT, distribution

from edit_harness.registry import guard

ANIMALS = sorted(name for name in vars(zoo) if name.startswith("Test"))
PACKAGE = """
from edit_harness import Task, hookimpl

class Quiz(Task):
    def cases(self):
        return []

@hookimpl
def edit_harness_register_tasks(register):
    register("NAME", Quiz, "Questions")
"""

HOOKS = "test_hooks_are_known"

AS_IT_WAS = "test_registering_leaves_the_process_as_it_was"
HEALTHY = {"quiz-healthy": (PACKAGE, {})}
CAUGHT = {
    "quiz-noisy": (
        f"print('Welcome to the quiz!'){PACKAGE}",
        {"test_registers_in_silence": "it prints when it is imported: 'Welcome to the quiz!'"},
    ),
    "quiz-heavy": (
        f"import scipy{PACKAGE}",
        {"test_registers_without_heavy_modules": "it imports numpy, scipy: name the factory as"},
    ),
    "quiz-seeder": (
        f"import os, random\nrandom.seed(1)\nos.environ['QUIZ'] = '1'{PACKAGE}",
        {AS_IT_WAS: "importing it changed the environment (QUIZ"},
    ),
    "quiz-unmarked": (
        PACKAGE.replace("@hookimpl", ""),
        {HOOKS: "edit_harness_register_tasks is never called: mark it with @hook"},
    ),
    "quiz-nothing": (
        "import edit_harness",
        {HOOKS: "it registers nothing; hooks are functions marked @hookimpl"},
    ),
    "quiz-misspelt": (
        PACKAGE.replace("register_tasks", "register_taks"),
        {HOOKS: "unknown hook 'edit_harness_register_taks'"},
    ),
    "quiz-wrong-kind": (
        PACKAGE.replace("(Task)", "").replace("cases", "questions"),
        {"test_components_are_of_their_kind": "is no Task"},
    ),
}
UNREGISTERED = {"quiz-misspelt", "quiz-unmarked", "quiz-nothing"}
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
        module = distribution(folder, name, source.replace("NAME", name))
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
