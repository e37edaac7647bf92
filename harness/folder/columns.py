"""Values of a run's metrics as columns of numbers: what its estimates are made of.

A column has a number for each row, NaN where the row has none. Which rows there are, and which of
them count, is not known here.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

Row = Mapping[str, Mapping[str, float]]
"""The values of one row: by metric, then by name."""


class Values:
    """The values of rows, which are added in order; 8 bytes for each row and name."""

    def __init__(self) -> None:
        self.rows = 0
        self._columns: dict[str, dict[str, array[float]]] = {}
        self._nulls: dict[tuple[str, str], list[int]] = {}
        """Rows in which a name stands without a number: there it is present, and NaN."""

    def extend(self, rows: Sequence[Row]) -> None:
        """Add rows. Raises `TypeError` or `ValueError` for what are no values."""
        if not all(isinstance(row, dict) for row in rows):
            raise TypeError("values are by metric")
        for metric in dict.fromkeys(chain.from_iterable(rows)):
            found = [row.get(metric) or {} for row in rows]
            if not all(isinstance(each, dict) for each in found):
                raise TypeError(f"the values of {metric} are by name")
            for name in dict.fromkeys(chain.from_iterable(found)):
                values = [each.get(name, math.nan) for each in found]
                self._column(metric, name).extend(self._numbers(metric, name, values))
        self.rows += len(rows)

    def _numbers(self, metric: str, name: str, values: list[float]) -> array[float]:
        try:
            return array("d", values)
        except TypeError:
            missing = [i for i, value in enumerate(values) if value is None]
            self._nulls.setdefault((metric, name), []).extend(self.rows + i for i in missing)
            return array("d", [math.nan if value is None else float(value) for value in values])

    def _column(self, metric: str, name: str) -> array[float]:
        """Return a column with a number for every row so far."""
        column = self._columns.setdefault(metric, {}).setdefault(name, array("d"))
        column.extend(array("d", [math.nan]) * (self.rows - len(column)))
        return column

    def has(self, metric: str) -> np.ndarray:
        """Return of each row whether a metric has values of it."""
        has = np.zeros(self.rows, dtype=bool)
        for name in self._columns.get(metric, ()):
            has |= self._present(metric, name)
        return has

    def chosen(self, metric: str, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """Return a metric's columns of some rows, in the order in which names first stand there."""
        found = sorted(self._placed(metric, numbers))
        return {name: self._whole(metric, name)[numbers] for _, name in found}

    def _placed(self, metric: str, numbers: np.ndarray) -> Iterator[tuple[int, str]]:
        """Yield each name with where it first stands; names of one row stand in sorted order."""
        for name in self._columns.get(metric, ()):
            there = self._present(metric, name)[numbers]
            if there.any():
                yield int(there.argmax()), name

    def _present(self, metric: str, name: str) -> np.ndarray:
        present = ~np.isnan(self._whole(metric, name))
        present[self._nulls.get((metric, name), [])] = True
        return present

    def _whole(self, metric: str, name: str) -> np.ndarray:
        return np.frombuffer(self._column(metric, name))
