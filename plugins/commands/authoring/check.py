"""The process that ``edit-harness check`` starts: ``python -m edit_harness_plugins.commands.authoring.check PACKAGE``.

It keeps a ledger of what it checks, and goes on where the ledger ends. It prints nothing for users; who
started it reads the ledger, and is `edit_harness_plugins.commands.authoring.supervision`.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import pytest

from edit_harness.registry.selection import FILES, FOLDERS, found

from .check_plan import Plan
from .check_pytest import Reporter
from .ledger import Ledger

ENDED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)


def main() -> int:
    """Check a package; return what pytest returns."""
    parser = argparse.ArgumentParser(prog="python -m edit_harness_plugins.commands.authoring.check")
    parser.add_argument("package")
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--limit", type=int, required=True)
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--words", default="")
    parser.add_argument("--no-run", action="store_true")
    given = parser.parse_args()
    ledger = Ledger(given.ledger)
    settle(given.ledger.parent / "work")
    package = next(known for known in found() if known.name == given.package)
    plan = Plan(package, ledger, 0 if given.no_run else given.limit, given.width)
    reporter = Reporter(plan.make(), ledger, given.words, plan.files)
    code = run(reporter, given.ledger.parent)
    if code in ENDED:
        ledger.complete()
    return code


def settle(folder: Path) -> None:
    """Work in an empty folder from now on: what a check does to it is done to nobody's files."""
    for name in (FILES, FOLDERS, "EDIT_HARNESS_CACHE"):
        if paths := os.environ.get(name):
            os.environ[name] = os.pathsep.join(map(os.path.abspath, paths.split(os.pathsep)))
    sys.path[:] = [os.path.abspath(path) for path in sys.path]
    folder.mkdir(exist_ok=True)
    os.chdir(folder)


def run(reporter: Reporter, folder: Path) -> int:
    """Have pytest run the classes of a plan, without anybody's settings."""
    module, settings = folder / "checks.py", folder / "pytest.ini"
    module.touch()
    settings.touch()
    options = ["-q", "-s", "--import-mode=importlib", "--continue-on-collection-errors"]
    options += ["-p", "no:cacheprovider", "-c", str(settings), f"--rootdir={folder}"]
    options += [f"--confcutdir={folder}", f"--basetemp={folder / 'tmp'}"]
    return int(pytest.main([*options, str(module)], plugins=[reporter]))


if __name__ == "__main__":
    sys.exit(main())
