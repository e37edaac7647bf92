"""Cases put into groups by their tags, columns of them, and p-values corrected for many groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from edit_harness import Case
from edit_harness_plugins.significance import McNemar, TTest, benjamini_hochberg

from ..answers import grouped

Columns = Mapping[str, np.ndarray]
Row = Mapping[str, Any]
Tables = dict[str, Sequence[Row]]
ALPHA = 0.05
T = TypeVar("T")


def by_tag(cases: Sequence[Case], columns: Columns, *tags: str) -> dict[tuple[str, ...], Columns]:
    """Return the columns of the cases with the same values of some tags, in the values' order.

    Cases that lack one of the tags are in no group.
    """
    tagged = (tuple(case.tags.get(tag, "") for tag in tags) for case in cases)
    found = grouped((values, number) for number, values in enumerate(tagged) if all(values))
    return {
        values: {name: each[np.array(found[values])] for name, each in columns.items()}
        for values in sorted(found)
    }


def present(columns: Columns, *names: str) -> list[np.ndarray]:
    """Return some columns, of the cases that have a value in each; empty ones if one is missing."""
    found = [columns[name] for name in names if name in columns]
    if len(found) < len(names):
        return [np.empty(0) for _ in names]
    there = ~np.isnan(np.sum(found, axis=0))
    return [each[there] for each in found]


def corrected(tests: Mapping[T, TTest | McNemar]) -> dict[T, float | None]:
    """Return the p-values of tests, corrected for their number (Benjamini and Hochberg)."""
    return dict(zip(tests, benjamini_hochberg([test.p for test in tests.values()]), strict=True))


def starred(value: float | None, stars: int) -> str:
    """Return a number with so many stars behind it; a dash for none."""
    return "–" if value is None else f"{value:.3g}{'*' * stars}"
