"""One page of one or several runs: what was run, tables, plots, and every case to look into.

A page that stands alone holds its style and its script; one of a site shares them with the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from edit_harness.run import report
from edit_harness.run.effects import Effect
from edit_harness.run.estimates import LEVEL
from edit_harness.run.outcome import Run

from . import plots
from .boards import Entrant, boards, headings, model_of, plane
from .breakdown import breakdowns
from .cases import explored, stored
from .facts import provenance, remarks, statuses
from .templates import SCRIPTS, STYLE, asset, inline_policy, page
from .text import embedded

BUDGET = 950_000
"""Bytes of a page but for its style and script, so that all of it is below a megabyte."""
TABLES = 30_000
"""Bytes that are set aside for a run's tables and plots; the rest is for cases."""
ROWS = 200
"""Rows of one of a metric's own tables that are shown."""


def explore(runs: Sequence[Run], title: str) -> str:
    """Return one HTML page of runs that opens anywhere and asks nothing of the network."""
    style, script = asset(STYLE), "\n".join(map(asset, SCRIPTS))
    entrants = [Entrant(run, f"#run-{i}") for i, run in enumerate(runs)]
    return page(
        "run.jinja",
        title=title,
        policy=Markup(inline_policy(style, script)),
        style=Markup(style),
        script=Markup(script),
        boards=boards_of(entrants) if len(runs) > 1 else [],
        **contents(runs),
    )


def contents(runs: Sequence[Run]) -> dict[str, Any]:
    """Return what the template shows of runs, and the data of its script."""
    data = [_data(run, BUDGET // len(runs) - TABLES) for run in runs]
    return {
        "level": f"{LEVEL:.0%}",
        "runs": [_shown(run, found) for run, found in zip(runs, data, strict=True)],
        "data": embedded({"runs": data}),
    }


def boards_of(entrants: Sequence[Entrant]) -> list[dict[str, Any]]:
    """Return what the template shows of several runs: a table for each protocol, and its plane."""
    found = []
    for board in boards(entrants):
        flat = plane(board)
        plot = plots.scatter(flat) if flat and flat.points else ""
        shown = {"board": board, "headings": list(headings(board)), "plot": plot}
        found.append({**shown, "joined": 'class="front' in plot})
    return found


def _data(run: Run, budget: int) -> dict[str, Any]:
    columns = stored(run)
    groups = breakdowns(run, columns)
    return {"label": run.label, "groups": groups, **explored(run, columns, budget)}


def _shown(run: Run, data: Mapping[str, Any]) -> dict[str, Any]:
    identity = run.manifest.identity
    lines = run.lines
    main = [line for line in lines if not line.measure.detail] or lines
    (alone,) = boards_of([Entrant(run, "")])
    return {
        "label": run.label,
        "model": model_of(run),
        "task": f"{identity.task.name} {identity.task.version}",
        "precision": identity.model.dtype,
        "regime": str(run.regime),
        "count": len(run.records),
        "remarks": list(remarks(run)),
        "provenance": list(provenance(run)),
        "statuses": statuses(run),
        "followed": any(line.immediate for line in lines),
        "lines": [_line(line) for line in main],
        "details": [_line(line) for line in lines if line not in main],
        "effects": [_effect(each) for each in run.effects],
        "besides": report.besides_heads(LEVEL),
        "dumbbells": plots.dumbbells([x for x in run.matched if x.name in {y.name for y in main}]),
        "scatter": alone["plot"],
        "curve": plots.curves(run.curve, main) or "",
        "tables": list(_tables(run)),
        "grouped": bool(data["groups"]),
        "embedded": len(data["cases"]),
        "states": run.regime.mode != "single",
    }


def _effect(each: Effect) -> list[str]:
    names = [f"{each.control} {each.name}", report.DIRECTION[each.better], each.better]
    return [*names, *report.besides_cells(each)]


def _line(line: report.Line) -> dict[str, Any]:
    return {
        "name": line.name,
        "arrow": report.DIRECTION[line.measure.better],
        "better": line.measure.better,
        "unit": line.measure.unit,
        "formula": line.measure.formula,
        "before": report.show(line.before, line),
        "immediate": report.show(line.immediate, line),
        "change": report.show(line.change, line),
        "after": report.show(line.after, line),
        "interval": report.interval(line.after, line),
        "n": report.count(line),
    }


def _tables(run: Run) -> Iterator[dict[str, Any]]:
    """Yield the metrics' own tables, with the rows that a page has room for."""
    for tables in run.tables.values():
        for title, rows in tables.items():
            names = list(dict.fromkeys(name for row in rows for name in row))
            cells = [[_cell(row.get(name)) for name in names] for row in rows[:ROWS]]
            yield {"title": title, "names": names, "rows": cells, "more": max(len(rows) - ROWS, 0)}


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
