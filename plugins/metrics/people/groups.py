"""Cases put into groups by their tags, and columns of them, for the tables of metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edit_harness import Case

Columns = Mapping[str, np.ndarray]
Row = Mapping[str, Any]
Tables = dict[str, Sequence[Row]]


def by_tag(cases: Sequence[Case], *tags: str) -> dict[tuple[str, ...], np.ndarray]:
    """Return the numbers of the cases that have the same values of some tags, in the values' order.

    Cases that lack one of the tags are in no group.
    """
    found: dict[tuple[str, ...], list[int]] = {}
    for number, case in enumerate(cases):
        values = tuple(case.tags.get(tag, "") for tag in tags)
        if all(values):
            found.setdefault(values, []).append(number)
    return {values: np.array(found[values]) for values in sorted(found)}


def starred(value: float | None, stars: int) -> str:
    """Return a number with so many stars behind it; a dash for none."""
    return "–" if value is None else f"{value:.3g}{'*' * stars}"


def column(columns: Columns, name: str, rows: np.ndarray) -> np.ndarray:
    """Return some rows of a column, NaN in all of them if there is no such column."""
    return columns[name][rows] if name in columns else np.full(len(rows), np.nan)
