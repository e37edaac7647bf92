"""The command ``compare``: whether two runs differ, measure by measure, over the same cases.

How runs are paired and tested stands in `.pairing`; why two runs are different ones says `.diff`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

from edit_harness.errors import UsageError
from edit_harness.folder.folder import RunFolder
from edit_harness.registry.registry import Plugins
from edit_harness.run import report
from edit_harness.run.estimates import LEVEL
from edit_harness.run.report import DIRECTION, MeasureRow
from edit_harness.run.results import reread
from edit_harness.shell.options import as_json, debug, many, with_plugins

from ..report import facts, layouts
from ..report.formats import Cell, Grid
from . import show
from .pairing import ALPHA, MCNEMAR, POWER, T_TEST, Contrast, Pairing, Versus

UNEQUAL = ("Task", "Version", "Model", "Weights", "Tokenizer", "Mode", "Judge", "Seed")
"""What readers are told of if it differs; precisions must not."""
HEADS = ("A", "B", "B − A", f"{LEVEL:.0%} CI")


@click.command()
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@many("--metrics", metavar="NAME", help="Instead of those that both runs have.")
@as_json
@debug
@with_plugins
def compare(
    plugins: Plugins, first: str, second: str, metrics: Sequence[str], as_json: bool, debug: bool
) -> None:
    """Test whether two runs differ, case by case, in what both measured."""
    pairing = paired_runs(plugins, first, second, metrics)
    contrasts = pairing.contrasts
    if not contrasts:
        for name, run in ((first, pairing.first), (second, pairing.second)):
            if len(run.failures) == len(run.records):
                raise UsageError(f"every case of {name} failed, so that nothing was measured")
        raise UsageError(
            f"{first} and {second} have no measure in common",
            "name metrics that fit the cases of both: --metrics NAME",
        )
    notes = [*remarks(pairing, contrasts), *warnings(pairing, contrasts)]
    grids = [grid(pairing, contrasts), *controls(pairing.versus)]
    show(as_data(pairing, contrasts), *headings(pairing), *grids, *notes, as_json=as_json)


def paired_runs(plugins: Plugins, first: str, second: str, metrics: Sequence[str]) -> Pairing:
    """Read two runs, and pair their cases. Raises `UsageError` if nothing can be compared."""
    if not metrics:
        one, two = (RunFolder.at(name).planned().metrics for name in (first, second))
        metrics = [name for name in one if name in two]
        if not metrics:
            raise UsageError(
                f"{first} and {second} have no metric in common", "name some: --metrics NAME"
            )
    pairing = Pairing(*(reread(plugins, name, metrics) for name in (first, second)))
    one, two = (facts.facts(run)["Precision"] for run in (pairing.first, pairing.second))
    if one != two:
        raise UsageError(
            f"{first} is in {one}, and {second} in {two}: a difference may be rounding",
            f"run both in one precision: --dtype {one}",
        )
    if not pairing.records:
        why = ", ".join(f"{n} {text}" for text, n in pairing.left_out.items())
        raise UsageError(
            f"{first} and {second} have no case in common{why and f': {why}'}",
            "compare runs of one task on the same data",
        )
    return pairing


def headings(pairing: Pairing) -> Iterator[tuple[str, str]]:
    """Yield what each run is."""
    for label, run in (("A", pairing.first), ("B", pairing.second)):
        own = facts.facts(run)
        text = f"{own['Editor']}  {own['Task']} {own['Version']}  {own['Model']} {own['Precision']}"
        yield label, f"{text}  {own['Mode']}  seed {own['Seed']}  run {own['Run']}"


def grid(pairing: Pairing, contrasts: Sequence[Contrast]) -> Grid:
    """Return the table of measures, without details."""
    counts = sorted({each.difference.n for each in contrasts})
    several = len(counts) > 1
    rows = [
        (
            [f"{each.name} {DIRECTION[each.measure.better]}".strip()],
            cells(pairing, each) + ([Cell(str(each.difference.n))] if several else []),
        )
        for each in contrasts
        if not each.measure.detail
    ]
    heads = [*HEADS, "p (BH)", "effect", "detects", *(["n"] if several else [])]
    title = f"{layouts.spread(counts)} cases that both measured"
    return Grid(title, ["Metric"], heads, rows)


def cells(pairing: Pairing, each: Contrast) -> list[Cell]:
    """Return a measure's numbers as they are printed."""
    line = MeasureRow(each.name, each.measure, None, None)
    change = report.number(each.difference.value, line)
    if each.difference.value > 0 and not change.startswith("<"):
        change = f"+{change}"
    if each.test == MCNEMAR:
        effect = f"+{each.gained} −{each.lost}"
    else:
        effect = "–" if each.effect is None else f"{each.effect:.2f}"
    p = "–" if each.adjusted is None else f"{each.adjusted:.2g}"
    return [
        Cell(report.number(each.first, line)),
        Cell(report.number(each.second, line)),
        Cell(change, mark="best" if each.differs else ""),
        Cell(layouts.bounds(each.difference, line) or "–"),
        Cell("< 1e-4" if each.adjusted is not None and each.adjusted < 1e-4 else p),
        Cell(effect),
        Cell("–" if each.detectable is None else report.number(each.detectable, line)),
    ]


def controls(found: Sequence[Versus]) -> Iterator[Grid]:
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
        title = "Changes of controls, after less before the edits"
        yield Grid(title, ["Control"], [*HEADS, "n"], rows)


def remarks(pairing: Pairing, contrasts: Sequence[Contrast]) -> Iterator[tuple[str, str]]:
    """Yield what a reader of the table has to know: what differs, what columns mean, what was left out."""
    if pairing.same_folder:
        yield "note", "A and B are one run folder: it is compared with itself"
    shown = [each for each in contrasts if not each.measure.detail]
    yield "differs", names(shown, lambda each: each.differs) or f"nothing, at {ALPHA:.0%}"
    rest = [each for each in shown if not each.differs and not each.alike]
    alike = [each for each in shown if each.alike]
    for label, found, text in (
        ("not told", names(rest, lambda each: each.detectable is not None),
         "smaller differences than in detects may be missed"),
        ("too few", names(rest, lambda each: each.detectable is None),
         "of so few, no difference that there can be would be found"),
        ("equal", names(alike, lambda each: not each.difference.value),
         "no case, or no batch on average, differs"),
        ("constant", names(alike, lambda each: bool(each.difference.value)),
         "every case, or batch, differs by as much: p is of the sign test"),
    ):  # fmt: skip
        if found:
            yield label, f"{found}: {text}"
    detects = f"the least difference that is found with a power of {POWER:.0%} at {ALPHA:.0%}"
    yield "detects", f"{detects}, uncorrected"
    yield "effect", "cases gained and lost of 0/1 values (McNemar), else Cohen's d_z (paired t)"
    yield "CI", "each interval is of one measure, and not corrected for their number as p is"
    if pairing.first.effects and pairing.second.effects and not pairing.versus:
        yield "controls", "not compared: models, modes, cases or documents are not the same"
    for text, count in pairing.left_out.items():
        yield "left out", f"{count} cases {text}"


def names(contrasts: Sequence[Contrast], which: Callable[[Contrast], bool]) -> str:
    """Return the names of some measures."""
    return ", ".join(each.name for each in contrasts if which(each))


def warnings(pairing: Pairing, contrasts: Sequence[Contrast]) -> Iterator[tuple[str, str]]:
    """Yield what may make the runs differ besides what they are meant to differ in."""
    one, two = (facts.facts(run) for run in (pairing.first, pairing.second))
    for head in UNEQUAL:
        if one[head] != two[head]:
            yield "note", f"another {head.lower()}: {one[head]} in A, {two[head]} in B"
    for label, run in (("A", pairing.first), ("B", pairing.second)):
        if run.shard:
            yield "note", f"{label} is shard {run.shard} of a run: merge joins the shards"
        if failed := facts.failed(run):
            yield "failed", f"{label}: {failed}"
    if pairing.clusters is not None:
        units = sorted({each.units for each in contrasts})
        counts = " to ".join(map(str, dict.fromkeys((units[0], units[-1]))))
        yield "note", f"tests and intervals are over {counts} batches, since a batch is one edit"
    elif covers := [run.covers for run in (pairing.first, pairing.second) if run.covers]:
        yield "note", covers[0]


def as_data(pairing: Pairing, contrasts: Sequence[Contrast]) -> dict[str, Any]:
    """Return everything unrounded, JSON-ready but for what is not finite."""
    first, second = (
        {"path": str(run.folder.path), **facts.facts(run)}
        for run in (pairing.first, pairing.second)
    )
    return {
        "A": first,
        "B": second,
        "same_folder": pairing.same_folder,
        "cases": len(pairing.records),
        "left_out": dict(pairing.left_out),
        "level": LEVEL,
        "power": POWER,
        "measures": {each.name: _measure(each) for each in contrasts},
        "controls": [
            {
                "control": each.control,
                "measure": each.name,
                **_sides(each),
                "interval_over": each.over,
                "documents": each.documents,
                "models": each.models,
                "better": each.better,
            }
            for each in pairing.versus
        ],
        "notes": [text for _, text in warnings(pairing, contrasts)],
    }


def _sides(each: Contrast | Versus) -> dict[str, float]:
    return {
        "A": each.first,
        "B": each.second,
        "difference": each.difference.value,
        "low": each.difference.low,
        "high": each.difference.high,
    }


def _measure(each: Contrast) -> dict[str, Any]:
    return {
        **_sides(each),
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
        "odds_ratio": each.gained / each.lost if each.gained is not None and each.lost else None,
        "detectable": each.detectable,
        "differs": each.differs,
    }
