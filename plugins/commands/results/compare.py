"""The command ``compare``: whether two runs differ, by `.pairing`'s tests; and why they are two."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import click
from msgspec import structs

from edit_harness.errors import UsageError
from edit_harness.folder.folder import RunFolder
from edit_harness.folder.manifest import Identity, Segment
from edit_harness.folder.manifest import as_json as as_mapping
from edit_harness.registry.registry import Plugins
from edit_harness.run import report
from edit_harness.run.estimates import LEVEL
from edit_harness.run.report import MeasureRow
from edit_harness.run.results import Results
from edit_harness_plugins import pairing as tests
from edit_harness_plugins.command_line import as_json, command, many, with_plugins
from edit_harness_plugins.pairing import Contrast, Pair, Pairing, distance, paired, same_content
from edit_harness_plugins.reading import reread

from ..report import facts, layouts
from ..report.formats import Cell, Grid, Row
from . import show

UNEQUAL = ("Task", "Version", "Model", "Weights", "Tokenizer", "Mode", "Judge", "Seed")
"""What readers are told of if it differs; precisions must not."""
SHOWN = 10
"""Cases that are listed, the worst first."""
DIGEST, SHORT = 64, 12
"""Characters of a SHA-256, and how many of them are shown."""
HEADS = ("A", "B", "B − A", f"{LEVEL:.0%} CI", "p (BH)", "effect")


@command()
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@many("--metrics", metavar="NAME", help="Instead of those that both runs have.")
@click.option("--why", is_flag=True,
              help="Say in what settings, code and cases they differ, instead of testing.")  # fmt: skip
@as_json
@with_plugins
def compare(
    plugins: Plugins,
    first: str,
    second: str,
    metrics: Sequence[str],
    why: bool,
    as_json: bool,
) -> None:
    """Test whether two runs differ, case by case, in what both measured."""
    if why:
        explain(first, second, as_json)
        return
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
    notes = list(warnings(pairing, contrasts))
    data = as_data(pairing, contrasts, [text for _, text in notes])
    told = [*remarks(pairing, contrasts), *notes]
    show(data, *headings(pairing), grid(contrasts), *told, as_json=as_json)


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


def grid(contrasts: Sequence[Contrast]) -> Grid:
    """Return the table of measures, without details."""
    rows = [
        ([layouts.directed(each.name, each.measure.better)], cells(each))
        for each in contrasts
        if not each.measure.detail
    ]
    title = f"{layouts.spread([e.difference.n for e in contrasts])} cases that both measured"
    return Grid(title, ["Metric"], [*HEADS, "n"], rows)


def cells(each: Contrast) -> list[Cell]:
    """Return a measure's numbers as they are printed."""
    line = MeasureRow(each.name, each.measure, None, None)
    first, second, change = (
        report.number(value, line) for value in (each.first, each.second, each.difference.value)
    )
    if each.difference.value > 0:
        change = f"+{change}"
    p = "–" if each.adjusted is None else f"{each.adjusted:.2g}"
    p = "< 1e-4" if each.adjusted is not None and each.adjusted < 1e-4 else p
    effect = "–" if each.effect is None else f"{each.effect:.2f}"
    effect = f"+{each.gained} −{each.lost}" if each.test == tests.MCNEMAR else effect
    rest = [layouts.bounds(each.difference, line) or "–", p, effect, str(each.difference.n)]
    marked = Cell(change, mark="best" if each.differs else "")
    return [Cell(first), Cell(second), marked, *map(Cell, rest)]


def remarks(pairing: Pairing, contrasts: Sequence[Contrast]) -> Iterator[tuple[str, str]]:
    """Yield what a reader of the table has to know: what differs, what columns mean, what was left out."""
    found = ", ".join(e.name for e in contrasts if e.differs and not e.measure.detail)
    yield "differs", found or f"nothing, at {tests.ALPHA:.0%}"
    yield "effect", "cases gained and lost of 0/1 values (McNemar), else Cohen's d_z (paired t)"
    yield "CI", "each interval is of one measure, and not corrected for their number as p is"
    for text, count in pairing.left_out.items():
        yield "left out", f"{count} cases {text}"


def warnings(pairing: Pairing, contrasts: Sequence[Contrast]) -> Iterator[tuple[str, str]]:
    """Yield what may make the runs differ besides what they are meant to differ in."""
    one, two = (facts.facts(run) for run in (pairing.first, pairing.second))
    for head in UNEQUAL:
        if one[head] != two[head]:
            yield "note", f"another {head.lower()}: {one[head]} in A, {two[head]} in B"
    for label, run in (("A", pairing.first), ("B", pairing.second)):
        if run.manifest.shard:
            yield "note", f"{label} is shard {run.manifest.shard} of a run: merge joins the shards"
        if failed := facts.failed(run):
            yield "failed", f"{label}: {failed}"
    if pairing.clusters is not None:
        units = sorted({each.units for each in contrasts})
        counts = " to ".join(map(str, dict.fromkeys((units[0], units[-1]))))
        yield "note", f"tests and intervals are over {counts} batches, since a batch is one edit"
    elif covers := [run.covers for run in (pairing.first, pairing.second) if run.covers]:
        yield "note", covers[0]


def as_data(
    pairing: Pairing, contrasts: Sequence[Contrast], notes: Sequence[str]
) -> dict[str, Any]:
    """Return everything unrounded, JSON-ready but for what is not finite."""
    sides = (("A", pairing.first), ("B", pairing.second))
    return {
        **{side: {"path": str(run.folder.path), **facts.facts(run)} for side, run in sides},
        "cases": len(pairing.records),
        "left_out": dict(pairing.left_out),
        "level": LEVEL,
        "measures": {
            e.name: {
                "A": e.first, "B": e.second, "difference": e.difference.value,
                "low": e.difference.low, "high": e.difference.high, "n": e.difference.n,
                "unit": e.measure.unit, "better": e.measure.better,
                "test": e.test, "units": e.units, "p": e.p, "p_adjusted": e.adjusted,
                "d_z": e.effect if e.test == tests.T_TEST else None,
                "gained": e.gained, "lost": e.lost, "differs": e.differs,
            }
            for e in contrasts
        },
        "notes": notes,
    }  # fmt: skip


class Change(NamedTuple):
    """A setting that two runs have otherwise, or a part of one."""

    field: str
    first: Any
    second: Any


@dataclass(frozen=True)
class Difference:
    """What is not the same in two runs."""

    identity: list[Change]
    """What makes them two runs: the parts of the fingerprint."""
    environment: list[Change]
    """What is recorded besides."""
    shared: list[Pair]
    """The final records of the cases that both have, with the same content."""
    apart: int
    """How many cases are in one run alone, or have another content."""
    same: bool
    """Whether they are one run: equal fingerprints and equal rows, but for seconds."""

    @property
    def cases(self) -> list[Pair]:
        """What came out otherwise of the cases that both have: statuses, and answers after the edit."""
        return [(a, b) for a, b in self.shared if (a.status, a.after) != (b.status, b.after)]


def explain(first: str, second: str, as_json: bool) -> None:
    """Say why two runs are different ones: settings, code, data, and which cases came out otherwise."""
    one, two = (Results.read(RunFolder.at(name), {}) for name in (first, second))
    found = difference(one, two)
    data = {
        "same": found.same,
        "A": str(one.folder.path),
        "B": str(two.folder.path),
        "identity": [change._asdict() for change in found.identity],
        "environment": [change._asdict() for change in found.environment],
        "shared": len(found.shared),
        "apart": found.apart,
        "cases": [pair[0].case for pair in found.cases],
    }
    same = ["the same run: equal fingerprints and equal rows"] if found.same else []
    show(data, *same, *grids(found), *differences(found), as_json=as_json)


def difference(one: Results, two: Results) -> Difference:
    """Return what is not the same in two runs."""
    identity = identities(one.manifest.identity, two.manifest.identity)
    pairs = paired(one.records, two.records)
    shared = [pair for pair in pairs if same_content(one, two, pair[0].case)]
    cases = {record.case for run in (one, two) for record in run.records}
    rows = [
        {r.visit: {**structs.asdict(r), "seconds": None} for r in run.everything}
        for run in (one, two)
    ]
    besides = [
        {
            "judged_by": run.manifest.judged_by and as_mapping(run.manifest.judged_by),
            "environment": environment_of(run.manifest.segments),
            "cases": len(run.manifest.cases),
        }
        for run in (one, two)
    ]
    return Difference(
        identity,
        list(changes(besides[0], besides[1])),
        shared,
        len(cases) - len(shared),
        same=not identity and rows[0] == rows[1],
    )


def identities(one: Identity, two: Identity) -> list[Change]:
    """Return in what the identities of two runs differ, an editor's fields at the end."""
    both = [{**as_mapping(each), "code": dict(each.code)} for each in (one, two)]
    return sorted(changes(both[0], both[1]), key=lambda change: ".fields." in change.field)


def changes(one: Any, two: Any, name: str = "") -> Iterator[Change]:
    """Yield the fields, by their path, that differ."""
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        for key in dict.fromkeys([*one, *two]):
            path = f"{name}.{key}" if name else str(key)
            yield from changes(one.get(key), two.get(key), path)
    elif one != two:
        yield Change(name, one, two)


def short(value: Any) -> str:
    """Return a value as a table shows it, a digest by its first characters."""
    if value is None:
        return "–"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[:SHORT] if len(text) == DIGEST and text.isalnum() else text


def environment_of(segments: Sequence[Segment]) -> dict[str, str]:
    """Return what a run was made with, each value by its name; several where that has changed."""
    found: dict[str, dict[str, None]] = {}
    for segment in segments:
        for name, value in segment.environment.items():
            found.setdefault(name, {})[value] = None
    return {name: ", ".join(each) for name, each in found.items()}


def grids(found: Difference) -> Iterator[Grid]:
    """Yield the tables: of settings, and of the cases that came out otherwise."""
    for title, some in (
        ("what makes them different runs", found.identity),
        ("recorded, and no part of the fingerprint", found.environment),
    ):
        if some:
            fields: list[Row] = [([c.field, short(c.first), short(c.second)], []) for c in some]
            yield Grid(title, ["Field", "A", "B"], [], fields)
    if found.cases:
        title = f"cases that came out otherwise: {len(found.cases)} of {len(found.shared)}"
        rows = [([a.case, a.status, b.status], distance(a.after, b.after)) for a, b in found.cases]
        rows.sort(key=lambda row: (row[0][1] == row[0][2], -row[1]))
        shown: list[Row] = [(names, [Cell(f"{far:.3g}")]) for names, far in rows[:SHOWN]]
        yield Grid(f"{title}, worst first", ["Case", "A", "B"], ["Largest change"], shown)


def differences(found: Difference) -> Iterator[tuple[str, str]]:
    """Yield what the tables do not say."""
    if found.same:
        return
    if not found.identity:
        yield "note", "equal fingerprints: one kind of run, made twice"
    if found.apart:
        text = f"{found.apart} cases are in one run alone, or ask something else in the other"
        yield "note", text
    if found.cases:
        yield "changes", "log-probabilities after the edit, in nats"
    elif found.shared:
        yield "note", f"all {len(found.shared)} cases that both have have the same answers"
