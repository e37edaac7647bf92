"""The command ``check``: tries a package of plugins by its conformance suites, and in a small run.

pytest runs the checks in a worker of pytest-xdist, and in a new one where a check kills it or takes too long.
This module finds the package and starts pytest; `.conformance` says which checks there are.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from edit_harness.errors import PluginError
from edit_harness.registry.guard import log
from edit_harness.registry.packages import FILES, Package, found, left_out, normal
from edit_harness.registry.registry import suggestion
from edit_harness_plugins.command_line import SETTINGS, chosen, command, with_selection
from edit_harness_plugins.terminal import out, plain

FAILED = 6
CRASHES = 3
"""Checks that may kill their process, until the rest is not tried."""


@command(context_settings=SETTINGS)
@click.argument("distribution", metavar="PACKAGE|FILE")
@click.option("-k", "words", default="", metavar="WORDS", help="Only checks that have these words.")
@click.option("-L", "--limit", type=click.IntRange(1), default=10, show_default=True,
              metavar="N", help="Cases of a run.")  # fmt: skip
@click.option("--no-run", is_flag=True, help="Without a run on the bundled model.")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), default=120.0,
              show_default=True, metavar="S", help="How long a check may take.")  # fmt: skip
@with_selection
def check(distribution: str, words: str, **flags: Any) -> int:
    """Try a package of plugins, or a file of one: its conformance suites, and a small run with it.

    A component without a suite is tried with its defaults. Exit code 6 if a check failed,
    and if something was not tried: a check that did not happen is not passed.
    """
    with chosen(plugin=[distribution] if distribution.endswith(".py") else ()):
        return tried(find(distribution), words, flags)


def tried(package: Package, words: str, flags: Mapping[str, Any]) -> int:
    """Check a package; return the exit code. Raises `PluginError` without what the suites need."""
    if missing := [name for name in ("pytest", "xdist") if not importlib.util.find_spec(name)]:
        raise PluginError(f"the suites need {missing[0]}", "pip install 'pytest>=9' pytest-xdist")
    out.print(plain(package, "bold cyan"), f"from {package.source}", sep="\n")
    checks = Checks(package, flags)
    code = run_pytest(checks, words)
    if not checks.planned:
        out.print("the interpreter died before the first check")
    return FAILED if code or not checks.planned else 0


def find(name: str) -> Package:
    """Return the package of that name, or of that file. Raises `PluginError` that says what there is."""
    packages = found()
    known = {normal(package.name): package for package in packages}
    of_file = (p for p in packages if p.named and p.source == os.path.realpath(name))
    package = known.get(normal(name)) or next(of_file, None)
    if package is None:
        names = sorted(package.name for package in packages)
        raise PluginError(
            f"there is no package {name!r} with plugins{suggestion(name, names)}",
            f"there are: {', '.join(names)}; of what is not installed say where it is: "
            "pip install -e DIR, or check FILE.py",
        )
    if why := left_out(package):
        raise PluginError(f"{package} is left out: {why}", "check it without that")
    return package


def run_pytest(checks: Checks, words: str) -> int:
    """Have pytest run the checks in an empty folder, without anybody's settings; return its exit code."""
    import pytest

    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for name in (FILES, "EDIT_HARNESS_CACHE"):
        if paths := os.environ.get(name):
            os.environ[name] = os.pathsep.join(map(os.path.abspath, paths.split(os.pathsep)))
    sys.path[:] = [os.path.abspath(path) for path in sys.path]
    with tempfile.TemporaryDirectory(prefix="edit-harness-check-") as folder, chdir(folder):
        Path("checks.py").touch()
        Path("pytest.ini").touch()
        options = ["--import-mode=importlib", "-c", "pytest.ini", "--rootdir=."]
        options += ["--confcutdir=.", "--basetemp=tmp", "-p", "no:cacheprovider"]
        options += ["-p", "no:warnings", "-p", "xdist", "-p", __name__]
        trace = "long" if log.isEnabledFor(logging.DEBUG) else "line"
        options += ["-v", "--no-header", "-rfE", f"--tb={trace}"]
        # Workers get few checks at a time: those that one leaves behind would come last.
        options += ["--numprocesses=1", "--dist=load", "--maxschedchunk=1"]
        options += [f"--max-worker-restart={CRASHES - 1}"]
        options += ["-o", f"faulthandler_timeout={checks.flags['seconds']}"]
        options += ["-o", "faulthandler_exit_on_timeout=true"]
        asked = [word for word in words.split() if word not in ("and", "or", "not")]
        found = [*options, "-k", " and ".join(asked), "checks.py"]
        return int(pytest.main(found, plugins=[checks]))


def pytest_collectstart(collector: Any) -> None:
    """In a worker: put the classes of the checks into the one module that there is."""
    if collector.nodeid != "checks.py":
        return
    from . import conformance

    # What a check does to its working folder is done to nobody's files.
    empty = collector.path.with_name("work")
    empty.mkdir(exist_ok=True)
    os.chdir(empty)
    made = conformance.classes(**collector.config.workerinput["plan"])
    vars(collector.obj).update({f"Test {subject}": tests for subject, tests in made.items()})


@dataclass
class Checks:
    """A plugin of pytest that tells its worker what to check, and prints the tables of runs."""

    package: Package
    flags: Mapping[str, Any]
    planned: bool = False

    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker what to check."""
        limit = 0 if self.flags["no_run"] else self.flags["limit"]
        node.workerinput["plan"] = {"name": self.package.name, "limit": limit}

    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Note that a worker knows which checks there are."""
        self.planned = True

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Print the table of a run."""
        if report.when == "call" and (table := dict(report.user_properties).get("table")):
            out.print(f"\n{table}")
