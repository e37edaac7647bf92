"""The command ``check``: tries a package of plugins by its conformance suites, and in a small run.

pytest runs the checks in a worker of pytest-xdist, and in a new one where a check kills it or takes too long.
This module finds the package and shows what comes of each check; `.conformance` says which checks there are.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from edit_harness.errors import PluginError, UsageError
from edit_harness.registry.packages import Package, normal
from edit_harness.registry.registry import suggestion
from edit_harness.registry.selection import FILES, FOLDERS, found, left_out
from edit_harness.shell.options import SETTINGS, as_json, debug, with_selection
from edit_harness.shell.terminal import Terminal, plain

FAILED = 6
"""The exit code of a package that does not conform, or of which something was not tried."""
CRASHES = 3
"""Checks that may kill their process, until the rest is not tried."""
STYLES = {"passed": "green", "failed": "bold red", "not tried": "yellow", "skipped": "dim"}
"""The outcomes, and how they are printed."""
SHOWN = {"passed": "ok", "failed": "FAILED"}
LONGEST = 400
"""Characters of a reason."""

out = Terminal()


@dataclass(frozen=True)
class Finding:
    """What came of a check."""

    subject: str
    """What was checked, such as ``editor steepest``."""
    name: str
    """What holds of the subject if it passes, such as ``is deterministic``."""
    outcome: str
    reason: str = ""
    """Why it did not pass, in a line or two."""
    details: str = ""
    """The whole report, with its traceback."""
    seconds: float = 0.0


@click.command(context_settings=SETTINGS)
@click.argument("distribution", metavar="PACKAGE")
@click.option("-k", "words", default="", metavar="WORDS", help="Only checks that have these words.")
@click.option("-L", "--limit", type=click.IntRange(1), default=10, show_default=True,
              metavar="N", help="Cases of a run.")  # fmt: skip
@click.option("--no-run", is_flag=True, help="Without a run on the bundled model.")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), default=120.0,
              show_default=True, metavar="S", help="How long a check may take.")  # fmt: skip
@as_json
@debug
@with_selection
def check(distribution: str, words: str, as_json: bool, debug: bool, **flags: Any) -> int:
    """Try a package of plugins: its conformance suites, and a small run with it.

    A component without a suite is tried with its defaults. Exit code 6 if a check failed,
    and if something was not tried: a check that did not happen is not passed.
    """
    package = find(distribution)
    if missing := [name for name in ("pytest", "xdist") if not importlib.util.find_spec(name)]:
        raise PluginError(f"the suites need {missing[0]}", "pip install 'pytest>=9' pytest-xdist")
    if not as_json:
        out.print(plain(package, "bold cyan"), f"from {package.source}", sep="\n")
    report = Report(package, flags, shown=not as_json, debug=debug)
    run_pytest(report, words)
    if report.planned == [] and not report.findings:
        raise UsageError(
            f"no check of {package.name} has the words {words!r}",
            "the words are looked for in the lines that check prints",
        )
    report.add_missing()
    return report.finish()


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
            "check NAME --plugin FILE, or --include-path DIR",
        )
    if why := left_out(package):
        raise PluginError(f"{package} is left out: {why}", "check it without that")
    return package


def run_pytest(report: Report, words: str) -> None:
    """Have pytest run the checks, in an empty folder and without anybody's settings."""
    import pytest

    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    with tempfile.TemporaryDirectory(prefix="edit-harness-check-") as folder:
        module, settings = Path(folder, "checks.py"), Path(folder, "pytest.ini")
        module.touch()
        settings.touch()
        options = ["--import-mode=importlib", "-c", str(settings), f"--rootdir={folder}"]
        options += [f"--confcutdir={folder}", f"--basetemp={folder}/tmp"]
        options += ["-p", "xdist", "-p", __name__, "-p", "no:cacheprovider", "-p", "no:terminal"]
        # Workers get few checks at a time: those that one leaves behind would come last.
        options += ["--numprocesses=1", "--dist=load", "--maxschedchunk=1"]
        options += [f"--max-worker-restart={CRASHES - 1}"]
        options += ["-o", f"faulthandler_timeout={report.flags['seconds']}"]
        options += ["-o", "faulthandler_exit_on_timeout=true"]
        asked = [word for word in words.split() if word not in ("and", "or", "not")]
        pytest.main([*options, "-k", " and ".join(asked), str(module)], plugins=[report])
    if report.error:
        raise report.error


def pytest_collectstart(collector: Any) -> None:
    """In a worker: put the classes of the checks into the one module that there is."""
    if collector.nodeid != "checks.py":
        return
    from . import conformance

    for name in (FILES, FOLDERS, "EDIT_HARNESS_CACHE"):
        if paths := os.environ.get(name):
            os.environ[name] = os.pathsep.join(map(os.path.abspath, paths.split(os.pathsep)))
    sys.path[:] = [os.path.abspath(path) for path in sys.path]
    # What a check does to its working folder is done to nobody's files.
    empty = collector.path.with_name("work")
    empty.mkdir(exist_ok=True)
    os.chdir(empty)
    made = conformance.classes(**collector.config.workerinput["plan"])
    vars(collector.obj).update({f"Test {subject}": tests for subject, tests in made.items()})


def named(nodeid: str) -> tuple[str, str]:
    """Return what a check is of, and what it says of that, from pytest's name of it."""
    _, subject, test = nodeid.split("::", 2)
    name, bracket, parameters = test.removeprefix("test_").partition("[")
    return subject.removeprefix("Test "), f"{name.replace('_', ' ')} {bracket}{parameters}".strip()


@dataclass
class Report:
    """A plugin of pytest that takes what comes of the checks, and prints it as it comes."""

    package: Package
    flags: Mapping[str, Any]
    shown: bool
    debug: bool
    planned: list[str] | None = None
    """The names of the checks; None until a worker has told them."""
    findings: dict[str, Finding] = field(default_factory=dict)
    runs: list[Mapping[str, Any]] = field(default_factory=list)
    worst: Any = None
    """Of pytest's reports of the check that goes on, the first that did not pass."""
    began: float = 0.0
    error: BaseException | None = None
    """What ended pytest."""

    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker what to check."""
        limit = 0 if self.flags["no_run"] else self.flags["limit"]
        node.workerinput["plan"] = {"name": self.package.name, "limit": limit, "width": out.width}

    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Note which checks there are."""
        self.planned = ids

    def pytest_keyboard_interrupt(self, excinfo: Any) -> None:
        """Note what ended pytest."""
        self.error = excinfo.value

    pytest_internalerror = pytest_keyboard_interrupt

    def pytest_collectreport(self, report: Any) -> None:
        """Take a class that pytest cannot read."""
        name = f"has suites that pytest reads: {report.nodeid}"
        whole = report.longreprtext.strip()
        self.add(report.nodeid, Finding("package", name, "failed", whole.splitlines()[-1], whole))

    def pytest_runtest_logstart(self) -> None:
        """Note when a check begins."""
        self.worst, self.began = None, time.monotonic()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Take a part of a check: its fixtures, or itself."""
        self.worst = self.worst if self.worst and not self.worst.passed else report
        if report.when in ("setup", "call"):
            return
        worst, seconds = self.worst, round(time.monotonic() - self.began, 3)
        outcome = "not tried" if hasattr(worst, "wasxfail") else worst.outcome
        details = worst.longreprtext if worst.failed else ""
        said = "" if worst.passed else self.reason(worst, seconds)
        self.add(report.nodeid, Finding(*named(report.nodeid), outcome, said, details, seconds))
        if "results" in (properties := dict(report.user_properties)):
            self.runs.append(properties["results"])
            self.print(f"\n{properties['table']}")

    def reason(self, report: Any, seconds: float) -> str:
        """Return why a check did not pass, and the last line of the package's own that led there."""
        if report.when == "???":  # xdist's word for a worker that is gone
            limit = self.flags["seconds"]
            return f"took longer than {limit:g} s" if seconds >= limit else "the interpreter died"
        if hasattr(report, "wasxfail"):
            return str(report.wasxfail)
        if report.skipped:
            return str(report.longrepr[-1]).removeprefix("Skipped: ")
        crash = getattr(report.longrepr, "reprcrash", None)
        message = crash.message if crash else report.longreprtext
        if message.startswith("edit_harness.errors."):
            return message.partition(": ")[2]
        first = next(line for line in message.splitlines() if line.strip())
        said = first.removeprefix("AssertionError: ").removeprefix("Failed: ")[:LONGEST]
        entries = report.longrepr.reprtraceback.reprentries if crash else ()
        places = [entry.reprfileloc for entry in entries if getattr(entry, "reprfileloc", None)]
        own = [place for place in places if Path(place.path).resolve() in self.package.files]
        return f"{said} ({os.path.basename(own[-1].path)}:{own[-1].lineno})" if own else said

    def add_missing(self) -> None:
        """Take what never came to its turn."""
        if self.planned is None:
            said = "the interpreter died: see edit-harness plugins --check"
            self.add("", Finding("package", "lets the checks start", "failed", said))
        for nodeid in self.planned or ():
            if nodeid not in self.findings:
                said = f"{CRASHES} checks before it did not come to their ends"
                self.add(nodeid, Finding(*named(nodeid), "not tried", said))

    def add(self, nodeid: str, finding: Finding) -> None:
        """Keep a finding, and print it under what it is of."""
        last = next(reversed(self.findings.values()), None)
        self.findings[nodeid] = finding
        if not last or last.subject != finding.subject:
            self.print(plain(f"\n{finding.subject}", "bold"))
        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=9)
        grid.add_column(overflow="fold")
        style = STYLES[finding.outcome]
        grid.add_row(plain(SHOWN.get(finding.outcome, finding.outcome), style), finding.name)
        if finding.reason:
            grid.add_row("", plain(finding.reason, style))
        self.print(grid)
        if self.debug and finding.details:
            self.print(finding.details)

    def print(self, what: Any) -> None:
        """Print something, unless all is printed as JSON in the end."""
        if self.shown:
            out.print(what)

    def finish(self) -> int:
        """Say how many checks came out how, or everything as JSON; return the exit code."""
        findings = self.findings.values()
        counts = {each: sum(f.outcome == each for f in findings) for each in STYLES}
        good = not counts["failed"] and not counts["not tried"]
        text = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
        self.print(plain(f"\n{text}", "bold green" if good else "bold red"))
        if not self.shown:
            known = {
                "distribution": self.package.name,
                "version": self.package.version,
                "source": self.package.source,
                "conforms": good,
                "counts": counts,
                "checks": [asdict(finding) for finding in findings],
                "runs": self.runs,
            }
            out.out(json.dumps(known, indent=1))
        return 0 if good else FAILED
