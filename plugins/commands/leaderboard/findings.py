"""What checks find in a bundle: checks have numbers and names, and what cannot be checked is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Outcome = Literal["passed", "failed", "flag", "unchecked"]
"""flag: for a human to look at; unchecked: it cannot be checked here."""
SHOWN = 160
"""Characters of what a bundle says that are repeated."""


class Rejected(Exception):
    """A check that fails, and why, in one line."""


@dataclass(frozen=True)
class Flag:
    """Something odd that honest runs may have too."""

    text: str


@dataclass(frozen=True)
class Unchecked:
    """Why something cannot be checked here."""

    text: str


Remark = str | Flag | Unchecked
"""What a check says; a text is a reason to reject the bundle."""


@dataclass(frozen=True)
class Check:
    """One check: its number begins with its level."""

    number: str
    name: str
    run: Callable[[Any], Iterator[Remark]]

    @property
    def level(self) -> int:
        """The level that it belongs to."""
        return int(self.number[0])

    @property
    def meaning(self) -> str:
        """What it holds a bundle to, in a sentence."""
        said = (self.run.__doc__ or "").split("\n")[0].removeprefix("Check that ")
        return said[:1].upper() + said[1:]


@dataclass(frozen=True)
class Finding:
    """What one check came to."""

    check: str
    """Its number."""
    name: str
    outcome: Outcome
    text: str = ""

    @classmethod
    def of(cls, check: Check, remark: Remark) -> Finding:
        """Return a check's remark as a finding."""
        if isinstance(remark, str):
            return cls(check.number, check.name, "failed", remark)
        outcome: Outcome = "flag" if isinstance(remark, Flag) else "unchecked"
        return cls(check.number, check.name, outcome, remark.text)


@dataclass(frozen=True)
class Report:
    """All that is found in a bundle."""

    bundle: str
    """Its path, as it was given."""
    level: int
    """The level that was asked for."""
    findings: Sequence[Finding] = ()
    digest: str = ""
    """SHA-256 of its SHA256SUMS, which covers all its content; empty if it has none that can be read."""
    replay: dict[str, Any] = field(default_factory=dict)
    """What came of the cases that were run again; empty below level 4."""

    def _with(self, outcome: Outcome) -> list[Finding]:
        return [finding for finding in self.findings if finding.outcome == outcome]

    @property
    def failed(self) -> list[Finding]:
        """Why the bundle is rejected."""
        return self._with("failed")

    @property
    def unchecked(self) -> list[Finding]:
        """What could not be checked."""
        return self._with("unchecked")

    @property
    def flags(self) -> list[Finding]:
        """What a human should look at."""
        return self._with("flag")

    @property
    def reached(self) -> int:
        """The highest level whose checks, and all below, have passed; -1 if none."""
        short = [int(f.check[0]) for f in (*self.failed, *self.unchecked)]
        return min([*(level - 1 for level in short), self.level])

    @property
    def good(self) -> bool:
        """Whether all that was asked for was checked, and nothing speaks against the bundle."""
        return self.reached == self.level

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON-ready data."""
        return {**asdict(self), "reached": self.reached, "good": self.good}


def shown(text: object) -> str:
    """Return what a bundle says in printable ASCII, cut short: it may be made for a terminal."""
    plain = ascii(text)[1:-1] if isinstance(text, str) else ascii(text)
    return plain if len(plain) <= SHOWN else f"{plain[:SHOWN]}..."
