"""The papers' tables, filled from runs: models and editors as rows, the unedited model first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, NamedTuple

from edit_harness.run.report import MeasureRow
from edit_harness.run.results import Results
from edit_harness.stats import Estimate

from .facts import caption, carried, facts, grouped, labels, shared_caveats
from .formats import Cell, Grid, Mark
from .layouts import numbers, shown_estimate, spread
from .papers import EVERYTHING, FALLS, PRINTED, WHOLE, Part, Printed, Subsets, named, sheets

UNEDITED = "unedited"
ALWAYS = ("Model", "Editor")
SHARED = ("Task", "Data", "Run", "Weights", "Tokenizer")
"""What does not tell rows apart, or its model's name does."""


class Column(NamedTuple):
    """A column of a table: what its head is, and which number it has."""

    head: str
    measure: str
    parts: tuple[Part, ...] = (WHOLE,)
    """One part of the cases, or those over which falls are counted."""


@dataclass(frozen=True)
class Number:
    """What stands in a cell, and what it is of."""

    cell: Cell
    estimate: Estimate
    better: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    cases: frozenset[str] = frozenset()
    """The cases of the run that it is of."""


class Row(NamedTuple):
    """The row of a model and an editor, or of the model alone."""

    names: tuple[str, ...]
    numbers: Sequence[Number | None]


def printed(runs: Sequence[Results]) -> tuple[list[Grid], list[str]]:
    """Return the papers' tables that runs have numbers for, and a line for each other one."""
    every, grids, missing = [Subsets(run) for run in runs], [], []
    for table in PRINTED:
        found = list(filled(table, every))
        grids += found
        missing += [] if found else [f"{table.name}: {_lacking(table, every)}"]
    return grids, missing


def _lacking(table: Printed, every: Sequence[Subsets]) -> str:
    """Say what keeps a table from being printed: a measure, a tag, or enough cases for its tests."""
    what = ", ".join(dict.fromkeys(table.measures.values()))
    having = [e for e in every if e.task in table.tasks and what in e.run.measures]
    if not table.groups or not having:
        tasks = " or ".join(
            task for task in table.tasks if " " not in task
        )  # of other contexts too
        return f"no run of {tasks} has {what}"
    if not _groups(table, having):
        return f"nobody in the prompts has the tag {' or '.join(table.groups)}"
    if lacking := [tag for tag in f"{table.split} {table.by}".split() if not _values(having, tag)]:
        return f"no case has the tag {' or '.join(lacking)}"
    return "too few cases: a test takes 2 at least, of one edited property and group of people"


def filled(table: Printed, every: Sequence[Subsets]) -> Iterator[Grid]:
    """Yield a table for each sheet of runs that have any of its numbers."""
    asked = set(table.measures.values())
    for some in sheets(table, every):
        having = [each for each in some if asked & each.run.measures.keys()]
        if table.groups and not _groups(table, having):
            continue
        blocks = [(value, list(_rows(table, having, value))) for value in _splits(table, having)]
        blocks = [(value, rows) for value, rows in blocks if any(any(row.numbers) for row in rows)]
        if blocks:
            yield _grid(table, having, blocks)


def estimate(
    table: Printed, each: Subsets, split: str, head: str, *, before: bool = False
) -> Estimate | None:
    """Return a run's number under a head of a table, in the rows of a value that splits them.

    ``before`` is of the unedited model. None if the run has none.
    """
    columns = _columns(table, [each], split) if each.run.records else []
    column = next((column for column in columns if head in (column.head, column.measure)), None)
    if column is None or (table.split == "task" and each.task != split):
        return None
    found = _unedited(each, column) if before else _read(table, each, column)
    return found.estimate if found else None


def _splits(table: Printed, some: Sequence[Subsets]) -> list[str]:
    if table.split == "task":
        return [task for task in table.tasks if task in {each.task for each in some}]
    return _values(some, table.split) if table.split else [""]


def _values(some: Sequence[Subsets], tag: str) -> list[str]:
    return sorted({value for each in some for value in each.values(tag)})


def _groups(table: Printed, some: Sequence[Subsets]) -> list[str]:
    (measure,) = set(table.measures.values())
    kinds = ({g for each in some for g in each.groups(measure, kind)} for kind in table.groups)
    return [group for kind in kinds for group in sorted(kind)]


def _columns(table: Printed, some: Sequence[Subsets], split: str) -> list[Column]:
    whole = Part(table.split, split) if split and table.split != "task" else WHOLE
    if not table.by and not table.groups:
        return [Column(head, name, (whole,)) for head, name in table.measures.items()]
    (measure,) = table.measures.values()
    groups = _groups(table, some)
    values = _values(some, table.by) if table.by else []
    if table.value == "falls":
        # Counted over the groups for each value, or over the values for each group.
        every = tuple(Part(table.by, value, group) for value in values for group in groups)
        heads = values if table.over == "groups" else groups
        parts = {h: tuple(p for p in every if h in (p.value, p.group)) for h in heads}
    else:
        every = (whole,)
        parts = {value: (Part(table.by, value),) for value in values}
        parts = parts or {group: (replace(whole, group=group),) for group in groups}
    columns = [Column(named(head), measure, own) for head, own in parts.items()]
    return [*columns, Column(EVERYTHING, measure, every)]


def _rows(table: Printed, some: Sequence[Subsets], split: str) -> Iterator[Row]:
    here = [each for each in some if table.split != "task" or each.task == split]
    columns = _columns(table, some, split)
    edited = [each for each in here if not each.unedited]
    heads, names = labels([each.run for each in edited], ALWAYS) if edited else ([], [])
    kept = [head not in ("Model", *SHARED) for head in heads]
    editors = {e: tuple(compress(label, kept)) for e, label in zip(edited, names, strict=True)}
    models = grouped(here, lambda each: each.run.manifest.identity.model)
    told = [facts(own[0].run) for own in models]
    known = Counter(own["Model"] for own in told)
    for facts_of, own in zip(told, models, strict=True):
        # Models of one name have their weights' digests behind it.
        name = facts_of["Model"]
        name = name if known[name] == 1 else f"{name} {facts_of['Weights']}"
        if table.value == "after":
            before = [[_unedited(each, column) for each in own] for column in columns]
            yield Row((name, UNEDITED), list(map(_largest, before)))
        of_editors = grouped([each for each in own if each in editors], lambda each: editors[each])
        rows = []
        for runs in of_editors:
            # The run that most columns have, then that of most cases.
            found = [[_read(table, each, column) for column in columns] for each in runs]
            best = max(
                found, key=lambda row: (sum(map(bool, row)), sum(n.estimate.n for n in row if n))
            )
            rows.append(Row((name, *editors[runs[0]]), best))
        yield from marked(rows)


def marked(rows: Sequence[Row]) -> list[Row]:
    """Return rows with the best number of each column marked, and the second, among the same cases."""
    columns = [_marked(column) for column in zip(*(row.numbers for row in rows), strict=True)]
    numbers = zip(*columns, strict=True)
    return [Row(row.names, own) for row, own in zip(rows, numbers, strict=True)]


def _marked(column: Sequence[Number | None]) -> list[Number | None]:
    found: dict[tuple[frozenset[str], str], Mark] = {}
    rivals = [number for number in column if number and number.better]
    rivals.sort(key=lambda n: n.estimate.value * (1 if n.better == "lower" else -1))
    for same in grouped(rivals, lambda n: n.cases):
        order = list(dict.fromkeys((n.cases, n.cell.text) for n in same))
        if len(order) > 1:
            found |= {order[0]: "best", order[1]: "second"}
    return [
        n and replace(n, cell=replace(n.cell, mark=found.get((n.cases, n.cell.text), "")))
        for n in column
    ]


def _largest(found: Sequence[Number | None]) -> Number | None:
    """Return the number of most cases; of those the same whatever the order of the runs."""
    there = filter(None, found)
    return max(there, key=lambda number: (number.estimate.n, repr(number.data)), default=None)


def _unedited(each: Subsets, column: Column) -> Number | None:
    (part,) = column.parts
    found = each.estimate("before", column.measure, part)
    if found is None and each.unedited:
        found = each.estimate("after", column.measure, part)
    return _number(each, column, found, "before") if found else None


def _read(table: Printed, each: Subsets, column: Column) -> Number | None:
    if column.measure not in each.run.measures:
        return None
    if table.value == "falls":
        count = each.falls(column.measure, column.parts)
        data = {**_of(each, column, "falls"), "estimate": count.value, "n": count.n}
        cell = Cell(f"{count.value:g}", f"of {count.n}")
        count = replace(count, n=len(each.run.records))
        return Number(cell, count, "lower", data, each.cases) if data["n"] else None
    found = each.estimate(table.value, column.measure, *column.parts)
    number = _number(each, column, found, table.value) if found else None
    return number if not number or table.ranked else replace(number, better="")


def _number(each: Subsets, column: Column, estimate: Estimate, when: str) -> Number:
    measure = each.run.measures[column.measure]
    line = MeasureRow(column.measure, measure, None, estimate, floor=each.run.floor)
    data = {**_of(each, column, when), **numbers(estimate, line)}
    return Number(shown_estimate(estimate, line), estimate, measure.better, data, each.cases)


def _of(each: Subsets, column: Column, when: str) -> dict[str, Any]:
    head = column.head or column.measure
    return {"column": head, "measure": column.measure, **carried(each.run), "when": when}


def _grid(
    table: Printed, some: Sequence[Subsets], blocks: Sequence[tuple[str, Sequence[Row]]]
) -> Grid:
    every = [row for _, rows in blocks for row in rows]
    columns = _columns(table, some, blocks[0][0])
    edited = [each.run for each in some if not each.unedited]
    heads = labels(edited, ALWAYS)[0] if edited else ALWAYS
    heads = [head for head in heads if head not in SHARED]
    if table.split:
        heads = ["Editing" if table.split == "task" else "Edited", *heads]
    there = [any(row.numbers[i] for row in every) for i in range(len(columns))]
    rows, data = [], []
    for value, block in blocks:
        told = [table.tasks.get(value, named(value))] if table.split else []
        for row in block:
            names = [*told, *row.names]
            own = {"table": table.name, "row": ", ".join(filter(None, names))}
            data += [{**own, **n.data} for n in row.numbers if n]
            names += [""] * (len(heads) - len(names))
            ns = spread([number.estimate.n for number in row.numbers if number])
            cells = [n.cell if n else Cell("–") for n in compress(row.numbers, there)]
            rows.append((names, [*cells, Cell(ns)]))
    shown = [column.head or column.measure for column in compress(columns, there)]
    title = f"{table.shows[:1].upper()}{table.shows[1:]} (as in {table.name})"
    return Grid(title, heads, [*shown, "n"], rows, list(_notes(table, some, every)), data)


def _notes(table: Printed, some: Sequence[Subsets], rows: Sequence[Row]) -> Iterator[str]:
    runs = [each.run for each in some]
    edited = [each for each in some if not each.unedited]
    counts = [n.estimate.n for row in rows for n in row.numbers if n]
    by_row = " by row" if len(set(counts)) > 1 else ""
    yield f"{caption([each.run for each in edited] or runs, data=True)}, n = {spread(counts)}{by_row}"
    if len({each.cases for each in edited}) > 1:
        yield "the best are marked among rows of the same cases alone"
    if table.value == "falls":
        yield f"of so many tests over cases that can be made; p < {FALLS}, not corrected"
    if (table.split or table.by) and any(run.regime.mode == "batch" for run in runs):
        yield "where one batch has all cases of a number, it says nothing of other batches"
    yield from shared_caveats(runs)
