"""The command ``check``: the conformance suites of a package, and a run with it, in a process of its own.

The checks themselves are in `edit_harness.testing`; here a package is found, and the verdicts are shown.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from edit_harness.errors import PluginError, UsageError
from edit_harness.ledger import OUTCOMES, Finding, Ledger
from edit_harness.plugins import Plugins, entry_points, normal, suggestion
from edit_harness.supervision import Supervised

FAILED = 6
"""The exit code of a package that does not conform, or of which something was not tried."""
STYLES = {"passed": "green", "failed": "bold red", "not tried": "yellow", "skipped": "dim"}
SHOWN = {"passed": "ok", "failed": "FAILED"}

out = Console(highlight=False)


@dataclass(frozen=True, kw_only=True)
class Flags:
    """The flags of ``check``, as they were parsed."""

    distribution: str
    words: str
    limit: int
    no_run: bool
    seconds: float
    as_json: bool
    debug: bool


@dataclass(frozen=True)
class Checked:
    """A package that is to be checked."""

    name: str
    version: str
    modules: Sequence[str]
    """The modules that its entry points name."""


def check(flags: Flags) -> int:
    """Check a package, print a verdict for each check, and return the exit code.

    Raises `PluginError` if there is no such package, and `UsageError` if no check has the words.
    """
    package = find(flags.distribution)
    if importlib.util.find_spec("pytest") is None:
        raise PluginError("the suites need pytest", "pip install pytest")
    shown = Shown(flags)
    if not flags.as_json:
        out.print(Text(f"{package.name} {package.version}", style="bold cyan"))
    with tempfile.TemporaryDirectory(prefix="edit-harness-check-") as folder:
        supervised = supervise(package, flags, Path(folder))
        findings = [shown.add(finding) for finding in supervised.findings()]
        if supervised.ledger.read().selected == 0:
            raise UsageError(
                f"no check of {package.name} has the words {flags.words!r}",
                "the words are looked for in the lines that check prints",
            )
    return finish(package, findings, flags)


def find(name: str) -> Checked:
    """Return the package of that name. Raises `PluginError` that says what may be meant."""
    known = advertised()
    if found := known.get(normal(name)):
        return found
    if os.sep in name or name in (".", ".."):
        raise PluginError(
            f"{name!r} is a folder, and check takes the name of a package",
            f"edit-harness check NAME --include-path {name}",
        )
    plugins = Plugins.installed()
    for component in plugins.components:
        if name in (component.name, component.qualified):
            raise PluginError(
                f"{name!r} is the {component.kind} of a package: {component.distribution}",
                f"edit-harness check {component.distribution}",
            )
    names = sorted(package.name for package in known.values())
    raise PluginError(
        f"there is no package {name!r} with plugins{suggestion(name, names)}",
        f"installed: {', '.join(names) or 'nothing'}",
    )


def advertised() -> dict[str, Checked]:
    """Return what has entry points of ours, by its normal name; nothing is imported."""
    found: dict[str, Checked] = {}
    for distribution, entry in entry_points():
        key = normal(distribution.name)
        modules = found[key].modules if key in found else ()
        found[key] = Checked(distribution.name, distribution.version, (*modules, entry.value))
    return found


def supervise(package: Checked, flags: Flags, folder: Path) -> Supervised:
    """Return the process that checks a package, with its files in a folder."""
    ledger = Ledger(folder / "ledger.jsonl")
    command = [
        *(sys.executable, "-P", "-m", "edit_harness.testing.check", package.name),
        *("--ledger", str(ledger.path), "--limit", str(flags.limit), "--words", flags.words),
        *("--width", str(out.width), *(["--no-run"] if flags.no_run else [])),
    ]
    return Supervised(command, ledger, folder / "log", flags.seconds)


@dataclass
class Shown:
    """What is printed while the checks go on."""

    flags: Flags
    subject: str = ""

    def add(self, finding: Finding) -> Finding:
        """Print a finding, under its subject; return it."""
        if self.flags.as_json:
            return finding
        if finding.subject != self.subject:
            self.subject = finding.subject
            out.print()
            out.print(Text(finding.subject, style="bold"))
        out.print(verdict(finding))
        if finding.table:
            out.print(Text(f"\n{finding.table}"))
        if self.flags.debug and finding.details:
            out.print(Text(finding.details))
        return finding


def verdict(finding: Finding) -> Table:
    """Return a check's outcome and what it says, its reason below."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=9)
    grid.add_column(overflow="fold")
    word = SHOWN.get(finding.outcome, finding.outcome)
    grid.add_row(Text(word, style=STYLES[finding.outcome]), Text(finding.says))
    if finding.reason:
        grid.add_row("", Text(finding.reason, style=STYLES[finding.outcome]))
    return grid


def finish(package: Checked, findings: Sequence[Finding], flags: Flags) -> int:
    """Print how many checks came out how, or everything as JSON; return the exit code."""
    counts = Counter(finding.outcome for finding in findings)
    conforms = not (counts["failed"] or counts["not tried"])
    if flags.as_json:
        out.out(json.dumps(report(package, findings, conforms), indent=1))
    else:
        said = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES)
        out.print(Text(f"\n{said}", style="bold green" if conforms else "bold red"))
    return 0 if conforms else FAILED


def report(package: Checked, findings: Sequence[Finding], conforms: bool) -> Mapping[str, Any]:
    """Return what was found, JSON-ready."""
    shown = ("subject", "name", "says", "outcome", "reason", "details", "seconds")
    checks = [{key: asdict(finding)[key] for key in shown} for finding in findings]
    counts = Counter(finding.outcome for finding in findings)
    return {
        "distribution": package.name,
        "version": package.version,
        "conforms": conforms,
        "counts": {outcome: counts[outcome] for outcome in OUTCOMES},
        "checks": checks,
        "runs": [finding.results for finding in findings if finding.results],
    }
