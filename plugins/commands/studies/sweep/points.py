"""The points of a sweep: the grid of values that flags ask for, and the scores, tables and maps of its runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from statistics import fmean
from typing import Any, get_origin

from edit_harness.errors import UsageError, counted
from edit_harness.interfaces import Measure
from edit_harness.registry import settings
from edit_harness.registry.registry import Component, suggestion
from edit_harness.run import report
from edit_harness.run.estimates import LEVEL
from edit_harness.run.report import DIRECTION, HUNDREDTHS, MeasureRow
from edit_harness.run.results import Results
from edit_harness.stats import Estimate
from edit_harness_plugins.commands.report.formats import Cell, Grid, Mark
from edit_harness_plugins.commands.report.heatmaps import HeatMap
from edit_harness_plugins.commands.report.layouts import HARMONIC, directed
from edit_harness_plugins.commands.run.preset_file import typed

LAYER, TOKEN = "layer", "fact_token"
"""The fields that --layers and --tokens stand for."""
EXAMPLE = "--layers all --tokens subject_first,subject_last,last, or --grid lr=0.1,0.5"
Axes = Mapping[str, Sequence[Any]]
Point = Mapping[str, Any]


def asked(grid: Sequence[str], layers: str | None, tokens: str | None) -> dict[str, str]:
    """Return the text that flags give for each field. Raises `UsageError`."""
    short = {LAYER: layers, TOKEN: tokens}
    found = {field: text for field, text in short.items() if text is not None}
    for text in grid:
        field, _, values = (part.strip() for part in text.partition("="))
        if not (field.isidentifier() and values):
            raise UsageError(f"--grid {text!r} is not of the form FIELD=V,V,…", f"write {EXAMPLE}")
        if field in found:
            raise UsageError(f"the grid has field {field} twice", "name all its values at once")
        found[field] = values
    if not found:
        raise UsageError("a sweep without a grid has nothing to try", f"say what: {EXAMPLE}")
    return found


def axes(editor: Component, asked: Mapping[str, str], depth: int) -> Axes:
    """Return the axes of a grid for a model of ``depth`` layers. Raises `UsageError`.

    Commas part values, semicolons those that are lists themselves.
    """
    factory = editor.load()
    hints = settings.field_types(factory)
    found = {}
    for name, text in asked.items():
        sign = ";" if get_origin(hints[name]) is tuple else ","
        texts = layers(text, depth) if name == LAYER else text.split(sign)
        read = [settings.typed(factory, {name: t.strip()}, f"editor {editor.name}") for t in texts]
        found[name] = list(dict.fromkeys(each[name] for each in read))
    return found


def layers(text: str, depth: int) -> list[str]:
    """Return the layers that ``all``, ``0,3`` or ``2-5`` mean. Raises `UsageError`."""
    if text.strip() == "all":
        return [str(layer) for layer in range(depth)]
    found: list[str] = []
    for piece in text.split(","):
        ends = [int(end) if end.strip().isdecimal() else depth for end in piece.split("-")]
        if len(ends) > 2 or not ends[0] <= ends[-1] < depth:
            known = f"the model has layers 0 to {depth - 1}"
            told = f"--layers has {piece.strip()!r}, and {known}"
            raise UsageError(told, "write all, 0,3 or 2-5")
        found += map(str, range(ends[0], ends[-1] + 1))
    return found


def points(axes: Axes) -> list[Point]:
    """Return every combination of the axes' values, the last axis running fastest."""
    return [dict(zip(axes, each, strict=True)) for each in product(*axes.values())]


def named(point: Point) -> str:
    """Return a point as a line of text shows it."""
    return ", ".join(f"{field}={typed(value)}" for field, value in point.items())


USUAL = ("ES", "PS", "NS", "S", "RS")
"""The measures that are mapped if none is asked for."""
SHOWN = 10
NONE = Estimate(math.nan, math.nan, math.nan, 0)


@dataclass(frozen=True)
class Scored:
    """A point of the grid, its run and its numbers."""

    point: Point
    run: Results
    numbers: Mapping[str, Estimate]
    """After the edits, by measure; `NONE` where the run has none."""
    score: Estimate


@dataclass(frozen=True)
class SweepResults:
    """The points of a sweep, in the order of the grid."""

    axes: Axes
    points: Sequence[Scored]
    measures: Mapping[str, Measure]
    averaged: Sequence[str]
    """The measures whose mean is the score; none where the task has `HARMONIC`."""

    @classmethod
    def of(
        cls,
        axes: Axes,
        runs: Sequence[tuple[Point, Results]],
        names: Sequence[str],
        known: Mapping[str, Measure],
    ) -> SweepResults:
        """Return the points with their scores; ``known`` has all measures of the runs."""

        def number(run: Results, name: str) -> Estimate:
            return run.estimates.get(f"post_{name}", NONE)

        names = [name for name in names if any(number(run, name).n for _, run in runs)]
        averaged = [] if HARMONIC in known else shares(names, known)
        points = []
        for point, run in runs:
            numbers = {name: number(run, name) for name in names}
            score = number(run, HARMONIC)
            if own := [numbers[name] for name in averaged]:
                # The mean of limits is further out than the limits of a mean.
                value, low, high = (
                    fmean(getattr(e, x) for e in own) for x in ("value", "low", "high")
                )
                score = Estimate(value, low, high, min(e.n for e in own))
            points.append(Scored(point, run, numbers, score))
        return cls(axes, points, {name: known[name] for name in names}, averaged)

    @property
    def score(self) -> str:
        """What the score is."""
        return f"mean of {', '.join(self.averaged)}" if self.averaged else HARMONIC

    @cached_property
    def ranked(self) -> list[Scored]:
        """The points by score, the best first; equal ones in the grid's order, those without last."""
        return sorted(self.points, key=lambda p: -p.score.value if p.score.n else math.inf)

    @property
    def best(self) -> Scored | None:
        """The point of the highest score; None if none has one."""
        first = self.ranked[0]
        return first if first.score.n else None

    @property
    def conclusions(self) -> list[tuple[str, str]]:
        """What the numbers say, as labels and lines of text."""
        if not (best := self.best):
            return [("best", "no point has a score, so that none is the best")]
        value, ends = _shown(best.score, _line(self.score, None))
        flattered = f"the best of {counted(len(self.points), 'point')} is flattered by these cases"
        found = f"{named(best.point)}: {self.score} {value} ({ends})"
        return [("best", found), ("note", flattered)]

    def maps(self) -> list[HeatMap]:
        """Return a map for each measure, the first field across; empty for more than two fields."""
        if len(self.axes) > 2:
            return []
        fields = [*self.axes, ""]
        names = [list(map(typed, values)) for values in (*self.axes.values(), [""])]
        across, down = names[:2]
        place = self.points.index(self.best) if self.best else 0
        marked = (place % len(down), place // len(down)) if self.best else None
        made = []
        for name, measure in self.measures.items():
            scale = 100 if measure.unit in HUNDREDTHS else 1
            estimates = [each.numbers[name] for each in self.points]
            values = [scale * estimate.value if estimate.n else None for estimate in estimates]
            title, form = directed(name, measure.better), ".1f" if scale == 100 else ".3g"
            rows = [values[row :: len(down)] for row in range(len(down))]
            ends = [scale * end for end in measure.limits] if scale == 100 else [0.0, None]
            heat_map = partial(HeatMap, least=ends[0], most=ends[1], best=marked)
            made.append(heat_map(title, down, across, rows, x=fields[0], y=fields[1], form=form))
        return made

    def table(self, title: str) -> Grid:
        """Return the points of one field in its order; of more the `SHOWN` best. The score is first."""
        points = self.points if len(self.axes) == 1 else self.ranked[:SHOWN]
        score = _line("mean" if self.averaged else HARMONIC, self.measures.get(self.score))
        lines = [_line(n, m) for n, m in self.measures.items() if n != self.score]
        rows = []
        for each in points:
            mark: Mark = "best" if each is self.best else ""
            cells = [Cell(*_shown(each.score, score), mark)]
            cells += [Cell(*_shown(each.numbers[line.name], line)) for line in lines]
            rows.append((list(map(typed, each.point.values())), cells))
        heads = [f"{line.name} {DIRECTION[line.measure.better]}" for line in (score, *lines)]
        return Grid(title, list(self.axes), heads, rows)

    def data(self) -> dict[str, Any]:
        """Return all of it, JSON-ready."""
        return {
            "grid": {field: list(values) for field, values in self.axes.items()},
            "level": LEVEL,
            "score": self.score,
            "points": [
                {
                    "fields": dict(each.point),
                    "run": str(each.run.folder.path),
                    "measures": {name: vars(n) for name, n in each.numbers.items() if n.n},
                    "score": vars(each.score) if each.score.n else None,
                }
                for each in self.points
            ],
            "best": dict(self.best.point) if self.best else None,
        }


def mapped(asked: Sequence[str], known: Mapping[str, Measure]) -> list[str]:
    """Return the measures to map: what is asked for, `USUAL`, or what a run's table has.

    Raises `UsageError` for one that the runs have not, and if none tells which point is best.
    """
    there = f"it has: {', '.join(known)}"
    for name in asked:
        if name not in known:
            similar = suggestion(name, list(known))
            raise UsageError(f"the task as it is set has no measure {name!r}{similar}", there)
    usual = [name for name in USUAL if name in known]
    names = list(asked) or usual or [name for name, each in known.items() if not each.detail]
    if HARMONIC not in known and not shares(names, known):
        raise UsageError(
            f"nothing tells which point is the best: {', '.join(names)} has no share that is "
            "better when higher",
            f"add one to --measures; the task has: {', '.join(known)}",
        )
    return names


def shares(names: Sequence[str], known: Mapping[str, Measure]) -> list[str]:
    """Return the measures of which a mean says something: shares that are better when higher."""
    return [n for n in names if known[n].better == "higher" and known[n].unit == "%"]


def _line(name: str, measure: Measure | None) -> MeasureRow:
    return MeasureRow(name, measure or Measure(name), None, None)


def _shown(estimate: Estimate, line: MeasureRow) -> tuple[str, str]:
    ends = "" if math.isnan(estimate.low) else report.interval(estimate, line)
    return report.show(estimate, line), ends
