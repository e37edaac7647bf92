"""How a reproduction report is shown: a table for each model, remarks, and the same as data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from edit_harness.errors import counted
from edit_harness.run.estimates import LEVEL
from edit_harness.stats import Estimate
from edit_harness_plugins.commands.report.formats import Cell, Grid
from edit_harness_plugins.commands.report.papers import named

from .packs import Contents, Expected
from .verdicts import APART, OUTSIDE, UNTOLD, WITHIN, Compared, Reproduction

SHORT = {WITHIN: "within", OUTSIDE: "OUTSIDE", UNTOLD: "too few", APART: "–"}
ORDERS = {WITHIN: "kept", OUTSIDE: "REVERSED", UNTOLD: "too few", APART: "–"}
MEANING = {
    "values": f"our {LEVEL:.0%} interval and the printed one, as of independent samples, and rounding",
    "orderings": f"tests of the difference over cases, p < {1 - LEVEL:.2g}, not corrected",
    "figures": "a fixed tolerance around figures of the same cases",
}


def table(contents: Contents, model: str, found: Sequence[Compared]) -> Grid:
    """Return what came of a model's numbers: each beside what was printed, or counts of orders."""
    title = f"{contents.table.name}, {model}"
    split = contents.table.split
    heads = [{"task": "Task"}.get(split, "Edited"), "Column"] if split else ["Column"]
    if contents.compares != "orderings":
        intervals = contents.compares == "values"
        rows = [
            ([each.cell.editor, *_place(contents, each.cell)], _cells(each, intervals))
            for each in found
        ]
        return Grid(title, ["Editor", *heads], ["printed", "ours", "n", ""], rows)
    counts: dict[tuple[str, ...], Counter[str]] = {}
    for each in found:
        counts.setdefault(_place(contents, each.cell), Counter())[each.verdict] += 1
    orders = [(names, [Cell(str(own[v])) for v in ORDERS]) for names, own in counts.items()]
    return Grid(f"{title}: which editor is above which", heads, list(ORDERS.values()), orders)


def _place(contents: Contents, cell: Expected) -> tuple[str, ...]:
    row = contents.table.tasks.get(cell.row, named(cell.row))
    return (row, cell.column) if contents.table.split else (cell.column,)


def _cells(each: Compared, intervals: bool) -> list[Cell]:
    """Return what was printed, ours, how many cases that is of, and the verdict."""
    cell, ours = each.cell, each.ours
    printed = Cell(_printed(cell), _ends(cell.low, cell.high, cell.places))
    verdict = Cell(SHORT[each.verdict])
    if ours is None:
        return [printed, Cell("–"), Cell(""), verdict]
    ends = _ends(ours.low, ours.high, cell.places) if intervals else ""
    return [printed, Cell(_number(ours.value, cell.places), ends), Cell(f"{ours.n:,}"), verdict]


def _printed(cell: Expected) -> str:
    return f"{cell.value:.2g}" if cell.places > 5 else f"{cell.value:.{cell.places}f}"


def _number(value: float | None, places: int) -> str:
    """Return a number with the digits that were printed and one more; very small ones with three."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.3g}" if places > 5 else f"{value:.{places + 1}f}"


def _ends(low: float | None, high: float | None, places: int) -> str:
    if low is None or high is None or math.isnan(low):
        return ""
    return f"{_number(low, places)} – {_number(high, places)}"


def remarks(report: Reproduction, found: Sequence[Compared]) -> Iterator[tuple[str, str]]:
    """Yield what came out in words, as labels and lines: what is outside, and what qualifies it all."""
    contents = report.contents
    yield from (("outside", _how(each)) for each in found if each.verdict == OUTSIDE)
    words = ORDERS if contents.compares == "orderings" else SHORT
    counts = Counter(each.verdict for each in found)
    text = ", ".join(f"{counts[v]} {words[v].lower()}" for v in (WITHIN, OUTSIDE))
    yield "in all", f"{text}, {counts[UNTOLD]} {UNTOLD}, {counts[APART]} {APART}"
    yield "by", MEANING[contents.compares]
    for reason, many in Counter(e.ruling.why for e in found if e.verdict == APART).items():
        yield "–", f"{many} not comparable: {reason}"
    for doubt, many in Counter(doubt for each in found for doubt in each.cell.doubts).items():
        yield "doubt", f"{counted(many, 'number')}: {doubt}"
    for i, line in enumerate(contents.differs):
        yield "" if i else "differs", line


def _how(each: Compared) -> str:
    """Say by how much a number is outside, or which two editors have changed places."""
    cell = each.cell
    row = f", {named(cell.row)}" if cell.row else ""
    place = f"{cell.editor} on {cell.model}{row}, {cell.column}"
    values = (ours.value if ours else None for ours in (each.ours, each.below_ours))
    ours, below = (_number(value, cell.places) for value in values)
    if each.below:
        over = f"{place}: printed above {each.below.editor}"
        return (
            f"{over} ({cell.value:g} and {each.below.value:g}), and is below ({ours} and {below})"
        )
    return f"{place}: printed {_printed(cell)}, ours {ours}, and ± {each.ruling.tolerance:.2g} is allowed"


def as_data(report: Reproduction, found: Sequence[Compared]) -> dict[str, Any]:
    """Return what came out, JSON-ready."""
    contents = report.contents
    return {
        "pack": contents.name,
        "table": contents.table.name,
        "paper": contents.paper,
        "compares": contents.compares,
        "verdicts": dict(Counter(each.verdict for each in found)),
        "limit": report.limit,
        "numbers": [_row(each) for each in found],
        "differs": list(contents.differs),
        "runs": sorted(str(run.folder.path) for runs in report.runs.values() for run in runs),
    }


def _row(each: Compared) -> dict[str, Any]:
    cell, below = each.cell, each.below
    told: dict[str, Any] = {"model": cell.model, "editor": cell.editor, "row": cell.row}
    told |= {"column": cell.column, "printed": cell.value, "doubts": list(cell.doubts)}
    if below:
        theirs = {"editor": below.editor, "printed": below.value, **_ours(each.below_ours)}
        told |= {**_ours(each.ours), "below": theirs}
    else:
        told |= {"printed_low": cell.low, "printed_high": cell.high, "printed_n": cell.n or None}
        told |= {**_ours(each.ours), "tolerance": each.ruling.tolerance}
    return told | {"verdict": each.verdict, "why": each.ruling.why}


def _ours(ours: Estimate | None) -> dict[str, float | None]:
    if ours is None:
        return dict.fromkeys(("ours", "low", "high", "n"))
    return {"ours": ours.value, "low": ours.low, "high": ours.high, "n": ours.n}
