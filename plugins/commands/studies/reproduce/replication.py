"""A pack's printed numbers beside those of runs: which came out again, and which cannot be compared.

What a pack says stands in `edit_harness_plugins.commands.studies.reproduce.packs`, what a tolerance is in `edit_harness_plugins.commands.studies.reproduce.tolerances`;
what a column is of, in `edit_harness_plugins.commands.report.typesetting`. Nothing is run or printed here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from edit_harness.run.estimates import LEVEL
from edit_harness.run.outcome import Run
from edit_harness.stats import Estimate
from edit_harness_plugins.commands.report import typesetting
from edit_harness_plugins.commands.report.papers import named
from edit_harness_plugins.commands.report.subsets import Subsets
from edit_harness_plugins.commands.results.pairing import Contrast, Pairing

from . import tolerances
from .packs import Contents, Expected
from .tolerances import APART, Ruling

NOT_RUN = "not run"
FEWER = "with --limit fewer edits share the model, which is another experiment"


@dataclass(frozen=True)
class Compared:
    """A printed number and ours, in the unit that was printed."""

    cell: Expected
    ours: Estimate | None
    ruling: Ruling

    @property
    def verdict(self) -> str:
        """Within, outside, or why neither can be said."""
        return self.ruling.verdict


@dataclass(frozen=True)
class Ordered:
    """Two editors in the order in which a table has them, and which of ours is above."""

    higher: Expected
    lower: Expected
    ours: tuple[Estimate | None, Estimate | None]
    ruling: Ruling

    @property
    def cell(self) -> Expected:
        """The number that was printed above the other."""
        return self.higher

    @property
    def verdict(self) -> str:
        """Within if the order is kept, outside if it is reversed, or why neither can be said."""
        return self.ruling.verdict


@dataclass(eq=False)
class Replication:
    """A pack, and the runs that were made for it, by model and editor as its table calls them."""

    contents: Contents
    runs: Mapping[tuple[str, str], Sequence[Run]]
    limit: int | None = None
    """How many cases were run of a table that is of more; None for those that it is of."""
    _subsets: dict[Run, Subsets] = field(default_factory=dict, init=False)
    _contrasts: dict[tuple[Run, Run], dict[str, Contrast]] = field(default_factory=dict, init=False)

    @property
    def previews(self) -> list[str]:
        """The precisions of runs that are below that of record."""
        every = (run for runs in self.runs.values() for run in runs)
        found = (run.manifest.preview for run in every)
        return list(dict.fromkeys(each.precision for each in found if each))

    def compared(self) -> list[Compared]:
        """Return each printed number with ours, in the order of the pack."""
        return [self._compared(cell) for cell in self.contents.asked]

    def ordered(self) -> list[Ordered]:
        """Return each two editors that a table has one above the other, by model, row and column."""
        return [found for cells in self.columns() for found in self._orders(cells)]

    def columns(self) -> list[list[Expected]]:
        """Return the numbers that are put in an order: of a model, a row and a column, highest first."""
        found: dict[tuple[str, str, str], list[Expected]] = {}
        for cell in self.contents.asked:
            found.setdefault((cell.model, cell.row, cell.column), []).append(cell)
        return [sorted(cells, key=lambda cell: -cell.value) for cells in found.values()]

    def ours(self, cell: Expected) -> Estimate | None:
        """Return our number of a cell, in the unit that was printed; None if no run has it."""
        found = self._found(cell)
        return found[1] if found else None

    def _found(self, cell: Expected) -> tuple[Run, Estimate] | None:
        """Return the run that has the number of a cell, and the number as printed; that of most cases."""
        before = cell.editor not in self.contents.editors
        found = [
            (run, _in_unit(estimate, self.contents.unit))
            for (model, editor), runs in self.runs.items()
            if model == cell.model and (before or editor == cell.editor)
            for run in runs
            if (estimate := self._estimate(run, cell, before))
        ]
        return max(found, key=lambda each: each[1].n, default=None)

    def _estimate(self, run: Run, cell: Expected, before: bool) -> Estimate | None:
        each = self._subsets.setdefault(run, Subsets(run))
        table = self.contents.table
        return typesetting.estimate(table, each, cell.row, cell.column, before=before)

    def _compared(self, cell: Expected) -> Compared:
        if (found := self._found(cell)) is None:
            return Compared(cell, None, Ruling(APART, cell.apart or self._missing(cell)))
        run, ours = found
        if why := cell.apart or self._shared(cell, run):
            return Compared(cell, ours, Ruling(APART, why))
        if self.contents.compares == "figures":
            within = cell.within if cell.within is not None else cell.rounding
            return Compared(cell, ours, tolerances.of_figure(ours, cell.value, cell.n, within))
        return Compared(cell, ours, self._ruled(cell, ours))

    def _shared(self, cell: Expected, run: Run) -> str:
        """Say why a number of some cases only cannot be compared, where edits share the model."""
        edited = cell.editor in self.contents.editors
        return FEWER if self.limit and edited and run.regime.mode != "single" else ""

    def _ruled(self, cell: Expected, ours: Estimate) -> Ruling:
        contents = self.contents
        printed = [
            other.value
            for other in contents.cells
            if (other.row, other.column) == (cell.row, cell.column)
        ]
        theirs = None
        if cell.low is not None and cell.high is not None:
            theirs = tolerances.scaled((cell.high - cell.low) / 2, contents.level, LEVEL)
        half = tolerances.width(ours, cell.value)
        return tolerances.of_value(
            ours, cell.value, tolerances.tolerance(half, theirs, cell.rounding),
            tolerances.coarsest(printed, cell.rounding),
        )  # fmt: skip

    def _missing(self, cell: Expected) -> str:
        """Say why no run has the number of a cell."""
        editors = [e for m, e in self.runs if m == cell.model and self.runs[m, e]]
        before = cell.editor not in self.contents.editors
        if not editors or not (before or cell.editor in editors):
            return NOT_RUN
        return "the run has no such number"

    def _orders(self, cells: Sequence[Expected]) -> Iterator[Ordered]:
        for higher, lower in combinations(cells, 2):
            ours = self.ours(higher), self.ours(lower)
            yield Ordered(higher, lower, ours, self._order(higher, lower))

    def _order(self, higher: Expected, lower: Expected) -> Ruling:
        """Say whether two editors are in the printed order, case by case."""
        contents = self.contents
        one, two = self._found(higher), self._found(lower)
        if one is None or two is None:
            return Ruling(APART, self._missing(higher if one is None else lower))
        if why := self._shared(higher, one[0]):
            return Ruling(APART, why)
        n = min(higher.n, lower.n)
        printed = [cell.value * contents.unit for cell in (higher, lower)]
        if not tolerances.apart(printed[0], printed[1], n, contents.level):
            return Ruling(APART, f"as printed they differ by no more than chance (n = {n})")
        contrast = self._contrast(two[0], one[0], contents.table.measures[higher.column])
        if contrast is None:
            return Ruling(APART, "they have no case in common")
        difference = contrast.difference
        return tolerances.of_order(difference.value, contrast.p, LEVEL, difference.n)

    def _contrast(self, one: Run, two: Run, measure: str) -> Contrast | None:
        """Return how a measure differs between two runs; None if they have no case in common."""
        if (one, two) not in self._contrasts:
            contrasts = Pairing(one, two, one.metrics).contrasts
            self._contrasts[one, two] = {each.name: each for each in contrasts}
        return self._contrasts[one, two].get(measure)


def _in_unit(ours: Estimate, unit: float) -> Estimate:
    return Estimate(ours.value / unit, ours.low / unit, ours.high / unit, ours.n)


def place(cell: Expected) -> str:
    """Return where a number stands in its table, in words."""
    row = f", {named(cell.row)}" if cell.row else ""
    return f"{cell.editor} on {cell.model}{row}, {cell.column}"


def shown(value: float, places: int) -> str:
    """Return a number with the digits that were printed and one more; very small ones with three."""
    if math.isnan(value):
        return "–"
    small = places > 5
    return f"{value:.3g}" if small else f"{value:.{places + 1}f}"
