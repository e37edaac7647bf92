"""The command ``compare``: whether two runs differ, measure by measure, over the same cases.

How runs are paired and tested stands in `edit_harness_plugins.commands.results.pairing`; why two runs are different ones says
`edit_harness_plugins.commands.results.differing`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from edit_harness.encoding import finite
from edit_harness.errors import UsageError
from edit_harness.folder.records import RunFolder
from edit_harness.registry.plugins import Plugins
from edit_harness.run import report
from edit_harness.run.effects import Versus
from edit_harness.run.estimates import LEVEL
from edit_harness.run.outcome import Run
from edit_harness.run.report import DIRECTION, Line
from edit_harness.run.rereading import reread

from ..report import layouts
from ..report.formats import Cell, Grid, labelled, rich
from ..run import console
from .pairing import ALPHA, MCNEMAR, POWER, T_TEST, Contrast, Pairing

UNEQUAL = ("Task", "Version", "Model", "Weights", "Tokenizer", "Mode", "Judge", "Seed")
"""What readers are told of if it differs; precisions must not."""


@dataclass(frozen=True, kw_only=True)
class Flags:
    """The flags of ``compare``, as they were parsed."""

    first: str
    second: str
    metrics: Sequence[str]
    as_json: bool
    debug: bool


def compare(plugins: Plugins, flags: Flags) -> int:
    """Print how two runs differ, and return the exit code."""
    pairing = paired_runs(plugins, flags)
    contrasts = pairing.contrasts
    if not contrasts:
        for name, run in ((flags.first, pairing.first), (flags.second, pairing.second)):
            if len(run.failures) == len(run.records):
                raise UsageError(f"every case of {name} failed, so that nothing was measured")
        raise UsageError(
            f"{flags.first} and {flags.second} have no measure in common",
            "name metrics that fit the cases of both: --metrics NAME",
        )
    if flags.as_json:
        console.out.out(json.dumps(finite(_as_data(pairing, contrasts)), indent=1))
        return 0
    _print(pairing, contrasts)
    return 0


def paired_runs(plugins: Plugins, flags: Flags) -> Pairing:
    """Read two runs, and pair their cases. Raises `UsageError` if nothing can be compared."""
    names = flags.metrics or _shared(flags.first, flags.second)
    first, second = (reread(plugins, name, names) for name in (flags.first, flags.second))
    told = [layouts.facts(run) for run in (first, second)]
    one, two = (own["Precision"] for own in told)
    if one != two:
        raise UsageError(
            f"{flags.first} is in {one}, and {flags.second} in {two}: a difference may be rounding",
            f"run both in one precision: --dtype {one}",
        )
    pairing = Pairing(first, second, first.metrics)
    if not pairing.records:
        why = ", ".join(f"{n} {text}" for text, n in pairing.left_out.items())
        raise UsageError(
            f"{flags.first} and {flags.second} have no case in common{why and f': {why}'}",
            "compare runs of one task on the same data",
        )
    return pairing


def _shared(first: str, second: str) -> list[str]:
    """Return the metrics that both runs name. Raises `UsageError` if there is none."""
    one, two = (RunFolder.at(name).planned().metrics for name in (first, second))
    if not (both := [name for name in one if name in two]):
        raise UsageError(
            f"{first} and {second} have no metric in common", "name some: --metrics NAME"
        )
    return both


def _print(pairing: Pairing, contrasts: Sequence[Contrast]) -> None:
    runs = (pairing.first, pairing.second)
    for label, run in zip("AB", runs, strict=True):
        own = layouts.facts(run)
        text = f"{own['Editor']}  {own['Task']} {own['Version']}  {own['Model']} {own['Precision']}"
        text += f"  {own['Mode']}  seed {own['Seed']}  run {own['Run']}"
        console.out.print(labelled(label, text, console.out.width))
    grids = [_grid(contrasts, pairing.first), *_controls(pairing.versus)]
    for part in rich(grids, console.out.width):
        console.out.print(part)
    for label, text in remarks(pairing, contrasts):
        console.out.print(labelled(label, text, console.out.width))


def _grid(contrasts: Sequence[Contrast], run: Run) -> Grid:
    heads = ["A", "B", "B − A", f"{LEVEL:.0%} CI", "p (BH)", "effect", "detects"]
    counts = {each.difference.n for each in contrasts}
    rows = []
    for each in contrasts:
        if not each.measure.detail:
            cells = _cells(each, run) + ([Cell(str(each.difference.n))] if len(counts) > 1 else [])
            rows.append(([f"{each.name} {DIRECTION[each.measure.better]}".strip()], cells))
    return Grid(
        f"{layouts.spread(sorted(counts))} cases that both measured",
        ["Metric"], heads + (["n"] if len(counts) > 1 else []), rows,
    )  # fmt: skip


def _controls(found: Sequence[Versus]) -> Iterator[Grid]:
    """Yield the table of what controls came to in both runs, if there is something."""
    rows = []
    for each in found:
        low, high = each.difference.low, each.difference.high
        texts = [f"{value:+.2g}" for value in (each.first, each.second, each.difference.value)]
        texts.append("–" if math.isnan(low) else f"[{low:+.2g}, {high:+.2g}]")
        texts.append(f"{each.documents:,} × {each.models:,}")
        name = f"{each.control} {each.name} {DIRECTION[each.better]}".strip()
        rows.append(([name], [Cell(text) for text in texts]))
    if rows:
        heads = ["A", "B", "B − A", f"{LEVEL:.0%} CI", "n"]
        yield Grid("Changes of controls, after less before the edits", ["Control"], heads, rows)


def _cells(each: Contrast, run: Run) -> list[Cell]:
    line = Line(each.name, each.measure, None, None)
    first, second = (report.number(value, line) for value in (each.first, each.second))
    least = "–" if each.detectable is None else report.number(each.detectable, line)
    texts = [first, second, _signed(each.difference.value, line)]
    texts.append(layouts.bounds(each.difference, line) or "–")
    texts += [_p(each.adjusted), _effect(each), least]
    return [
        Cell(text, mark="best" if each.differs and i == 2 else "") for i, text in enumerate(texts)
    ]


def _signed(value: float, line: Line) -> str:
    shown = report.number(value, line)
    return f"+{shown}" if value > 0 and not shown.startswith("<") else shown


def _p(value: float | None) -> str:
    if value is None:
        return "–"
    return "< 1e-4" if value < 1e-4 else f"{value:.2g}"


def _effect(each: Contrast) -> str:
    if each.test == MCNEMAR:
        return f"+{each.gained} −{each.lost}"
    return "–" if each.effect is None else f"{each.effect:.2f}"


def remarks(pairing: Pairing, contrasts: Sequence[Contrast]) -> Iterator[tuple[str, str]]:
    """Yield what a reader of the table has to know: what differs, what was left out, what is shared."""
    if pairing.same_folder:
        yield "note", "A and B are one run folder: it is compared with itself"
    shown = [each for each in contrasts if not each.measure.detail]
    found = ", ".join(each.name for each in shown if each.differs)
    yield "differs", found or f"nothing, at {ALPHA:.0%}"
    for label, names, text in _untold(shown):
        if names:
            yield label, f"{', '.join(names)}: {text}"
    yield (
        "detects",
        f"the least difference that is found with a power of {POWER:.0%} at {ALPHA:.0%}, uncorrected",
    )
    yield "effect", "cases gained and lost of 0/1 values (McNemar), else Cohen's d_z (paired t)"
    yield "CI", "each interval is of one measure, and not corrected for their number as p is"
    if pairing.first.effects and pairing.second.effects and not pairing.versus:
        yield "controls", "not compared: models, modes, cases or documents are not the same"
    for text, count in pairing.left_out.items():
        yield "left out", f"{count} cases {text}"
    yield from _warnings(pairing, contrasts)


def _untold(shown: Sequence[Contrast]) -> Iterator[tuple[str, list[str], str]]:
    """Yield labels of what a table cannot tell, with the measures of which that is so."""
    rest = [each for each in shown if not each.differs and not each.alike]
    yield (
        "not told",
        [each.name for each in rest if each.detectable is not None],
        "smaller differences than in detects may be missed",
    )
    yield (
        "too few",
        [each.name for each in rest if each.detectable is None],
        "of so few, no difference that there can be would be found",
    )
    alike = [each for each in shown if each.alike]
    yield (
        "equal",
        [e.name for e in alike if not e.difference.value],
        "no case, or no batch on average, differs",
    )
    yield (
        "constant",
        [each.name for each in alike if each.difference.value],
        "every case, or batch, differs by as much: p is of the sign test",
    )


def _warnings(pairing: Pairing, contrasts: Sequence[Contrast]) -> Iterator[tuple[str, str]]:
    one, two = (layouts.facts(run) for run in (pairing.first, pairing.second))
    for head in UNEQUAL:
        if one[head] != two[head]:
            yield "note", f"another {head.lower()}: {one[head]} in A, {two[head]} in B"
    for label, run in (("A", pairing.first), ("B", pairing.second)):
        if run.shard:
            yield "note", f"{label} is shard {run.shard} of a run: merge joins the shards"
        if failed := layouts.failed(run):
            yield "failed", f"{label}: {failed}"
    if pairing.clusters is not None:
        counts = _range(sorted({each.units for each in contrasts}))
        yield "note", f"tests and intervals are over {counts} batches, since a batch is one edit"
    elif covers := [run.covers for run in (pairing.first, pairing.second) if run.covers]:
        yield "note", covers[0]


def _range(counts: Sequence[int]) -> str:
    return " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))


def _as_data(pairing: Pairing, contrasts: Sequence[Contrast]) -> dict[str, Any]:
    runs = {"A": pairing.first, "B": pairing.second}
    return {
        **{
            label: {"path": str(run.folder.path), **layouts.facts(run)}
            for label, run in runs.items()
        },
        "same_folder": pairing.same_folder,
        "cases": len(pairing.records),
        "left_out": dict(pairing.left_out),
        "level": LEVEL,
        "power": POWER,
        "measures": {each.name: _told(each) for each in contrasts},
        "controls": [_told_control(each) for each in pairing.versus],
        "notes": [text for _, text in _warnings(pairing, contrasts)],
    }


def _told_control(each: Versus) -> dict[str, Any]:
    return {
        "control": each.control,
        "measure": each.name,
        "A": each.first,
        "B": each.second,
        "difference": each.difference.value,
        "low": each.difference.low,
        "high": each.difference.high,
        "interval_over": each.over,
        "documents": each.documents,
        "models": each.models,
        "better": each.better,
    }


def _told(each: Contrast) -> dict[str, Any]:
    odds = each.odds_ratio if each.test == MCNEMAR else None
    return {
        "A": each.first,
        "B": each.second,
        "difference": each.difference.value,
        "low": each.difference.low,
        "high": each.difference.high,
        "n": each.difference.n,
        "unit": each.measure.unit,
        "better": each.measure.better,
        "test": each.test,
        "units": each.units,
        "p": each.p,
        "p_adjusted": each.adjusted,
        "d_z": each.effect if each.test == T_TEST else None,
        "gained": each.gained,
        "lost": each.lost,
        "odds_ratio": None if odds is None or math.isinf(odds) else odds,
        "detectable": each.detectable,
        "differs": each.differs,
    }
