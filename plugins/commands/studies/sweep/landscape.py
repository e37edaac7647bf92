"""What a sweep found: its points with their numbers, the best of them, tables and heat maps.

The points are ordinary runs of the same cases; their estimates are made in `edit_harness.run.outcome`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any, cast

from edit_harness.encoding import finite
from edit_harness.errors import HarnessError, UsageError
from edit_harness.interfaces import Measure
from edit_harness.registry.plugins import Component, Plugins, suggestion
from edit_harness.run import report
from edit_harness.run.estimates import LEVEL
from edit_harness.run.outcome import Run
from edit_harness.run.report import HUNDREDTHS, Line
from edit_harness.stats import Estimate
from edit_harness.wording import counted
from edit_harness_plugins.commands.report.formats import Cell, Grid
from edit_harness_plugins.commands.report.heatmaps import HeatMap

from .grids import Axis, Point, named, shown

HARMONIC = "S"
"""The measure that is a task's own score."""
USUAL = ("ES", "PS", "NS", "RS")
"""The measures that are mapped if none is asked for."""
SHOWN = 10
"""Points that a sorted table has."""
NONE = Estimate(math.nan, math.nan, math.nan, 0)


@dataclass(frozen=True)
class Found:
    """A point of the grid and what came of it."""

    point: Point
    run: Run
    numbers: Mapping[str, Estimate]
    """After the edits, by measure; those that the run has."""
    score: Estimate
    """NaN if it has none."""


@dataclass(frozen=True)
class Landscape:
    """The points of a sweep, in the order of the grid."""

    axes: Sequence[Axis]
    found: Sequence[Found]
    measures: Mapping[str, Measure]
    """Those that are mapped, by name."""
    meaned: Sequence[str]
    """The measures whose mean is the score; none where the task has `HARMONIC`."""

    @classmethod
    def of(
        cls,
        axes: Sequence[Axis],
        runs: Sequence[tuple[Point, Run]],
        names: Sequence[str],
        known: Mapping[str, Measure],
    ) -> Landscape:
        """Return the points with their scores; ``known`` has all measures of the runs.

        The interval of a mean is that of the measures' limits, which is wider than its own.
        """
        names = [name for name in names if any(_has(run, name) for _, run in runs)]
        meaned = [] if HARMONIC in known else shares(names, known)
        found = []
        for point, run in runs:
            numbers = {name: run[name] for name in names if _has(run, name)}
            if HARMONIC in known:
                score = run[HARMONIC] if _has(run, HARMONIC) else NONE
            else:
                score = _mean([numbers[name] for name in meaned if name in numbers], len(meaned))
            found.append(Found(point, run, numbers, score))
        return cls(axes, found, {name: known[name] for name in names}, meaned)

    @property
    def score(self) -> str:
        """What the score is."""
        return f"mean of {', '.join(self.meaned)}" if self.meaned else HARMONIC

    @cached_property
    def ranked(self) -> list[Found]:
        """The points by score, the best first; equal ones in the grid's order, those without last."""
        return sorted(self.found, key=lambda each: _order(each.score.value))

    @property
    def best(self) -> Found | None:
        """The point of the highest score; None if none has one."""
        first = self.ranked[0]
        return None if math.isnan(first.score.value) else first

    @property
    def near(self) -> list[Found]:
        """The other points whose score is within the interval of the best one's."""
        best = self.best
        return [f for f in self.ranked[1:] if best and f.score.value >= best.score.low]

    @property
    def conclusions(self) -> Iterator[tuple[str, str]]:
        """Yield what the numbers say, as labels and lines of text."""
        best = self.best
        if best is None:
            yield "best", "no point has a score, so that none is the best"
            return
        yield "best", f"{named(best.point)}: {self._score(best)}"
        if ties := [f for f in self.near if f.score.value == best.score.value]:
            also = "; ".join(named(each.point) for each in ties[:3])
            more = f" and {len(ties) - 3} more" if len(ties) > 3 else ""
            yield "tie", f"as good, and later in the grid: {also}{more}"
        if self.near:
            yield "note", f"{_next(len(self.near))} within the interval of the best"
        points = counted(len(self.found), "point")
        yield "note", f"the best of {points} is flattered by the cases that it was chosen by"

    def _score(self, each: Found) -> str:
        line = self._line(self.score)
        of = "; limits are means too" if self.meaned else ""
        return (
            f"{self.score} {report.number(each.score.value, line)} ({_ends(each.score, line)}{of})"
        )

    def _line(self, name: str) -> Line:
        return Line(name, self.measures.get(name) or Measure(name), None, None)

    def maps(self) -> list[HeatMap]:
        """Return a map for each measure; empty for a grid of more than two fields.

        The first field runs along the columns, the second along the rows.
        """
        if len(self.axes) > 2:
            return []
        across, *rest = self.axes
        down = rest[0].names if rest else [""]
        made = []
        for name, measure in self.measures.items():
            scale = 100 if measure.unit in HUNDREDTHS else 1
            rows: list[list[float | None]] = [[] for _ in down]
            for i, each in enumerate(self.found):
                number = each.numbers.get(name)
                rows[i % len(down)].append(scale * number.value if number else None)
            made.append(
                HeatMap(
                    f"{name} {report.DIRECTION[measure.better]}".strip(),
                    down,
                    across.names,
                    rows,
                    x=across.field,
                    y=rest[0].field if rest else "",
                    form=".1f" if scale == 100 else ".3g",
                )
            )
        return made

    def table(self, title: str) -> Grid:
        """Return the points with their numbers and intervals.

        Along one field they stand in its order, else by score, and no more than `SHOWN` of them. The
        score is first, so that it stands beside the names however narrow a terminal is.
        """
        one = len(self.axes) == 1
        rows = self.found if one else self.ranked[:SHOWN]
        others = [name for name in self.measures if name != self.score]
        columns, heads = [self.score, *others], ["mean" if self.meaned else HARMONIC, *others]
        left = len(self.found) - len(rows)
        return Grid(
            title,
            [axis.field for axis in self.axes],
            [f"{head} {self._direction(name)}" for head, name in zip(heads, columns, strict=True)],
            [(list(_names(f)), [self._cell(f, name) for name in columns]) for f in rows],
            [f"{counted(left, 'point')} more, by score: --json"] if left else [],
        )

    def _direction(self, name: str) -> str:
        return report.DIRECTION[self._line(name).measure.better]

    def _cell(self, each: Found, name: str) -> Cell:
        line = self._line(name)
        estimate = each.score if name == self.score else each.numbers.get(name, NONE)
        best = name == self.score and each is self.best
        return Cell(report.show(estimate, line), _ends(estimate, line), "best" if best else "")

    def data(self) -> dict[str, Any]:
        """Return all of it, JSON-ready; a number that is none is null."""
        best = self.best
        return {
            "grid": {axis.field: list(axis.values) for axis in self.axes},
            "level": LEVEL,
            "score": self.score,
            "points": [_told(each) for each in self.found],
            "best": dict(best.point) if best else None,
            "near": [dict(each.point) for each in self.near],
        }


def mapped(
    plugins: Plugins, asked: Sequence[str], known: Mapping[str, Measure], task: str
) -> tuple[list[str], dict[str, str]]:
    """Return which measures runs of a task have of those asked for, and why they have not the others.

    ``known`` has all that they have. If nothing is asked for, it is `USUAL`, or what the table of a
    run shows, where there is none of these.

    Raises `UsageError` for one that no metric has, and if none is left.
    """
    if not asked and not known.keys() & USUAL:
        return mapped(plugins, [n for n, each in known.items() if not each.detail], known, task)
    asked = asked or USUAL
    names = [name for name in asked if name in known]
    missing = [name for name in asked if name not in known]
    metrics = {c.name: _measures(c) for c in plugins.of_kind("metric")} if missing else {}
    left_out = {}
    for name in missing:
        having = [metric for metric, measures in metrics.items() if name in measures]
        if not having:
            every = [each for measures in metrics.values() for each in measures]
            raise UsageError(f"no metric has a measure {name!r}{suggestion(name, every)}",
                             f"the task has: {', '.join(known)}")  # fmt: skip
        left_out[name] = (
            f"is of metric {having[0]}, which the task as it is set does not have; "
            f"its fields may add it: edit-harness show {task}"
        )
    if not names:
        name, why = next(iter(left_out.items()))
        raise UsageError(f"{name} {why}", f"or map what there is: {', '.join(known)}")
    if HARMONIC not in known and not shares(names, known):
        raise UsageError(
            f"nothing tells which point is the best: {', '.join(names)} has no share that is "
            "better when higher",
            f"add one to --measures; the task has: {', '.join(known)}",
        )
    return names, left_out


def _measures(metric: Component) -> Mapping[str, Measure]:
    try:
        return cast(Mapping[str, Measure], getattr(metric.load(), "measures", {}))
    except HarnessError:  # one that is broken has none
        return {}


def shares(names: Sequence[str], known: Mapping[str, Measure]) -> list[str]:
    """Return the measures of which a mean says something: shares that are better when higher."""
    return [n for n in names if known[n].better == "higher" and known[n].unit == "%"]


def _has(run: Run, name: str) -> bool:
    return f"post_{name}" in run.estimates and not math.isnan(run[name].value)


def _mean(estimates: Sequence[Estimate], wanted: int) -> Estimate:
    """Return the mean of estimates with that of their limits; none if one is missing."""
    if not wanted or len(estimates) < wanted:
        return NONE
    value, low, high = (fmean(getattr(e, x) for e in estimates) for x in ("value", "low", "high"))
    return Estimate(value, low, high, min(e.n for e in estimates))


def _order(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, -value)


def _next(number: int) -> str:
    return "the next one is" if number == 1 else f"the next {number} are"


def _ends(estimate: Estimate, line: Line) -> str:
    text = report.interval(estimate, line)
    return "" if text == "–" else text


def _names(each: Found) -> Iterator[str]:
    return (shown(value) for value in each.point.values())


def _told(each: Found) -> dict[str, Any]:
    return {
        "fields": dict(each.point),
        "run": str(each.run.folder.path),
        "measures": {name: _number(estimate) for name, estimate in each.numbers.items()},
        "score": _number(each.score),
    }


def _number(estimate: Estimate) -> dict[str, Any] | None:
    return None if math.isnan(estimate.value) else cast(dict[str, Any], finite(vars(estimate)))
