"""One page of one or several runs: what was run, tables, plots, and every case to look into.

A page that stands alone holds its style and its script; one of a site shares them with the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from edit_harness.run import report
from edit_harness.run.estimates import LEVEL
from edit_harness.run.results import Run

from . import facts, plots
from .boards import Entrant, boards, model_of
from .cases import explored
from .figures import INSTALL, drawable
from .layouts import shown
from .templates import SCRIPTS, STYLE, asset, embedded, inlined, page

BUDGET = 950_000
"""Bytes of a page but for its style and script, so that all of it is below a megabyte."""
TABLES = 50_000
"""Bytes that are set aside for a run's tables and plots; the rest is for cases."""


def explore(runs: Sequence[Run], title: str) -> str:
    """Return one HTML page of runs that opens anywhere and asks nothing of the network."""
    entrants = [Entrant(run, f"#run-{i}") for i, run in enumerate(runs)]
    return page(
        "run.jinja",
        title=title,
        **inlined(asset(STYLE), "\n".join(map(asset, SCRIPTS))),
        boards=boards_of(entrants) if len(runs) > 1 else [],
        **contents(runs),
    )


def contents(runs: Sequence[Run]) -> dict[str, Any]:
    """Return what the template shows of runs, and the data of its script."""
    data = [explored(run, BUDGET // len(runs) - TABLES) for run in runs]
    return {
        "level": f"{LEVEL:.0%}",
        "runs": [_told(run, len(found["cases"])) for run, found in zip(runs, data, strict=True)],
        "data": embedded({"runs": data}),
        "facts": facts,
        "besides_heads": report.besides_heads(LEVEL),
        "besides_cells": report.besides_cells,
        "unplotted": ""
        if drawable()
        else f"The page has no plots: they need matplotlib, {INSTALL}.",
    }


def boards_of(entrants: Sequence[Entrant]) -> list[dict[str, Any]]:
    """Return what the template shows of several runs: a table for each protocol."""
    return [{"board": board} for board in boards(entrants)]


def _told(run: Run, embedded: int) -> dict[str, Any]:
    lines, main = run.lines, shown(run, verbose=False)
    names = {line.name for line in main}
    matched = [line for line in matched_lines(run) if line.name in names] if drawable() else []
    return {
        "run": run,
        "model": model_of(run),
        "task": run.manifest.identity.task,
        "embedded": embedded,
        "lines": main,
        "details": [line for line in lines if line.name not in names],
        "followed": any(line.immediate for line in lines),
        "dumbbells": plots.dumbbells(matched),
    }


def matched_lines(run: Run) -> Iterator[report.MeasureRow]:
    """Yield the lines over those cases that have a value before and after, which a plot may join."""
    found = run.estimator.estimates(run.records, both=True)
    return report.lines(run.measures, found, {}, {}, run.floor)
