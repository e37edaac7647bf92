"""A run's results as a table for the terminal, and as data: names, units and digits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ..errors import printable
from ..files import finite
from ..interfaces import Measure
from ..stats import Estimate
from .estimates import LEVEL

if TYPE_CHECKING:
    from .results import Results

HUNDREDTHS = ("%", "0.01 bits")
"""The units of numbers that tables show times 100."""
THOUSAND = 1000
"""From here on numbers are shown whole; three digits would need an exponent."""
DIRECTION = {"higher": "↑", "lower": "↓", "": ""}


@dataclass(frozen=True)
class MeasureRow:
    """One number before and after the edit."""

    name: str
    measure: Measure
    before: Estimate | None
    after: Estimate | None
    immediate: Estimate | None = None
    """Right after each case's own edit, where later edits follow."""
    change: Estimate | None = None
    """From there to ``after``, by later edits."""
    floor: float = 0.0
    """The effect of rounding alone, in nats."""


@dataclass(frozen=True)
class Point:
    """A checkpoint of a sequence, at which all cases so far are measured."""

    state: int
    """The number of cases edited so far."""
    estimates: Mapping[str, Estimate]


def lines(
    measures: Mapping[str, Measure],
    estimates: Mapping[str, Estimate],
    immediate: Mapping[str, Estimate],
    change: Mapping[str, Estimate],
    floor: float = 0.0,
) -> Iterator[MeasureRow]:
    """Yield a line for each measure that has an estimate, in the metrics' own order."""
    for name, measure in measures.items():
        before, after = estimates.get(f"pre_{name}"), estimates.get(f"post_{name}")
        if before or after:
            then, moved = immediate.get(f"post_{name}"), change.get(f"post_{name}")
            yield MeasureRow(name, measure, before, after, then, moved, floor)


def cells(rows: Sequence[MeasureRow]) -> list[tuple[str, ...]]:
    """Return the lines of the table of one run, the heading first."""
    followed = any(row.immediate for row in rows)
    extra = ("Immediate", "Change", "Final") if followed else ("After",)
    lines = [("Metric", "", "Before", *extra, f"{LEVEL:.0%} CI", "n")]
    for row in rows:
        later = (show(row.immediate, row), show(row.change, row)) if followed else ()
        after = (show(row.after, row), interval(row.after, row), count(row))
        name, better = printable(row.name), DIRECTION[row.measure.better]
        lines.append((name, better, show(row.before, row), *later, *after))
    return lines


def table(rows: Sequence[MeasureRow]) -> str:
    """Return the table of one run as plain text."""
    lines = cells(rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def show(estimate: Estimate | None, line: MeasureRow) -> str:
    """Return a value as text; a dash if it was not measured."""
    if estimate is None or math.isnan(estimate.value):
        return "–"
    return number(estimate.value, line)


def count(line: MeasureRow) -> str:
    """Return the number of cases of a line, before and after where these differ."""
    ns = [estimate.n for estimate in (line.before, line.after) if estimate]
    return " → ".join(map(str, dict.fromkeys(ns)))


def interval(estimate: Estimate | None, line: MeasureRow) -> str:
    """Return an interval as text."""
    if estimate is None or math.isnan(estimate.low):
        return "–"
    return f"{number(estimate.low, line)} – {number(estimate.high, line)}"


def number(value: float, line: MeasureRow) -> str:
    """Return a number with the digits of its unit; below the floor, that it is below."""
    if line.measure.unit in HUNDREDTHS:
        return f"{round(100 * value, 1) + 0.0:.1f}"
    if line.measure.unit == "nats" and abs(value) < line.floor:
        return f"< {line.floor:.2g}"
    return plain_number(value)


def plain_number(value: float) -> str:
    """Return a number of three digits, or whole from a thousand on."""
    whole = abs(value) >= THOUSAND - 0.5 and math.isfinite(value)
    return f"{value:,.0f}" if whole else f"{value:.3g}"


def data(run: Results) -> dict[str, Any]:
    """Return a run's results as JSON-ready data, under lm-evaluation-harness's kind of keys."""
    mode, identity = run.regime.mode, run.manifest.identity
    found = {
        "editor": run.label,
        "preset": run.manifest.preset,
        "task": identity.task.name,
        "model": run.manifest.model.path,
        "precision": identity.model.dtype,
        "level": LEVEL,
        "results": _flat(run.estimates, mode),
        "cases": len(run.records),
        "missing": run.missing,
        "failed": dict(zip(run.failures.cases, run.failures.statuses, strict=True)),
        "noop": run.records.noops,
        "pending": run.pending,
        "undecided": run.records.verdicts["undecided"],
        "unparsed": run.records.verdicts["unparsed"],
        "judged_by": run.served,
        "tables": run.tables,
    }
    if run.manifest.shard:
        found["shard"] = {"number": run.manifest.shard.number, "of": run.manifest.shard.of}
    if mode != "single":
        found |= {
            "interval": run.covers,
            "immediate": _flat(run.immediate, mode),
            "retention": _flat(run.retention, mode),
            "curve": [{"cases": p.state, **_flat(p.estimates, mode)} for p in run.curve],
        }
    return cast(dict[str, Any], finite(found))


def _flat(estimates: Mapping[str, Estimate], mode: str) -> dict[str, float]:
    flat: dict[str, float] = {}
    for name, estimate in estimates.items():
        flat[f"{name},{mode}"] = estimate.value
        flat[f"{name}_low,{mode}"] = estimate.low
        flat[f"{name}_high,{mode}"] = estimate.high
        flat[f"{name}_n,{mode}"] = estimate.n
    return flat
