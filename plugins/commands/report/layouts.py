"""Runs as tables, whatever the format: one table of each kind of run, and what its numbers carry.

The papers' tables are `typesetting`. Numbers of different precisions never stand in one table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edit_harness.run import report
from edit_harness.run.estimates import LEVEL
from edit_harness.run.report import MeasureRow
from edit_harness.run.results import Results
from edit_harness.stats import Estimate
from edit_harness_plugins.controls.effects import Effect, side_effects

from .facts import caption, carried, facts, grouped, labels, shared_caveats
from .formats import Cell, Grid, Row


def directed(name: str, better: str) -> str:
    """Return a measure's name with an arrow where it has a better direction, such as ``NS ↑``."""
    return f"{name} {report.DIRECTION[better]}".strip()


def shown(run: Results, verbose: bool) -> list[MeasureRow]:
    """Return the lines of a run's table, details left out unless asked for."""
    return [line for line in run.lines if verbose or not line.measure.detail] or run.lines


def together(runs: Sequence[Results]) -> list[list[Results]]:
    """Return runs in the groups that may share a table: of one precision, with the same metrics."""
    return grouped(runs, lambda run: (run.manifest.identity.model.dtype, *sorted(run.metrics)))


def of_runs(runs: Sequence[Results], *, verbose: bool = False) -> list[Grid]:
    """Return the tables of runs: those that share measures in one, runs as its rows."""
    return [
        _alone(group[0], verbose) if len(group) == 1 else _beside(group, verbose)
        for group in together(runs)
    ]


def _alone(run: Results, verbose: bool) -> Grid:
    rows: list[Row] = []
    for line in shown(run, verbose):
        texts = [report.show(line.before, line), report.show(line.after, line)]
        texts += [bounds(line.after, line), report.count(line)]
        rows.append(([directed(line.name, line.measure.better)], list(map(Cell, texts))))
    title, heads = f"{run.label}: {caption([run])}", ["Before", "After", f"{LEVEL:.0%} CI", "n"]
    return Grid(title, ["Metric"], heads, rows, shared_caveats([run]), list(data(run)))


def _beside(runs: Sequence[Results], verbose: bool) -> Grid:
    heads, names = labels(runs)
    lines = [{line.name: line for line in shown(run, verbose)} for run in runs]
    measures = {name: line.measure for each in lines for name, line in each.items()}
    rows: list[Row] = []
    for label, found in zip(names, lines, strict=True):
        there = [found.get(name) for name in measures]
        cells = [shown_estimate(line.after, line) if line else Cell("–") for line in there]
        counts = spread([line.after.n for line in found.values() if line.after])
        rows.append((label, [*cells, Cell(counts)]))
    columns = [*(directed(name, own.better) for name, own in measures.items()), "n"]
    every = [row for run in runs for row in data(run)]
    title = f"After the edit: {caption(runs)}"
    return Grid(title, heads, columns, rows, shared_caveats(runs), every)


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
    rows = [
        (
            [*label, directed(f"{each.control} {each.name}", each.better)],
            [Cell(text) for text in besides_cells(each)],
        )
        for label, run in zip(names, some, strict=True)
        for each in side_effects(run).effects
    ]
    title = f"Controls, before and after: {caption(some)}"
    every = [row for run in some for row in _side_data(run)]
    return [Grid(title, [*heads, "Control"], BESIDES, rows, data=every)]


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
    """Yield every number of a run in full, with all that it carries."""
    own = carried(run)
    for line in run.lines:
        for when, estimate in (("before", line.before), ("after", line.after)):
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


def _side_data(run: Results) -> Iterator[dict[str, Any]]:
    """Yield what controls came to in full, with all that it carries."""
    own = carried(run)
    for each in side_effects(run).effects:
        n, change = each.models if each.over == "models" else each.documents, each.change
        ends = change.low, change.high
        for when, value, low, high in (
            ("before", each.before, None, None),
            ("after", each.after, None, None),
            ("change", change.value, *ends),
        ):
            what = {"measure": f"{each.control} {each.name}", "when": when, "estimate": value}
            told = {"low": low, "high": high, "level": LEVEL, "n": n, "unit": ""}
            yield {**what, **told, "better": each.better, **own}


def sources(runs: Sequence[Results]) -> Grid:
    """Return the table of the runs themselves, with their settings below it."""
    rows: list[Row] = []
    settings: dict[str, list[str]] = {}
    origins: dict[str, None] = {}
    for run in runs:
        own = facts(run)
        counts = (len(run.records), len(run.failures), run.records.noops)
        names = [own["Run"], run.label, own["Task"], f"{own['Model']} {own['Precision']}"]
        rows.append((names, [Cell(str(n)) for n in counts]))
        settings.setdefault(_told(run, own), []).append(own["Run"])
        origin = f", {run.manifest.task.origin}" if run.manifest.task.origin else ""
        origins[f"{own['Task']} {own['Version']}: data {own['Data']}{origin}"] = None
    notes = [f"{text} ({', '.join(names)})" for text, names in settings.items()]
    heads = ["Run", "Editor", "Task", "Model"]
    return Grid("Runs", heads, ["Cases", "Failed", "No-op"], rows, [*notes, *origins])


def _told(run: Results, own: Mapping[str, str]) -> str:
    """Return in one line how a run was made, but of its data."""
    version = run.manifest.identity.editor.version
    told = [f"{version}, preset {run.manifest.preset or 'none'}", own["Fields"], own["Mode"]]
    told += [f"seed {own['Seed']}", f"judge {own['Judge']}", f"weights {own['Weights']}"]
    return f"{run.label}: {'; '.join(filter(None, told))}"
