"""Which numbers of a table are the best, and which the second, among the editors of one model.

Numbers that are shown alike are ties. Only numbers of the same cases are ranked. Where there is one number
alone, all are alike, or no direction is the better one, nothing is marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from edit_harness.stats import Estimate

from .formats import Cell, Mark


@dataclass(frozen=True)
class Number:
    """What stands in a cell, before it is known whether it is the best."""

    cell: Cell
    estimate: Estimate
    better: str = ""
    data: tuple[tuple[str, Any], ...] = ()
    cases: frozenset[str] = frozenset()
    """The cases of the run that it is of."""


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
    found: list[Mark] = [""] * len(column)
    for cases in {number.cases for number in column if number}:
        places = [i for i, number in enumerate(column) if number and number.cases == cases]
        for i, mark in zip(places, _ranked([column[i] for i in places]), strict=True):
            found[i] = mark
    return found


def _ranked(numbers: Sequence[Number | None]) -> list[Mark]:
    ranked = sorted(
        (number for number in numbers if number and number.better),
        key=lambda number: number.estimate.value * (1 if number.better == "lower" else -1),
    )
    order = list(dict.fromkeys(_bare(number) for number in ranked))
    if len(order) < 2:
        return [""] * len(numbers)
    marks: dict[str, Mark] = dict(zip(order, ("best", "second"), strict=False))
    return [marks.get(_bare(number), "") if number else "" for number in numbers]


def _bare(number: Number) -> str:
    return number.cell.text.rstrip("*")


def _with(number: Number | None, mark: Mark) -> Number | None:
    return replace(number, cell=replace(number.cell, mark=mark)) if number else None
