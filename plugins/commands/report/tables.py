"""Tables of the terminal besides that of a run: of several runs, of a sequence, of what metrics say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from edit_harness.run.report import MeasureRow, lines, plain_number, show, table_of_text
from edit_harness.run.results import Results
from edit_harness.shell.terminal import plain

from .formats import Cell, Grid


def combined(
    heads: Sequence[str], runs: Sequence[tuple[Sequence[str], Sequence[MeasureRow]]]
) -> Grid:
    """Return the table of several runs: a row for each, a column for each measure after the edit."""
    found = [{row.name: row for row in rows} for _, rows in runs]
    shown = (row for _, rows in runs for row in rows if not row.measure.detail)
    columns = list(dict.fromkeys(row.name for row in shown))
    cells = [
        [Cell(show(own[name].after, own[name]) if name in own else "") for name in columns]
        for own in found
    ]
    rows = [(names, own) for (names, _), own in zip(runs, cells, strict=True)]
    return Grid("", heads, columns, rows)


def curve(run: Results) -> Grid:
    """Return the table of a sequence: a row for each of its points, of all cases the model held then."""
    return combined(
        ["Cases"],
        [([str(p.state)], list(lines(run.measures, p.estimates, {}, {}))) for p in run.curve],
    )


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
