"""Runs as tables, whatever the format: one table of each kind of run, all of one precision."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from edit_harness.run import report
from edit_harness.run.estimates import LEVEL
from edit_harness.run.report import MeasureRow
from edit_harness.run.results import Results
from edit_harness.stats import Estimate
from edit_harness_plugins.controls.effects import Effect, side_effects

from .facts import caption, carried, facts, grouped, labels, shared_caveats
from .formats import Cell, Grid, Row

MAIN = ("ES", "PS", "NS", "NS+", "S", "NKL")
"""The measures that a table of runs shows at first, where it has any of them; else its first ones, as many."""
HARMONIC = "S"
"""The score of a run, where it has one."""
KNOWN = ("Run", "Editor", "Task", "Model", "Precision")
"""Facts that are columns of the table of runs."""


def directed(name: str, better: str) -> str:
    """Return a measure's name with an arrow where it has a better direction, such as ``NS ↑``."""
    return f"{name} {report.DIRECTION[better]}".strip()


def of_runs(runs: Sequence[Results], *, verbose: bool = False) -> list[Grid]:
    """Return the tables of runs: those of one precision and with the same metrics in one, as its rows."""
    groups = grouped(runs, lambda r: (r.manifest.identity.model.dtype, *sorted(r.metrics)))
    return [_beside(some, verbose) if some[1:] else _alone(some[0], verbose) for some in groups]


def _alone(run: Results, verbose: bool) -> Grid:
    rows: list[Row] = []
    for line in run.shown(verbose):
        texts = [report.show(line.before, line), report.show(line.after, line)]
        texts += [bounds(line.after, line), report.count(line)]
        rows.append(([directed(line.name, line.measure.better)], list(map(Cell, texts))))
    title, heads = f"{run.label}: {caption([run])}", ["Before", "After", f"{LEVEL:.0%} CI", "n"]
    return Grid(title, ["Metric"], heads, rows, shared_caveats([run]), list(data(run)))


def _beside(runs: Sequence[Results], verbose: bool) -> Grid:
    heads, names = labels(runs)
    grid = combined(heads, names, [run.shown(verbose) for run in runs], whole=True)
    return replace(
        grid,
        title=f"After the edit: {caption(runs)}",
        notes=shared_caveats(runs),
        data=[row for run in runs for row in data(run)],
    )


def combined(
    heads: Sequence[str],
    names: Sequence[Sequence[str]],
    lines: Sequence[Sequence[MeasureRow]],
    *,
    whole: bool = False,
) -> Grid:
    """Return a row for each run, a column for each measure; ``whole`` has intervals and numbers of cases."""
    found = [{line.name: line for line in own} for own in lines]
    measures = {name: line.measure for own in found for name, line in own.items()}
    columns, rows = list(measures), []
    for label, own in zip(names, found, strict=True):
        there = [own.get(name) for name in measures]
        cells = [shown_estimate(line.after, line) if line else Cell("–") for line in there]
        counts = Cell(spread([line.after.n for line in own.values() if line.after]))
        rows.append((label, [*cells, counts] if whole else [Cell(cell.text) for cell in cells]))
    if whole:
        columns = [*(directed(name, of.better) for name, of in measures.items()), "n"]
    return Grid("", heads, columns, rows)


def curve(run: Results) -> Grid:
    """Return the table of a sequence: a row for each of its points, of all cases so far or a sample of them."""
    points = [report.lines(run.measures, point.estimates, {}, {}) for point in run.curve]
    main = [[line for line in lines if not line.measure.detail] for lines in points]
    counts = [max((e.n for e in point.estimates.values()), default=0) for point in run.curve]
    names = [
        f"{point.state} ({n} of them)"
        if run.regime.sample and n < point.state
        else f"{point.state}"
        for point, n in zip(run.curve, counts, strict=True)
    ]
    return combined(["Cases"], [[name] for name in names], main)


BESIDES = ["Before", "After", "Change", f"{LEVEL:.0%} CI", "n"]
"""The headings over `besides_cells`."""


def besides_cells(each: Effect) -> list[str]:
    """Return one side effect as texts; the last is documents times edited models."""
    change = each.change
    known = not math.isnan(change.low)
    return [
        f"{each.before:.4g}",
        f"{each.after:.4g}",
        f"{change.value:+.2g}",
        f"{change.low:+.2g} – {change.high:+.2g}" if known else "–",
        f"{each.documents:,} × {each.models:,}",
    ]


def besides(runs: Sequence[Results]) -> list[Grid]:
    """Return the table of what controls came to, if any run has some."""
    some = [run for run in runs if run.manifest.identity.asked and side_effects(run).effects]
    if not some:
        return []
    heads, names = labels(some) if len(runs) > 1 else ([], [[]])
    rows: list[Row] = []
    every: list[dict[str, Any]] = []
    for label, run in zip(names, some, strict=True):
        for each in side_effects(run).effects:
            name = directed(f"{each.control} {each.name}", each.better)
            rows.append(([*label, name], list(map(Cell, besides_cells(each)))))
            every += [{**row, **carried(run)} for row in _side_data(each)]
    title = f"Controls, before and after: {caption(some)}"
    return [Grid(title, [*heads, "Control"], BESIDES, rows, data=every)]


def _side_data(each: Effect) -> Iterator[dict[str, Any]]:
    n, change = each.models if each.over == "models" else each.documents, each.change
    ends = {"low": change.low, "high": change.high, "level": LEVEL}
    for when, value in (("before", each.before), ("after", each.after), ("change", change.value)):
        told = {"measure": f"{each.control} {each.name}", "when": when, "estimate": value}
        yield {**told, **(ends if when == "change" else {}), "n": n, "better": each.better}


def shown_estimate(estimate: Estimate | None, line: MeasureRow) -> Cell:
    """Return a number with its interval."""
    return Cell(report.show(estimate, line), bounds(estimate, line))


def bounds(estimate: Estimate | None, line: MeasureRow) -> str:
    """Return an interval in brackets; nothing where there is none, as of one case."""
    if estimate is None or math.isnan(estimate.low):
        return ""
    return f"[{report.number(estimate.low, line)}, {report.number(estimate.high, line)}]"


def spread(numbers: Sequence[int]) -> str:
    """Return numbers of cases as a text: the number, or the least and the greatest."""
    ends = sorted({*numbers})
    return "–".join(map(str, ends[:1] + ends[1:][-1:]))


def data(run: Results) -> Iterator[dict[str, Any]]:
    """Yield every number of a run in full, with all that it carries; of a sequence also those on its way."""
    own = carried(run)
    told = [
        (line, when, getattr(line, when))
        for line in run.lines
        for when in ("before", "after", "immediate", "change")
    ]
    for point in run.curve[:-1]:
        then = report.lines(run.measures, point.estimates, {}, {})
        told += [(line, f"after {point.state}", line.after) for line in then]
    for line, when, estimate in told:
        if estimate:
            yield {"measure": line.name, "when": when, **numbers(estimate, line), **own}


def numbers(estimate: Estimate, line: MeasureRow) -> dict[str, Any]:
    """Return an estimate as cells: unrounded, in the unit that is stored."""
    return {
        "estimate": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "level": LEVEL,
        "n": estimate.n,
        "unit": {"%": "share", "0.01 bits": "bits"}.get(line.measure.unit, line.measure.unit),
        "better": line.measure.better,
    }


def sources(runs: Sequence[Results]) -> Grid:
    """Return the table of the runs themselves, with their settings below it."""
    rows: list[Row] = []
    notes = []
    for run in runs:
        own = facts(run)
        counts = (len(run.records), len(run.failures), run.records.noops)
        names = [own["Run"], run.label, own["Task"], f"{own['Model']} {own['Precision']}"]
        rows.append((names, [Cell(str(n)) for n in counts]))
        told = (f"{head.lower()} {own[head]}" for head in own if head not in KNOWN and own[head])
        notes.append(f"{own['Run']}: {', '.join(told)}")
    heads, counted = ["Run", "Editor", "Task", "Model"], ["Cases", "Failed", "No-op"]
    return Grid("Runs", heads, counted, rows, notes)
