"""One page of one or several runs: what was run, tables, and every case to look into.

A page that stands alone holds its style and its script; one of a site shares them with the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edit_harness.run import report
from edit_harness.run.estimates import LEVEL
from edit_harness.run.results import Results

from . import facts
from .boards import Entrant, boards_of, model_of
from .cases import explored
from .layouts import shown
from .templates import SCRIPTS, STYLE, asset, embedded, inlined, page

BUDGET = 950_000
"""Bytes of a page but for its style and script, so that all of it is below a megabyte."""
TABLES = 50_000
"""Bytes that are set aside for a run's tables; the rest is for cases."""


def explore(runs: Sequence[Results], title: str) -> str:
    """Return one HTML page of runs that opens anywhere and asks nothing of the network."""
    entrants = [Entrant(run, f"#run-{i}") for i, run in enumerate(runs)]
    inner = inlined(asset(STYLE), "\n".join(map(asset, SCRIPTS)))
    several = boards_of(entrants) if len(runs) > 1 else []
    return page("run.jinja", title=title, **inner, boards=several, **contents(runs))


def contents(runs: Sequence[Results]) -> dict[str, Any]:
    """Return what the template shows of runs, and the data of its script."""
    data = [explored(run, BUDGET // len(runs) - TABLES) for run in runs]
    return {
        "level": f"{LEVEL:.0%}",
        "runs": [_told(run, len(found["cases"])) for run, found in zip(runs, data, strict=True)],
        "data": embedded({"runs": data}),
        "facts": facts,
        "besides_heads": report.besides_heads(LEVEL),
        "besides_cells": report.besides_cells,
    }


def _told(run: Results, embedded: int) -> dict[str, Any]:
    main = shown(run, verbose=False)
    return {
        "run": run,
        "model": model_of(run),
        "task": run.manifest.identity.task,
        "embedded": embedded,
        "lines": main,
        "details": [line for line in run.lines if line not in main],
        "followed": any(line.immediate for line in run.lines),
    }
