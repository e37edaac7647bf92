"""The command ``diff``: why two runs are different ones. Neither metrics nor plugins are needed for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import click

from edit_harness.folder.folder import RunFolder
from edit_harness.folder.manifest import Identity, Manifest, Segment
from edit_harness.folder.manifest import as_json as as_mapping
from edit_harness.run.results import Results
from edit_harness_plugins.command_line import as_json, debug

from ..report.formats import Cell, Grid, Row
from . import show
from .pairing import Pair, distance, paired, same_content

SHOWN = 10
"""Cases that are listed, the worst first."""
DIGEST, SHORT = 64, 12
"""Characters of a SHA-256, and how many of them are shown."""
ABSENT = "–"


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


@click.command()
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@as_json
@debug
def diff(first: str, second: str, as_json: bool, debug: bool) -> None:
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
    show(data, *same, *grids(found), *remarks(found), as_json=as_json)


def difference(one: Results, two: Results) -> Difference:
    """Return what is not the same in two runs."""
    identity = identities(one.manifest.identity, two.manifest.identity)
    pairs = paired(one.records, two.records)
    shared = [pair for pair in pairs if same_content(one, two, pair[0].case)]
    cases = {record.case for run in (one, two) for record in run.records}
    rows = [{r.visit: {**vars(r), "seconds": None} for r in run.everything} for run in (one, two)]
    return Difference(
        identity,
        list(changes(_besides(one.manifest), _besides(two.manifest))),
        shared,
        len(cases) - len(shared),
        same=not identity and rows[0] == rows[1],
    )


def _besides(said: Manifest) -> dict[str, Any]:
    return {
        "judged_by": said.judged_by and as_mapping(said.judged_by),
        "environment": environment_of(said.segments),
        "cases": len(said.cases),
    }


def identities(one: Identity, two: Identity) -> list[Change]:
    """Return in what the identities of two runs differ, an editor's fields at the end."""
    both = [{**as_mapping(each), "code": dict(each.code)} for each in (one, two)]
    return sorted(changes(both[0], both[1]), key=lambda change: ".fields." in change.field)


def changes(one: Any, two: Any, name: str = "") -> Iterator[Change]:
    """Yield the fields, by their path, that differ."""
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        for key in dict.fromkeys([*one, *two]):
            path = f"{name}.{key}" if name else str(key)
            yield from changes(one.get(key, ABSENT), two.get(key, ABSENT), path)
    elif one != two:
        yield Change(name, one, two)


def short(value: Any) -> str:
    """Return a value as a table shows it, a digest by its first characters."""
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


def remarks(found: Difference) -> Iterator[tuple[str, str]]:
    """Yield what the tables do not say."""
    if found.same:
        return
    if not found.identity:
        yield "note", "equal fingerprints: one kind of run, made twice"
    if found.apart:
        yield (
            "note",
            f"{found.apart} cases are in one run alone, or ask something else in the other",
        )
    if found.cases:
        yield "changes", "log-probabilities after the edit, in nats"
    elif found.shared:
        yield "note", f"all {len(found.shared)} cases that both have have the same answers"
