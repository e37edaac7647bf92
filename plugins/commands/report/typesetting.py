"""The papers' tables, filled from runs: models and editors as rows, the unedited model first.

What the tables are stands in `edit_harness_plugins.commands.report.papers`. The unedited row is of what runs measured before
their edits, and of the editor that does nothing where nothing is measured before. Among the editors
of a model the best number is marked, and the second: see `edit_harness_plugins.commands.report.ranking`. Which runs may share
a table stands in `edit_harness_plugins.commands.report.sheets`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

from edit_harness.folder.manifest import ModelId
from edit_harness.interfaces import Measure
from edit_harness.run.outcome import Run
from edit_harness.run.report import Line
from edit_harness.stats import Estimate

from . import layouts
from .formats import Cell, Grid
from .layouts import facts, numbers, shown_estimate, spread
from .papers import EVERYTHING, PRINTED, Printed, named
from .ranking import Number, Row, marked
from .sheets import sheets, task_of
from .subsets import FALLS, WHOLE, Part, Subsets

UNEDITED, DASH = "unedited", Cell("–")
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


@dataclass(frozen=True, eq=False)
class Filled:
    """A table with its numbers, all of one precision, one regime and one data."""

    table: Printed
    some: Sequence[Subsets]
    columns: Sequence[Column]
    blocks: Sequence[tuple[str, Sequence[Row]]]
    """The rows by the value that splits them."""

    @property
    def kind(self) -> str:
        """What tells it from the same table of other runs: data, precision, regime."""
        told = [facts(each.run) for each in self.some if not each.unedited]
        told = told or [facts(each.run) for each in self.some]
        data = dict.fromkeys(f"{own['Task']} (data {own['Data']})" for own in told)
        return f"{' and '.join(data)}, {told[0]['Precision']}, {told[0]['Mode']}"


def printed(runs: Sequence[Run]) -> tuple[list[Grid], list[str]]:
    """Return the papers' tables that runs have numbers for, and a line for each other one."""
    every = [Subsets(run) for run in runs]
    grids: list[Grid] = []
    missing: list[str] = []
    for table in PRINTED:
        found = [_grid(each) for each in filled(table, every)]
        grids += found
        if not found:
            missing.append(f"{table.name}: {_wanting(table, every)}")
    return grids, missing


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
    if column is None or (table.split == "task" and task_of(each) != split):
        return None
    found = _unedited([each], column) if before else _read(table, each, column)
    return found.estimate if found else None


def _wanting(table: Printed, every: Sequence[Subsets]) -> str:
    names = " or ".join(table.tasks)
    if not any(task_of(each) in table.tasks for each in every):
        return f"no run of {names}"
    wanted = ", ".join(dict.fromkeys(table.measures.values()))
    by = f" by {' or '.join(table.groups)}" if table.groups else ""
    return f"no run of {names} has {wanted}{by}"


def _splits(table: Printed, some: Sequence[Subsets]) -> list[str]:
    """Return the values that split the rows; one empty value if nothing does."""
    if table.split == "task":
        there = {task_of(each) for each in some}
        return [task for task in table.tasks if task in there]
    return _values(some, table.split) if table.split else [""]


def _values(some: Sequence[Subsets], tag: str) -> list[str]:
    return sorted({value for each in some for value in each.values(tag)})


def _groups(table: Printed, some: Sequence[Subsets]) -> list[str]:
    (measure,) = set(table.measures.values())
    return [
        group
        for kind in table.groups
        for group in sorted({g for each in some for g in each.groups(measure, kind)})
    ]


def _columns(table: Printed, some: Sequence[Subsets], split: str) -> list[Column]:
    """Return the columns of a table, in rows that are split by a value."""
    tag = "" if table.split == "task" or not split else table.split
    whole = Part(tag, split if tag else "")
    if not table.by and not table.groups:
        return [Column(head, name, (whole,)) for head, name in table.measures.items()]
    (measure,) = table.measures.values()
    groups = _groups(table, some)
    if table.value == "falls":
        return list(_counted(table, measure, _values(some, table.by), groups))
    spread_over = (
        [(named(value), Part(table.by, value)) for value in _values(some, table.by)]
        if table.by
        else [(named(group), replace(whole, group=group)) for group in groups]
    )
    columns = [Column(head, measure, (part,)) for head, part in spread_over]
    return [*columns, Column(EVERYTHING, measure, (whole,))]


def _counted(
    table: Printed, measure: str, values: Sequence[str], groups: Sequence[str]
) -> Iterator[Column]:
    """Yield the columns of counts: over the groups for each value, or over the values for each group."""
    every = [[Part(table.by, value, group) for group in groups] for value in values]
    turned = every if table.over == "groups" else [list(each) for each in zip(*every, strict=True)]
    heads = values if table.over == "groups" else groups
    for head, parts in zip(heads, turned, strict=True):
        yield Column(named(head), measure, tuple(parts))
    yield Column(EVERYTHING, measure, tuple(part for parts in every for part in parts))


def _rows(table: Printed, some: Sequence[Subsets], split: str) -> Iterator[Row]:
    """Yield the rows of each model: the unedited one, and its editors with the best marked."""
    here = [each for each in some if table.split != "task" or task_of(each) == split]
    columns = _columns(table, some, split)
    edited = [each for each in here if not each.unedited]
    heads, names = layouts.labels([each.run for each in edited], ALWAYS) if edited else ([], [])
    for model, own in _by_model(here).items():
        if table.unedited:
            yield Row((model, UNEDITED), [_unedited(own, column) for column in columns], False)
        found: dict[tuple[str, ...], list[Subsets]] = {}
        for each, label in zip(edited, names, strict=True):
            if each in own:
                told = dict(zip(heads, label, strict=True))
                key = [told[head] for head in heads if head not in ("Model", *SHARED)]
                found.setdefault((model, *key), []).append(each)
        rows = [Row(key, _best_known(table, runs, columns)) for key, runs in found.items()]
        yield from marked(rows)


def _by_model(here: Sequence[Subsets]) -> dict[str, list[Subsets]]:
    """Return runs by their models' names; models of one name have their weights' digests behind it."""
    found: dict[ModelId, list[Subsets]] = {}
    for each in here:
        found.setdefault(each.run.manifest.identity.model, []).append(each)
    told = [facts(own[0].run) for own in found.values()]
    names = Counter(own["Model"] for own in told)
    return {
        own["Model"] if names[own["Model"]] == 1 else f"{own['Model']} {own['Weights']}": some
        for own, some in zip(told, found.values(), strict=True)
    }


def _unedited(own: Sequence[Subsets], column: Column) -> Number | None:
    """Return what was measured before edits, or after none, of most cases."""
    (part,) = column.parts
    found = [
        (each, estimate)
        for each in own
        if (estimate := each.before(column.measure, part))
        or (each.unedited and (estimate := each.after(column.measure, part)))
    ]
    return _largest([_number(each, column, estimate, "before") for each, estimate in found])


def _best_known(
    table: Printed, runs: Sequence[Subsets], columns: Sequence[Column]
) -> list[Number | None]:
    """Return the numbers of an editor's runs: of those cases that most columns have, then of most cases.

    What these runs have not, others of the editor fill in; the column n tells.
    """
    read = [[_read(table, each, column) for column in columns] for each in runs]

    def of(own: Sequence[Sequence[Number | None]]) -> list[Number | None]:
        return [_largest(list(filter(None, column))) for column in zip(*own, strict=True)]

    groups = [
        of([row for each, row in zip(runs, read, strict=True) if each.cases == cases])
        for cases in dict.fromkeys(each.cases for each in runs)
    ]
    main = max(groups, key=lambda row: (sum(map(bool, row)), sum(n.estimate.n for n in row if n)))
    return [own or other for own, other in zip(main, of(read), strict=True)]


def _largest(found: Sequence[Number]) -> Number | None:
    """Return the number of most cases; of those the same whatever the order of the runs."""
    return max(found, key=lambda number: (number.estimate.n, repr(number.data)), default=None)


def _read(table: Printed, each: Subsets, column: Column) -> Number | None:
    """Return a run's number of a column; None if it has none."""
    if each.measure(column.measure) is None:
        return None
    if table.value == "falls":
        return _fallen(each, column)
    (part,) = column.parts
    read = each.change if table.value == "change" else each.after
    if (estimate := read(column.measure, part)) is None:
        return None
    number = _number(each, column, estimate, table.value)
    if not table.starred:
        return number
    return _starred(replace(number, better=number.better if table.ranked else ""), each, column)


def _fallen(each: Subsets, column: Column) -> Number | None:
    fallen, tested = each.falls(column.measure, column.parts)
    if not tested:
        return None
    data = (*_of(each, column), ("when", "falls"), ("estimate", fallen), ("n", tested))
    count = Estimate(fallen, math.nan, math.nan, len(each.run.records))
    return Number(Cell(str(fallen), f"of {tested}"), count, "lower", data, each.cases)


def _number(each: Subsets, column: Column, estimate: Estimate, when: str) -> Number:
    measure = each.measure(column.measure) or Measure("")
    line = Line(column.measure, measure, None, estimate, floor=each.run.floor)
    cell = shown_estimate(estimate, line)
    data = (*_of(each, column), ("when", when), *numbers(estimate, line).items())
    return Number(cell, estimate, measure.better, data, each.cases)


def _of(each: Subsets, column: Column) -> tuple[tuple[str, Any], ...]:
    own = layouts.carried(each.run)
    return (("column", column.head or column.measure), ("measure", column.measure), *own.items())


def _starred(number: Number, each: Subsets, column: Column) -> Number:
    """Return a number with a star if the test of its change over cases has p < 0.05."""
    p = each.test(column.measure, column.parts[0]).p
    if p is None or p >= FALLS:
        return number
    return replace(number, cell=replace(number.cell, text=f"{number.cell.text}*"))


def _grid(found: Filled) -> Grid:
    table, blocks = found.table, found.blocks
    there = [
        any(row.numbers[i] for _, rows in blocks for row in rows) for i in range(len(found.columns))
    ]
    heads = [*_split_head(table), *ALWAYS, *_extra(found.some)]
    rows, data = [], []
    for value, block in blocks:
        told = [table.tasks.get(value, named(value))] if table.split else []
        for row in block:
            names = [*told, *row.names]
            names += [""] * (len(heads) - len(names))
            ns = spread([number.estimate.n for number in row.numbers if number])
            cells = [number.cell if number else DASH for number in compress(row.numbers, there)]
            rows.append((names, [*cells, Cell(ns)]))
            own = {"table": table.name, "row": ", ".join(filter(None, names))}
            data += [{**own, **dict(n.data)} for n in row.numbers if n]
    shown = [column.head or column.measure for column in compress(found.columns, there)]
    notes = [_caption(found), *_remarks(table, found.some)]
    return Grid(f"{table.name}: {table.shows}", heads, [*shown, "n"], rows, notes, data)


def _caption(found: Filled) -> str:
    """Say what a table is of: task and data, model, regime, and how many cases its rows have."""
    edited = [each.run for each in found.some if not each.unedited]
    counts = [n.estimate.n for _, rows in found.blocks for row in rows for n in row.numbers if n]
    text = layouts.caption(edited or [each.run for each in found.some], data=True)
    by_row = " by row" if len(set(counts)) > 1 else ""
    return f"{text}, n = {spread(counts)}{by_row}"


def _split_head(table: Printed) -> list[str]:
    return [{"task": "Editing"}.get(table.split, "Edited")] if table.split else []


def _extra(some: Sequence[Subsets]) -> list[str]:
    heads, _ = layouts.labels(
        [each.run for each in some if not each.unedited] or [some[0].run], ALWAYS
    )
    return [head for head in heads[len(ALWAYS) :] if head not in SHARED]


def _remarks(table: Printed, some: Sequence[Subsets]) -> Iterator[str]:
    if table.starred:
        yield f"* p < {FALLS}, two-sided t-test over cases, not corrected"
    if len({each.cases for each in some if not each.unedited}) > 1:
        yield "the best are marked among rows of the same cases alone"
    if table.value == "falls":
        yield f"of so many tests over cases that can be made; p < {FALLS}, not corrected"
    if (table.split or table.by) and any(each.run.regime.mode == "batch" for each in some):
        yield "where one batch has all cases of a number, it says nothing of other batches"
    yield from layouts.remarks([each.run for each in some])
