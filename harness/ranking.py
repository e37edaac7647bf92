"""Which numbers of a table are the best, and which the second, among the editors of one model.

Numbers that are shown alike are ties. Where there is one number alone, or no direction is the better one,
nothing is marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from edit_harness.formats import Cell, Mark
from edit_harness.stats import Estimate


@dataclass(frozen=True)
class Number:
    """What stands in a cell, before it is known whether it is the best."""

    cell: Cell
    estimate: Estimate
    better: str = ""
    data: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Row:
    """The row of a model and an editor, or of the model alone."""

    names: tuple[str, ...]
    numbers: Sequence[Number | None]
    edited: bool = True


def marked(rows: Sequence[Row]) -> list[Row]:
    """Return rows with the best number of each column marked, and the second; one alone is neither."""
    columns = list(zip(*(row.numbers for row in rows), strict=True))
    marks = [_marks(column) for column in columns]
    return [
        replace(
            row,
            numbers=[_with(number, own[i]) for number, own in zip(row.numbers, marks, strict=True)],
        )
        for i, row in enumerate(rows)
    ]


def _marks(column: Sequence[Number | None]) -> list[Mark]:
    ranked = sorted(
        (number for number in column if number and number.better),
        key=lambda number: number.estimate.value * (1 if number.better == "lower" else -1),
    )
    order = list(dict.fromkeys(_bare(number) for number in ranked))
    if len(ranked) < 2:
        return [""] * len(column)
    marks: dict[str, Mark] = dict(zip(order, ("best", "second"), strict=False))
    return [marks.get(_bare(number), "") if number else "" for number in column]


def _bare(number: Number) -> str:
    return number.cell.text.rstrip("*")


def _with(number: Number | None, mark: Mark) -> Number | None:
    return replace(number, cell=replace(number.cell, mark=mark)) if number else None
