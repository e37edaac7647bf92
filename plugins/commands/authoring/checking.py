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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from edit_harness.errors import PluginError, UsageError
from edit_harness.registry.packages import Package, normal
from edit_harness.registry.registry import Plugins, suggestion
from edit_harness.registry.selection import found, left_out
from edit_harness.terminal import Terminal, plain

from .ledger import OUTCOMES, Finding, Ledger
from .supervision import Supervised

FAILED = 6
"""The exit code of a package that does not conform, or of which something was not tried."""
STYLES = {"passed": "green", "failed": "bold red", "not tried": "yellow", "skipped": "dim"}
AGAIN = "as above"
SHOWN = {"passed": "ok", "failed": "FAILED"}

out = Terminal()


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


def check(flags: Flags) -> int:
    """Check a package, print a verdict for each check, and return the exit code.

    Raises `PluginError` if there is no such package, and `UsageError` if no check has the words.
    """
    package = find(flags.distribution)
    if importlib.util.find_spec("pytest") is None:
        raise PluginError("the suites need pytest", "pip install pytest")
    shown = Shown(flags)
    if not flags.as_json:
        out.print(plain(package, "bold cyan"), f"from {package.source}", sep="\n")
    with tempfile.TemporaryDirectory(prefix="edit-harness-check-") as folder:
        supervised = supervise(package, flags, Path(folder))
        findings = []
        for finding in supervised.findings():
            findings.append(finding)
            if not flags.as_json:
                shown.add(finding)
        if supervised.ledger.read().selected == 0 and conforms(findings):
            raise UsageError(
                f"no check of {package.name} has the words {flags.words!r}",
                "the words are looked for in the lines that check prints",
            )
    shown.rest()
    return finish(package, findings, flags)


def find(name: str) -> Package:
    """Return the package of that name. Raises `PluginError` that says what may be meant."""
    packages = found()
    known = {normal(package.name): package for package in packages}
    of_file = (p for p in packages if p.named and p.source == os.path.realpath(name))
    if package := known.get(normal(name)) or next(of_file, None):
        if why := left_out(package):
            raise PluginError(f"{package} is left out: {why}", "check it without that")
        return package
    if name.endswith(".py"):
        raise PluginError(
            f"{name!r} is a file, and is checked as a plugin that is named",
            f"edit-harness check {name} --plugin {name}",
        )
    if os.sep in name or name in (".", ".."):
        raise PluginError(
            f"{name!r} is a folder, and check takes the name of a package",
            f"edit-harness check NAME --include-path {name}",
        )
    for component in Plugins.installed().components:
        if name in (component.name, component.qualified):
            raise PluginError(
                f"{name!r} is the {component.kind} of a package: {component.distribution}",
                f"edit-harness check {component.distribution}{naming(component.package)}",
            )
    names = sorted(package.name for package in known.values())
    raise PluginError(
        f"there is no package {name!r} with plugins{suggestion(name, names)}",
        f"installed: {', '.join(names) or 'nothing'}",
    )


def naming(package: Package | None) -> str:
    """Return the flag that names a package which is not installed; empty for one that is."""
    if package is None or not package.named:
        return ""
    if not package.version:  # a file
        return f" --plugin {os.path.relpath(package.source)}"
    return f" --include-path {os.path.relpath(package.source.removesuffix(' (sources)'))}"


def supervise(package: Package, flags: Flags, folder: Path) -> Supervised:
    """Return the process that checks a package, with its files in a folder."""
    ledger = Ledger(folder / "ledger.jsonl")
    command = [
        *(
            sys.executable,
            "-P",
            "-m",
            "edit_harness_plugins.commands.authoring.check",
            package.name,
        ),
        *("--ledger", str(ledger.path), "--limit", str(flags.limit), "--words", flags.words),
        *("--width", str(out.width), *(["--no-run"] if flags.no_run else [])),
    ]
    return Supervised(command, ledger, folder / "log", flags.seconds)


@dataclass
class Shown:
    """Prints findings under what they are of, as they come.

    What was found while the checks were chosen is held back until its subject's turn.
    """

    flags: Flags
    subject: str = ""
    held: list[Finding] = field(default_factory=list)
    said: set[str] = field(default_factory=set)
    """The reasons printed below the subject, which are not repeated in full."""

    def add(self, finding: Finding) -> None:
        """Print a finding, or hold it back."""
        if finding.planning:
            self.held.append(finding)
        else:
            self._head(finding.subject)
            self._print(finding)

    def rest(self) -> None:
        """Print what was held back to the end."""
        while self.held:
            self._head(self.held[0].subject)

    def _head(self, subject: str) -> None:
        if subject == self.subject:
            return
        if subject.startswith("run of "):
            self.rest()  # a run is the last thing to read
        self.subject = subject
        self.said = set()
        out.print(plain(f"\n{subject}", "bold"))
        of = subject.partition(",")[0]
        due = [finding for finding in self.held if finding.subject == of]
        self.held = [finding for finding in self.held if finding.subject != of]
        for finding in due:
            self._print(finding)

    def _print(self, finding: Finding) -> None:
        again = finding.reason in self.said
        self.said.add(finding.reason)
        out.print(verdict(finding, AGAIN if again and finding.reason else finding.reason))
        if finding.table:
            out.print(f"\n{finding.table}")
        if self.flags.debug and finding.details:
            out.print(finding.details)


def verdict(finding: Finding, reason: str) -> Table:
    """Return a check's outcome and its name; below, if it did not pass, why and what it is for."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=9)
    grid.add_column(overflow="fold")
    style = STYLES[finding.outcome]
    outcome = plain(SHOWN.get(finding.outcome, finding.outcome), style)
    grid.add_row(outcome, finding.name)
    if reason:
        grid.add_row("", plain(reason, style))
    if finding.outcome == "failed" and finding.says and not finding.raised and reason != AGAIN:
        grid.add_row("", plain(finding.says, "dim"))
    return grid


def conforms(findings: Sequence[Finding]) -> bool:
    """Tell whether no check failed and none was left out."""
    return all(finding.outcome in ("passed", "skipped") for finding in findings)


def finish(package: Package, findings: Sequence[Finding], flags: Flags) -> int:
    """Print how many checks came out how, or everything as JSON; return the exit code."""
    good = conforms(findings)
    if flags.as_json:
        out.out(json.dumps(report(package, findings), indent=1))
    else:
        counts = Counter(finding.outcome for finding in findings)
        said = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES)
        out.print(plain(f"\n{said}", "bold green" if good else "bold red"))
    return 0 if good else FAILED


def report(package: Package, findings: Sequence[Finding]) -> Mapping[str, Any]:
    """Return what was found, JSON-ready."""
    shown = ("subject", "name", "says", "outcome", "reason", "details", "seconds")
    counts = Counter(finding.outcome for finding in findings)
    return {
        "distribution": package.name,
        "version": package.version,
        "source": package.source,
        "conforms": conforms(findings),
        "counts": {outcome: counts[outcome] for outcome in OUTCOMES},
        "checks": [{key: getattr(finding, key) for key in shown} for finding in findings],
        "runs": [finding.results for finding in findings if finding.results],
    }
