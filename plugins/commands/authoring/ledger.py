"""What is known so far of a package's checks, in a file that outlives the process that writes it.

The process that checks writes a line when a check begins and one when it has ended; who started the
process reads them. It judges nothing and starts nothing: see `edit_harness_plugins.commands.authoring.supervision`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

Outcome = Literal["passed", "failed", "not tried", "skipped"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True)
class Finding:
    """A check, and what came of it."""

    subject: str
    """What is checked, such as ``editor steepest``."""
    name: str
    """What holds of the subject if it passes, such as ``is deterministic``."""
    says: str
    """Why, or what that means, in a sentence."""
    outcome: Outcome = "passed"
    reason: str = ""
    """Why it did not pass, in a line or two."""
    details: str = ""
    """The whole report, with its traceback."""
    seconds: float = 0.0
    raised: bool = False
    """Whether it did not pass for an error, rather than for what it asserts."""
    fatal: bool = False
    """Whether it took its process down."""
    planning: bool = False
    """Whether it was found while the checks were chosen, before the first test."""
    table: str = ""
    """The numbers of a run as they are shown."""
    results: Mapping[str, Any] | None = None
    """The numbers of a run."""

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from the other checks of a package."""
        return self.subject, self.name

    def ended(self, outcome: Outcome, reason: str = "", **more: Any) -> Finding:
        """Return it with what came of it."""
        return replace(self, outcome=outcome, reason=reason, **more)


@dataclass(frozen=True)
class State:
    """What a ledger says."""

    findings: tuple[Finding, ...]
    open: Finding | None
    """The check that has begun and not ended."""
    selected: int | None
    """How many checks there are to do; None until that is known."""
    complete: bool

    @property
    def known(self) -> dict[tuple[str, str], Finding]:
        """The findings by their keys."""
        return {finding.key: finding for finding in self.findings}


@dataclass(frozen=True)
class Ledger:
    """The file; one process writes it at a time."""

    path: Path
    writer: int = field(default_factory=os.getpid)
    """The process that may write; one that a check forks ends when it would."""

    def begin(self, finding: Finding) -> None:
        """Note that a check begins."""
        self._write({"begin": asdict(finding)})

    def end(self, finding: Finding) -> None:
        """Note what came of a check."""
        self._write({"end": asdict(finding)})

    def select(self, count: int) -> None:
        """Note how many checks were chosen."""
        self._write({"selected": count})

    def complete(self) -> None:
        """Note that all is done."""
        self._write({"complete": True})

    def _write(self, line: Mapping[str, Any]) -> None:
        if os.getpid() != self.writer:
            os._exit(0)
        # In one piece, so that a process that dies leaves no half of a line.
        with self.path.open("ab", buffering=0) as file:
            file.write(json.dumps(line).encode() + b"\n")

    def read(self) -> State:
        """Return what it says; a line that is being written is left for the next time."""
        whole, _, _ = self.path.read_bytes().rpartition(b"\n")
        lines = [json.loads(line) for line in whole.splitlines()]
        findings = tuple(Finding(**line["end"]) for line in lines if "end" in line)
        keys = {finding.key for finding in findings}
        begun = [Finding(**line["begin"]) for line in lines if "begin" in line]
        pending = [finding for finding in begun if finding.key not in keys]
        counts = [line["selected"] for line in lines if "selected" in line]
        return State(
            findings,
            pending[-1] if pending else None,
            counts[0] if counts else None,
            any("complete" in line for line in lines),
        )
