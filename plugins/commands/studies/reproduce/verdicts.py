"""The reproduction report: printed numbers beside those of runs, and which of them came out again.

A tolerance comes from both intervals, ours and the printed one, as of two independent samples, and
from the rounding of what was printed. One that is so wide that it would let most of a table pass says
nothing, and is no pass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from statistics import NormalDist
from typing import Literal, cast

from edit_harness.run.estimates import LEVEL
from edit_harness.run.results import Results
from edit_harness.stats import Estimate
from edit_harness_plugins.commands.report import typesetting
from edit_harness_plugins.commands.report.facts import grouped
from edit_harness_plugins.commands.report.papers import Subsets
from edit_harness_plugins.pairing import Contrast, Pairing

from .packs import Contents, Expected

Verdict = Literal["within", "outside", "too few cases to tell", "not comparable"]
WITHIN: Verdict = "within"
OUTSIDE: Verdict = "outside"
UNTOLD: Verdict = "too few cases to tell"
APART: Verdict = "not comparable"
LEAST = 20
"""Cases below which a comparison with a printed number is not to be trusted."""
TELLING = 4
"""A tolerance of more than the spread of a column's printed numbers by this says nothing."""


@dataclass(frozen=True)
class Ruling:
    """What is said of one number."""

    verdict: Verdict
    why: str = ""
    tolerance: float = math.nan


@dataclass(frozen=True)
class Compared:
    """A printed number and ours, in its unit; or two, of which ``cell`` was printed above ``below``."""

    cell: Expected
    ours: Estimate | None
    ruling: Ruling
    below: Expected | None = None
    below_ours: Estimate | None = None

    @property
    def verdict(self) -> Verdict:
        """Within, outside, or why neither can be said."""
        return self.ruling.verdict


class Reproduction:
    """A pack, and its runs by model and editor as its table calls them, maybe with a limit of cases."""

    def __init__(
        self,
        contents: Contents,
        runs: Mapping[tuple[str, str], Sequence[Results]],
        limit: int | None = None,
    ) -> None:
        self.contents, self.runs, self.limit = contents, runs, limit
        every = {run: Subsets(run) for own in runs.values() for run in own}
        self._found = {cell: self._number(cell, every) for cell in contents.asked}

    def compared(self) -> list[Compared]:
        """Return each printed number with ours, in the order of the pack; or each two in an order."""
        if self.contents.compares != "orderings":
            return [Compared(c, ours, self._ruling(c)) for c, (_, ours) in self._found.items()]
        columns = grouped(self.contents.asked, lambda cell: (cell.model, cell.row, cell.column))
        return [
            Compared(one, self._found[one][1], self._order(one, two), two, self._found[two][1])
            for cells in columns
            for one, two in combinations(sorted(cells, key=lambda c: -c.value), 2)
        ]

    def _number(
        self, cell: Expected, every: Mapping[Results, Subsets]
    ) -> tuple[Results | None, Estimate | None]:
        """Return the run that has the number of a cell, and the number as printed; that of most cases."""
        table, unit, before = self.contents.table, self.contents.unit, self._before(cell)
        found: list[tuple[Results | None, Estimate]] = []
        for (model, editor), runs in self.runs.items():
            for run in runs if model == cell.model and (before or editor == cell.editor) else ():
                ours = typesetting.estimate(table, every[run], cell.row, cell.column, before=before)
                if ours:
                    ends = ours.value / unit, ours.low / unit, ours.high / unit
                    found.append((run, Estimate(*ends, ours.n)))
        return max(found, key=lambda each: each[1].n, default=(None, None))

    def _before(self, cell: Expected) -> bool:
        return cell.editor not in self.contents.editors

    def _ruling(self, cell: Expected) -> Ruling:
        if why := cell.apart or self._apart(cell):
            return Ruling(APART, why)
        ours = self._found[cell][1]
        assert ours is not None  # a number that is missing is told apart
        if self.contents.compares == "figures":
            return of_figure(ours, cell)
        allowed = tolerance(ours, cell, self.contents.level)
        return of_value(ours, cell.value, allowed, coarsest(cell, self.contents.cells))

    def _apart(self, cell: Expected) -> str:
        """Say why a number has none of ours beside it that could be compared; nothing if it has."""
        run = self._found[cell][0]
        if run is None:
            editors = [e for m, e in self.runs if m == cell.model and self.runs[m, e]]
            there = editors and (self._before(cell) or cell.editor in editors)
            return "the run has no such number" if there else "not run"
        fewer = self.limit and not self._before(cell) and run.regime.mode != "single"
        why = "with --limit fewer edits share the model, which is another experiment"
        return why if fewer else ""

    def _order(self, higher: Expected, lower: Expected) -> Ruling:
        """Say whether two editors are in the printed order, case by case."""
        if why := self._apart(higher) or self._apart(lower):
            return Ruling(APART, why)
        contents, n = self.contents, min(higher.n, lower.n)
        if not apart(higher.value * contents.unit, lower.value * contents.unit, n, contents.level):
            return Ruling(APART, f"as printed they differ by no more than chance (n = {n})")
        known = _contrasts(*(cast(Results, self._found[cell][0]) for cell in (lower, higher)))
        contrast = known.get(contents.table.measures[higher.column])
        if contrast is None:
            return Ruling(APART, "they have no case in common")
        return of_order(contrast.difference, contrast.p)


@cache
def _contrasts(one: Results, two: Results) -> dict[str, Contrast]:
    return {each.name: each for each in Pairing(one, two).contrasts}


def tolerance(ours: Estimate, cell: Expected, level: float) -> float:
    """Return how far ours may be from a printed number, whose interval is of a level.

    Ours counts by its width on the side of the printed number; without an interval nothing is too far.
    """
    half = abs((ours.high if cell.value > ours.value else ours.low) - ours.value)
    theirs = 0.0
    if cell.low is not None and cell.high is not None:
        to, of = (NormalDist().inv_cdf((1 + each) / 2) for each in (LEVEL, level))
        theirs = (cell.high - cell.low) / 2 * to / of
    return cell.rounding + (math.inf if math.isnan(half) else math.hypot(half, theirs))


def coarsest(cell: Expected, cells: Sequence[Expected]) -> float:
    """Return the greatest tolerance that says something: a quarter of its column's spread, or of all if it is alone."""
    beside = [c.value for c in cells if (c.row, c.column) == (cell.row, cell.column)]
    others = beside if len(beside) > 1 else [c.value for c in cells if not c.apart]
    return max((max(others) - min(others)) / TELLING, 2 * cell.rounding)


def of_value(ours: Estimate, printed: float, allowed: float, most: float) -> Ruling:
    """Say whether a number is within a tolerance, if so many cases can tell."""
    if math.isnan(ours.value):
        return Ruling(APART, "the run has no such number")
    if ours.n < LEAST:
        return Ruling(UNTOLD, f"n = {ours.n}, and {LEAST} is the least", allowed)
    if abs(ours.value - printed) > allowed:
        return Ruling(OUTSIDE, "", allowed)
    if not allowed <= most:
        return Ruling(UNTOLD, f"± {allowed:.2g}, and up to {most:.2g} tells something", allowed)
    return Ruling(WITHIN, "", allowed)


def of_figure(ours: Estimate, cell: Expected) -> Ruling:
    """Say whether a figure of the same cases came out again; of other cases it is another figure."""
    within = cell.rounding if cell.within is None else cell.within
    if ours.n != cell.n:
        return Ruling(APART, f"the figure is of {cell.n} cases, and here are {ours.n}", within)
    return Ruling(WITHIN if abs(ours.value - cell.value) <= within else OUTSIDE, "", within)


def apart(one: float, other: float, n: int, level: float) -> bool:
    """Tell whether printed shares of n cases differ by more than chance, after Agresti and Caffo (2000)."""
    if not n:
        return False
    shares = [(n * share + 1) / (n + 2) for share in (one, other)]
    error = math.sqrt(sum(share * (1 - share) for share in shares) / (n + 2))
    return abs(shares[0] - shares[1]) > NormalDist().inv_cdf((1 + level) / 2) * error


def of_order(difference: Estimate, p: float | None) -> Ruling:
    """Say whether an editor that was printed above another is above it here: by ``p`` of the difference."""
    if p is None or p > 1 - LEVEL or math.isnan(difference.value):
        return Ruling(UNTOLD, f"n = {difference.n}: the difference of ours may be chance")
    return Ruling(WITHIN if difference.value > 0 else OUTSIDE)
