"""Tables of the terminal besides that of a run: of several runs, of a sequence, of what metrics say."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from edit_harness.interfaces import Measure
from edit_harness.run.report import MeasureRow, Point, lines, plain_number, show, table_of_text
from edit_harness.shell.terminal import plain

CELL = 10
"""Characters of a column of numbers."""
LABEL = 20
"""Characters of a column of names; longer ones go on below."""


def combined(
    runs: Sequence[tuple[tuple[str, ...], Sequence[MeasureRow]]],
    heads: Sequence[str],
    names: Sequence[str],
    width: int = 80,
) -> Iterator[Table]:
    """Yield the table of several runs: a row for each, a column for each measure after the edit.

    What is too wide for ``width`` characters goes on below, with the runs' names repeated.
    """
    widths = [
        min(max(len(head), *(len(run[i]) for run, _ in runs)), LABEL)
        for i, head in enumerate(heads)
    ]
    labels = sum(widths) + 2 * len(widths)
    fits = max((width - labels) // CELL, 1)
    for start in range(0, len(names), fits):
        table = table_of_text()
        for head, label in zip(heads, widths, strict=True):
            table.add_column(head, width=label)
        for name in names[start : start + fits]:
            table.add_column(name, justify="right", no_wrap=True, min_width=CELL - 2)
        for run, rows in runs:
            found = {row.name: row for row in rows}
            cells = (
                show(found[n].after, found[n]) if n in found else ""
                for n in names[start : start + fits]
            )
            table.add_row(*run, *cells)
        yield table


def curve(points: Sequence[Point], measures: Mapping[str, Measure], width: int) -> Iterator[Table]:
    """Yield the table of a sequence: a row for each of its points, a column for each measure.

    A row is of all cases that the model held then.
    """
    runs = []
    for point in points:
        rows = [row for row in lines(measures, point.estimates, {}, {}) if not row.measure.detail]
        runs.append(((str(point.state),), rows))
    names = dict.fromkeys(row.name for _, rows in runs for row in rows)
    yield from combined(runs, ["Cases"], list(names), width)


def listed(title: str, rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return a table with a heading for each name of a cell; numbers stand to the right."""
    table = table_of_text()
    names = list(dict.fromkeys(name for row in rows for name in row))
    for name in names:
        texts = any(isinstance(row.get(name), str) for row in rows)
        table.add_column(name, justify="left" if texts else "right", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row.get(name)) for name in names))
    # A table's own title would be wrapped at the table's width.
    return Group(plain(title, "italic"), table)


def _cell(value: Any) -> Text:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return Text("–")
    return plain(plain_number(value) if isinstance(value, int | float) else value)
