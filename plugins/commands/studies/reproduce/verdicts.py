"""How packs and what came of them are shown: a list, a table for each model, and the same as data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType

from edit_harness.run.estimates import LEVEL
from edit_harness.stats import Estimate
from edit_harness.wording import counted
from edit_harness_plugins.commands.report.formats import Cell, Grid, labelled, rich
from edit_harness_plugins.commands.report.papers import named

from .packs import Contents, Expected
from .replication import Compared, Ordered, Replication, place, shown
from .tolerances import APART, OUTSIDE, UNTOLD, WITHIN

SHORT = {WITHIN: "within", OUTSIDE: "OUTSIDE", UNTOLD: "too few", APART: "–"}
ORDERS = {WITHIN: "kept", OUTSIDE: "REVERSED", UNTOLD: "too few", APART: "–"}
MEANING = {
    "values": f"our {LEVEL:.0%} interval and the printed one, as of independent samples, and rounding",
    "orderings": f"tests of the difference over cases, p < {1 - LEVEL:.2g}, not corrected",
    "figures": "a fixed tolerance around figures of the same cases",
}
TOO_FEW = {
    "values": "the tolerance would let much of what is printed pass, or n is too small",
    "orderings": "the difference of ours may be chance",
}
Found = Sequence[Compared | Ordered]


def listed(packs: Sequence[Contents], width: int) -> Iterator[RenderableType]:
    """Yield what packs there are, and what each cannot match."""
    for pack in packs:
        data = described(pack)
        yield labelled("pack", f"{pack.name}   {data['table']}", width)
        for label in ("paper", "models", "editors", "tasks", "compares", "needs", "hours"):
            said = data[label]
            text = ", ".join(said) if isinstance(said, list) else said
            if text:
                yield labelled("" if label == "compares" else label, text, width)
        for i, line in enumerate(pack.differs):
            yield labelled("" if i else "differs", line, width)
        yield ""


def described(pack: Contents) -> dict[str, Any]:
    """Return what is to be known of a pack before it is run, JSON-ready."""
    doubtful = sum(bool(cell.doubts) for cell in pack.cells)
    apart = sum(bool(cell.apart) for cell in pack.cells)
    size = counted(len(pack.cells), "number")
    size += f", {apart} of them not comparable" * bool(apart)
    size += f", {doubtful} in doubt" * bool(doubtful)
    return {
        "name": pack.name,
        "table": f"{pack.table.name}: {pack.table.shows}",
        "paper": pack.paper,
        "models": [wanted.name for wanted in pack.models.values()],
        "editors": list(pack.editors),
        "tasks": list(dict.fromkeys(leg.task for leg in pack.legs)),
        "compares": f"{size}; {pack.compares}, by {MEANING[pack.compares]}",
        "needs": pack.needs,
        "hours": pack.hours,
        "differs": list(pack.differs),
    }


def outcome(replication: Replication, found: Found, width: int) -> Iterator[RenderableType]:
    """Yield the tables, what is outside, and what qualifies it all."""
    contents = replication.contents
    for model in contents.models:
        here = [each for each in found if each.cell.model == model]
        grid = _orders(contents, model, here) if _ordered(here) else _values(contents, model, here)
        yield from rich([grid], width)
    for label, text in remarks(replication, found):
        yield labelled(label, text, width)


def _ordered(found: Found) -> bool:
    return any(isinstance(each, Ordered) for each in found)


def _values(contents: Contents, model: str, found: Found) -> Grid:
    heads = _heads(contents, "Editor")
    intervals = contents.compares == "values"
    rows = [
        (_names(contents, each.cell, each.cell.editor), _cells(each, intervals))
        for each in found
        if isinstance(each, Compared)
    ]
    title = f"{contents.table.name}, {model}"
    return Grid(title, heads, ["printed", "ours", "n", ""], rows)


def _heads(contents: Contents, *first: str) -> list[str]:
    split = contents.table.split
    heads = [{"task": "Task"}.get(split, "Edited")] if split else []
    return [*first, *heads, "Column"]


def _names(contents: Contents, cell: Expected, *first: str) -> list[str]:
    own = [contents.table.tasks.get(cell.row, named(cell.row))] if contents.table.split else []
    return [*first, *own, cell.column]


def _cells(each: Compared, intervals: bool) -> list[Cell]:
    """Return what was printed, ours, how many cases that is of, and the verdict."""
    cell, ours = each.cell, each.ours
    printed = Cell(_printed(cell.value, cell.places))
    if cell.low is not None and cell.high is not None:
        printed = Cell(printed.text, _ends(cell.low, cell.high, cell.places))
    verdict = Cell(SHORT[each.ruling.verdict])
    if ours is None:
        return [printed, Cell("–"), Cell(""), verdict]
    known = intervals and not math.isnan(ours.low)
    ends = _ends(ours.low, ours.high, cell.places) if known else ""
    return [printed, Cell(shown(ours.value, cell.places), ends), Cell(f"{ours.n:,}"), verdict]


def _printed(value: float, places: int) -> str:
    return f"{value:.2g}" if places > 5 else f"{value:.{places}f}"


def _ends(low: float, high: float, places: int) -> str:
    return f"{shown(low, places)} – {shown(high, places)}"


def _orders(contents: Contents, model: str, found: Found) -> Grid:
    counts: dict[tuple[str, ...], Counter[str]] = {}
    for each in found:
        names = tuple(_names(contents, each.cell))
        counts.setdefault(names, Counter())[each.verdict] += 1
    rows = [(names, [Cell(str(own[v])) for v in ORDERS]) for names, own in counts.items()]
    title = f"{contents.table.name}, {model}: which editor is above which"
    return Grid(title, _heads(contents), list(ORDERS.values()), rows)


def remarks(replication: Replication, found: Found) -> Iterator[tuple[str, str]]:
    """Yield what came out in words: labels of a few letters, and lines of text."""
    contents = replication.contents
    for each in found:
        if each.verdict == OUTSIDE:
            yield "outside", _how(each, contents)
    yield "in all", _counts(found)
    if replication.limit:
        first = f"the first {replication.limit} cases only"
        yield "limit", f"{first}: our intervals are wider than of all"
    for precision in replication.previews:
        yield "preview", f"ours are in {precision}, which costs accuracy: float32 is to be compared"
    yield "by", MEANING[contents.compares]
    for reason, many in Counter(e.ruling.why for e in found if e.verdict == APART).items():
        yield "–", f"{many} not comparable: {reason}"
    if any(each.verdict == UNTOLD for each in found):
        yield "too few", TOO_FEW[contents.compares]
    doubts = Counter(doubt for each in found for doubt in each.cell.doubts)
    for doubt, many in doubts.items():
        yield "doubt", f"{counted(many, 'number')}: {doubt}"
    for i, line in enumerate(contents.differs):
        yield "" if i else "differs", line


def _counts(found: Found) -> str:
    words = ORDERS if _ordered(found) else SHORT
    counts = Counter(each.verdict for each in found)
    text = ", ".join(f"{counts[v]} {words[v].lower()}" for v in (WITHIN, OUTSIDE))
    text += f", {counts[UNTOLD]} {UNTOLD}, {counts[APART]} {APART}"
    if (share := kept(found)) is not None:
        text += f"; of the orderings that can be told {share:.0%} are kept"
    elif counts[WITHIN] + counts[OUTSIDE] and not _figures(found):
        by_chance = (1 - LEVEL) * (counts[WITHIN] + counts[OUTSIDE])
        text += f"; {by_chance:.1g} would be outside by chance alone"
    return text


def _figures(found: Found) -> bool:
    return any(each.cell.within is not None for each in found)


def kept(found: Found) -> float | None:
    """Return the share of orderings that are kept, of those that can be told; None if none can."""
    told = [each.verdict for each in found if each.verdict in (WITHIN, OUTSIDE)]
    return told.count(WITHIN) / len(told) if told and _ordered(found) else None


def _how(each: Compared | Ordered, contents: Contents) -> str:
    """Say by how much a number is outside, or which two editors have changed places."""
    cell = each.cell
    if isinstance(each, Ordered):
        one, two = (_number(ours, cell.places) for ours in each.ours)
        over = f"{place(cell)}: printed above {each.lower.editor}"
        return f"{over} ({cell.value:g} and {each.lower.value:g}), and is below ({one} and {two})"
    ours, most = _number(each.ours, cell.places), f"{each.ruling.tolerance:.2g}"
    value = _printed(cell.value, cell.places)
    return f"{place(cell)}: printed {value}, ours {ours}, and ± {most} is allowed"


def _number(ours: Estimate | None, places: int) -> str:
    return shown(ours.value, places) if ours else "–"


def as_data(replication: Replication, found: Found) -> dict[str, Any]:
    """Return what came out, JSON-ready."""
    contents = replication.contents
    folders = (str(run.folder.path) for runs in replication.runs.values() for run in runs)
    return {
        "pack": contents.name,
        "table": contents.table.name,
        "paper": contents.paper,
        "compares": contents.compares,
        "verdicts": dict(Counter(each.verdict for each in found)),
        "kept": kept(found),
        "limit": replication.limit,
        "numbers": [_row(each) for each in found],
        "differs": list(contents.differs),
        "runs": sorted(folders),
    }


def _row(each: Compared | Ordered) -> dict[str, Any]:
    cell = each.cell
    told: dict[str, Any] = {"model": cell.model, "editor": cell.editor, "row": cell.row}
    told |= {"column": cell.column, "printed": cell.value, "doubts": list(cell.doubts)}
    rest = {"verdict": each.verdict, "why": each.ruling.why}
    if isinstance(each, Ordered):
        one, two = (_ours(ours) for ours in each.ours)
        below = {"editor": each.lower.editor, "printed": each.lower.value, **two}
        return {**told, **one, "below": below, **rest}
    interval = {"printed_low": cell.low, "printed_high": cell.high, "printed_n": cell.n or None}
    return {**told, **interval, **_ours(each.ours), "tolerance": each.ruling.tolerance, **rest}


def _ours(ours: Estimate | None) -> Mapping[str, float | None]:
    if ours is None:
        return {"ours": None, "low": None, "high": None, "n": None}
    return {"ours": ours.value, "low": ours.low, "high": ours.high, "n": ours.n}
