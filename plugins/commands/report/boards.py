"""Tables of several runs on pages: those of one protocol in one table, and what is best there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property

from edit_harness.folder.record import INVALID
from edit_harness.interfaces import Measure
from edit_harness.run.report import MeasureRow, show
from edit_harness.run.results import Results

from .facts import facts, grouped
from .subsets import unedited

BADGES = ("recomputed", "replayed", "reproduced")
"""How a leaderboard came by a row's numbers, by rising trust."""


@dataclass(frozen=True)
class Protocol:
    """What numbers must share to stand in one table."""

    task: str
    version: str
    data: str
    regime: str
    precision: str
    judge: str

    @classmethod
    def of(cls, run: Results) -> Protocol:
        """Return that of a run."""
        own, judge = facts(run), run.judge
        judged = ", ".join([f"{judge.name} {judge.version}", *run.served]) if judge else ""
        told = (own["Task"], own["Version"], own["Data"], own["Mode"], own["Precision"])
        return cls(*told, judge=judged)

    @property
    def conditions(self) -> list[str]:
        """What it says besides the task, for a line below the heading."""
        judged = [f"judged by {self.judge}"] if self.judge else []
        return [self.regime, self.precision, f"data {self.data}", *judged]


@dataclass(frozen=True, eq=False)
class Entrant:
    """A run as a row of a leaderboard, or of a page of several runs."""

    run: Results
    href: str
    """Where its own page is; a fragment on the same page."""
    badge: str = ""
    """How its numbers were checked; empty on no leaderboard."""
    rival: str = ""
    """What is said beside its name if another run claims to be the same, and is not."""

    @property
    def rank(self) -> int:
        """The badge's place in `BADGES`."""
        return BADGES.index(self.badge.partition(" ")[0]) if self.badge else 0

    @property
    def trusted(self) -> bool:
        """Whether somebody has run some of its cases again, or it is on no leaderboard."""
        return not self.badge or self.rank > 0

    @cached_property
    def lines(self) -> Mapping[str, MeasureRow]:
        """Its measures that have a number after the edit, by name."""
        return {
            line.name: line
            for line in self.run.lines
            if not line.measure.detail and line.after and not math.isnan(line.after.value)
        }

    @property
    def model(self) -> str:
        """What the table calls the model."""
        return model_of(self.run)

    @property
    def weights(self) -> str:
        """What tells models apart, whatever they are called."""
        return self.run.manifest.identity.model.digest

    @cached_property
    def competes(self) -> bool:
        """Whether its numbers may be the best."""
        return self.trusted and not unedited(self.run)

    @property
    def invalid(self) -> int:
        """How many cases could not be used."""
        return self.run.records.statuses.count(INVALID)


@dataclass(frozen=True)
class Board:
    """The runs of one protocol."""

    protocol: Protocol
    columns: Mapping[str, Measure]
    rows: Sequence[Entrant]

    def is_best(self, row: Entrant, name: str) -> bool:
        """Tell whether a row's number of a measure is shown as the best of several of its model."""
        rivals = [
            r for r in self.rows if r.competes and name in r.lines and r.weights == row.weights
        ]
        better = self.columns[name].better
        if row not in rivals or len(rivals) == 1 or not better:
            return False
        pick = max if better == "higher" else min
        best = pick(rivals, key=lambda rival: rival.run.estimates[f"post_{name}"].value)
        one, other = row.lines[name], best.lines[name]
        return show(one.after, one) == show(other.after, other)


def boards_of(entrants: Sequence[Entrant]) -> list[Board]:
    """Return the tables of runs, in the order of their protocols; single edits come first."""
    groups = {
        Protocol.of(own[0].run): own for own in grouped(entrants, lambda e: Protocol.of(e.run))
    }
    found = []
    for of in sorted(groups, key=lambda p: (p.task, p.version, p.regime != "single", astuple(p))):
        rows = sorted(groups[of], key=_place)
        columns = {name: line.measure for row in rows for name, line in row.lines.items()}
        found.append(Board(of, columns, rows))
    return found


def _place(row: Entrant) -> tuple[str, str, bool, str, str]:
    """Return what rows are sorted by at first: model, the unedited one first, editor."""
    run = row.run
    return row.model, row.weights, not unedited(run), run.label, run.manifest.fingerprint


def model_of(run: Results) -> str:
    """Return the model's name and, where it is known, its revision."""
    model = run.manifest.model
    return f"{model.name}@{model.revision[:12]}" if model.revision else model.name
