"""The papers' tables, filled from runs: models and editors as rows, the unedited model first.

`papers` says what the tables are. The unedited row is of what runs measured before their edits, and
of the editor that does nothing where nothing is measured before. Among the editors of a model the
best number of each column is marked, and the second.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, NamedTuple

from edit_harness.interfaces import Measure
from edit_harness.run.report import MeasureRow
from edit_harness.run.results import Results
from edit_harness.stats import Estimate

from .facts import caption, carried, facts, grouped, labels, shared_caveats
from .formats import Cell, Grid, Mark
from .layouts import numbers, shown_estimate, spread
from .papers import EVERYTHING, PRINTED, Printed, named, sheets
from .subsets import FALLS, WHOLE, Part, Subsets, unedited

UNEDITED = "unedited"
ALWAYS = ("Model", "Editor")
SHARED = ("Task", "Data", "Run", "Weights", "Tokenizer")
"""What the runs of one row may have otherwise, or its model's name tells."""


@dataclass(frozen=True)
class Column:
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


@dataclass(frozen=True, eq=False)
class Filled:
    """A table with its numbers, all of one precision, one regime and one data."""

    table: Printed
    some: Sequence[Subsets]
    columns: Sequence[Column]
    blocks: Sequence[tuple[str, Sequence[Row]]]
    """The rows by the value that splits them."""

    @property
    def rows(self) -> list[Row]:
        """All rows."""
        return [row for _, rows in self.blocks for row in rows]

    @property
    def edited(self) -> list[Results]:
        """The runs that edited something."""
        return [each.run for each in self.some if not unedited(each.run)]

    @property
    def kind(self) -> str:
        """What tells it from the same table of other runs: data, precision, regime."""
        told = [facts(run) for run in self.edited or [each.run for each in self.some]]
        data = dict.fromkeys(f"{own['Task']} (data {own['Data']})" for own in told)
        return f"{' and '.join(data)}, {told[0]['Precision']}, {told[0]['Mode']}"


def printed(runs: Sequence[Results]) -> tuple[list[Grid], list[str]]:
    """Return the papers' tables that runs have numbers for, and a line for each other one."""
    every = [Subsets(run) for run in runs]
    found = {table.name: [_grid(each) for each in filled(table, every)] for table in PRINTED}
    missing = [f"{t.name}: {_wanting(t, every)}" for t in PRINTED if not found[t.name]]
    return [grid for grids in found.values() for grid in grids], missing


def _wanting(table: Printed, every: Sequence[Subsets]) -> str:
    names = f"no run of {' or '.join(table.tasks)}"
    if not any(each.task in table.tasks for each in every):
        return names
    by = f" by {' or '.join(table.groups)}" if table.groups else ""
    return f"{names} has {', '.join(dict.fromkeys(table.measures.values()))}{by}"


def filled(table: Printed, every: Sequence[Subsets]) -> Iterator[Filled]:
    """Yield a table for each sheet of runs that have any of its numbers."""
    for some in sheets(table, every):
        having = [each for each in some if any(map(each.measure, table.measures.values()))]
        if table.groups and not _groups(table, having):
            continue
        blocks = [(value, list(_rows(table, having, value))) for value in _splits(table, having)]
        blocks = [(value, rows) for value, rows in blocks if any(any(row.numbers) for row in rows)]
        if blocks:
            yield Filled(table, having, _columns(table, having, blocks[0][0]), blocks)


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
    found = _unedited([each], column) if before else _read(table, each, column)
    return found.estimate if found else None


def _splits(table: Printed, some: Sequence[Subsets]) -> list[str]:
    """Return the values that split the rows; one empty value if nothing does."""
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
    """Return the columns of a table, in rows that are split by a value."""
    whole = Part(table.split, split) if split and table.split != "task" else WHOLE
    if not table.by and not table.groups:
        return [Column(head, name, (whole,)) for head, name in table.measures.items()]
    (measure,) = table.measures.values()
    groups = _groups(table, some)
    values = _values(some, table.by) if table.by else []
    if table.value == "falls":
        # Counted over the groups for each value, or over the values for each group.
        every = [Part(table.by, value, group) for value in values for group in groups]
        heads = values if table.over == "groups" else groups
        counted = {h: tuple(p for p in every if h in (p.value, p.group)) for h in heads}
        columns = [Column(named(head), measure, parts) for head, parts in counted.items()]
        return [*columns, Column(EVERYTHING, measure, tuple(every))]
    parts = {named(value): Part(table.by, value) for value in values}
    parts = parts or {named(group): replace(whole, group=group) for group in groups}
    return [Column(head, measure, (part,)) for head, part in {**parts, EVERYTHING: whole}.items()]


def _rows(table: Printed, some: Sequence[Subsets], split: str) -> Iterator[Row]:
    """Yield the rows of each model: the unedited one, and its editors with the best marked."""
    here = [each for each in some if table.split != "task" or each.task == split]
    columns = _columns(table, some, split)
    edited = [each for each in here if not unedited(each.run)]
    heads, names = labels([each.run for each in edited], ALWAYS) if edited else ([], [])
    kept = [head not in ("Model", *SHARED) for head in heads]
    for model, own in _by_model(here).items():
        if table.unedited and table.value == "after":
            yield Row((model, UNEDITED), [_unedited(own, column) for column in columns])
        found: dict[tuple[str, ...], list[Subsets]] = {}
        for each, label in zip(edited, names, strict=True):
            if each in own:
                found.setdefault((model, *compress(label, kept)), []).append(each)
        yield from marked(
            [Row(key, _best_known(table, runs, columns)) for key, runs in found.items()]
        )


def _by_model(here: Sequence[Subsets]) -> dict[str, list[Subsets]]:
    """Return runs by their models' names; models of one name have their weights' digests behind it."""
    found = grouped(here, lambda each: each.run.manifest.identity.model)
    told = [facts(own[0].run) for own in found]
    names = Counter(own["Model"] for own in told)
    return {
        own["Model"] if names[own["Model"]] == 1 else f"{own['Model']} {own['Weights']}": some
        for own, some in zip(told, found, strict=True)
    }


def marked(rows: Sequence[Row]) -> list[Row]:
    """Return rows with the best number of each column marked, and the second.

    Numbers that are shown alike are ties. Only numbers of the same cases are ranked. Nothing is
    marked where all are alike, or no direction is the better one.
    """
    columns = [_marked(column) for column in zip(*(row.numbers for row in rows), strict=True)]
    return [
        Row(row.names, numbers)
        for row, numbers in zip(rows, zip(*columns, strict=True), strict=True)
    ]


def _marked(column: Sequence[Number | None]) -> list[Number | None]:
    found: dict[tuple[frozenset[str], str], Mark] = {}
    rivals = [number for number in column if number and number.better]
    rivals.sort(key=lambda n: n.estimate.value * (1 if n.better == "lower" else -1))
    for cases in {number.cases for number in rivals}:
        order = list(dict.fromkeys(n.cell.text for n in rivals if n.cases == cases))
        if len(order) > 1:
            found |= {(cases, order[0]): "best", (cases, order[1]): "second"}
    return [
        n and replace(n, cell=replace(n.cell, mark=found.get((n.cases, n.cell.text), "")))
        for n in column
    ]


def _unedited(own: Sequence[Subsets], column: Column) -> Number | None:
    """Return what was measured before edits, or after none, of most cases."""
    (part,) = column.parts
    found: list[Number | None] = []
    for each in own:
        after = each.after(column.measure, part) if unedited(each.run) else None
        if estimate := each.before(column.measure, part) or after:
            found.append(_number(each, column, estimate, "before"))
    return _largest(found)


def _best_known(
    table: Printed, runs: Sequence[Subsets], columns: Sequence[Column]
) -> list[Number | None]:
    """Return the numbers of an editor's runs: of those cases that most columns have, then of most cases.

    What these runs have not, others of the editor fill in; the column n tells.
    """
    by_cases: dict[frozenset[str], list[list[Number | None]]] = {}
    for each in runs:
        numbers = [_read(table, each, column) for column in columns]
        by_cases.setdefault(each.cases, []).append(numbers)
    groups = [
        [_largest(column) for column in zip(*rows, strict=True)] for rows in by_cases.values()
    ]
    main = max(groups, key=lambda row: (sum(map(bool, row)), sum(n.estimate.n for n in row if n)))
    others = [_largest(column) for column in zip(*groups, strict=True)]
    return [own or other for own, other in zip(main, others, strict=True)]


def _largest(found: Sequence[Number | None]) -> Number | None:
    """Return the number of most cases; of those the same whatever the order of the runs."""
    there = filter(None, found)
    return max(there, key=lambda number: (number.estimate.n, repr(number.data)), default=None)


def _read(table: Printed, each: Subsets, column: Column) -> Number | None:
    """Return a run's number of a column; None if it has none."""
    if each.measure(column.measure) is None:
        return None
    if table.value == "falls":
        return _fallen(each, column)
    (part,) = column.parts
    estimate = (each.change if table.value == "change" else each.after)(column.measure, part)
    if estimate is None:
        return None
    number = _number(each, column, estimate, table.value)
    return number if table.ranked else replace(number, better="")


def _fallen(each: Subsets, column: Column) -> Number | None:
    fallen, tested = each.falls(column.measure, column.parts)
    if not tested:
        return None
    data = {**_of(each, column, "falls"), "estimate": fallen, "n": tested}
    count = Estimate(fallen, math.nan, math.nan, len(each.run.records))
    return Number(Cell(str(fallen), f"of {tested}"), count, "lower", data, each.cases)


def _number(each: Subsets, column: Column, estimate: Estimate, when: str) -> Number:
    measure = each.measure(column.measure) or Measure("")
    line = MeasureRow(column.measure, measure, None, estimate, floor=each.run.floor)
    data = {**_of(each, column, when), **numbers(estimate, line)}
    return Number(shown_estimate(estimate, line), estimate, measure.better, data, each.cases)


def _of(each: Subsets, column: Column, when: str) -> dict[str, Any]:
    head = column.head or column.measure
    return {"column": head, "measure": column.measure, **carried(each.run), "when": when}


def _grid(found: Filled) -> Grid:
    table, every = found.table, found.rows
    heads = labels(found.edited, ALWAYS)[0] if found.edited else ALWAYS
    heads = [head for head in heads if head not in SHARED]
    if table.split:
        heads = ["Editing" if table.split == "task" else "Edited", *heads]
    there = [any(row.numbers[i] for row in every) for i in range(len(found.columns))]
    rows, data = [], []
    for value, block in found.blocks:
        told = [table.tasks.get(value, named(value))] if table.split else []
        for row in block:
            names = [*told, *row.names]
            names += [""] * (len(heads) - len(names))
            ns = spread([number.estimate.n for number in row.numbers if number])
            cells = [n.cell if n else Cell("–") for n in compress(row.numbers, there)]
            rows.append((names, [*cells, Cell(ns)]))
            own = {"table": table.name, "row": ", ".join(filter(None, names))}
            data += [{**own, **n.data} for n in row.numbers if n]
    shown = [column.head or column.measure for column in compress(found.columns, there)]
    title, notes = f"{table.name}: {table.shows}", list(_notes(found))
    return Grid(title, heads, [*shown, "n"], rows, notes, data)


def _notes(found: Filled) -> Iterator[str]:
    """Yield what a table is of, then what to know of its numbers."""
    table, some = found.table, found.some
    counts = [n.estimate.n for row in found.rows for n in row.numbers if n]
    by_row = " by row" if len(set(counts)) > 1 else ""
    runs = found.edited or [each.run for each in some]
    yield f"{caption(runs, data=True)}, n = {spread(counts)}{by_row}"
    if len({each.cases for each in some if not unedited(each.run)}) > 1:
        yield "the best are marked among rows of the same cases alone"
    if table.value == "falls":
        yield f"of so many tests over cases that can be made; p < {FALLS}, not corrected"
    if (table.split or table.by) and any(each.run.regime.mode == "batch" for each in some):
        yield "where one batch has all cases of a number, it says nothing of other batches"
    yield from shared_caveats([each.run for each in some])
