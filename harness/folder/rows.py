"""Which of a log's rows count: the last of each visit that was not withdrawn.

A row of a visit that has one already is another try, or says of the same answers what judges have
said since; anything else is two runs in one file. It knows neither files nor what a record holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Generic, NamedTuple, Protocol, TypeVar

from ..data import Visit


class Visited(Protocol):
    """What a row says of a visit."""

    @property
    def visit(self) -> Visit:
        """The case, and the state of the model."""

    @property
    def attempt(self) -> int:
        """The number of the try, from 1."""


V = TypeVar("V", bound=Visited)


class Conflict(NamedTuple):
    """Two rows of one visit that cannot both be right."""

    visit: Visit
    first: int
    second: int

    def __str__(self) -> str:
        case, state = self.visit
        where = f" in state {state}" if state else ""
        return f"rows {self.first} and {self.second} say different things of case {case}{where}"


class Rows(Generic[V]):
    """The rows of a log, given one by one; ``same`` tells whether two have the same answers."""

    def __init__(self, same: Callable[[V, V], bool]) -> None:
        self._same = same
        self._last: dict[Visit, tuple[int, V]] = {}
        self._earlier: dict[Visit, list[tuple[int, V]]] = {}
        self._withdrawn: list[tuple[int, int]] = []

    def add(self, seq: int, row: V) -> None:
        """Add a row; their numbers rise."""
        if row.visit in self._last:
            self._earlier.setdefault(row.visit, []).append(self._last[row.visit])
        self._last[row.visit] = (seq, row)

    def withdraw(self, first: int, last: int) -> None:
        """Take back the rows from one to another, both included."""
        self._withdrawn.append((first, last))

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the rows of one visit that contradict each other."""
        for visit, earlier in self._earlier.items():
            rows = list(self._standing([*earlier, self._last[visit]]))
            for (first, one), (second, other) in pairwise(rows):
                again = one.attempt == other.attempt and self._same(one, other)
                if not (again or other.attempt > one.attempt):
                    yield Conflict(visit, first, second)

    def counting(self) -> Iterator[V]:
        """Yield the row that counts of each visit, in the order in which visits came."""
        return (row for _, row in self.placed())

    def placed(self) -> Iterator[tuple[V, V]]:
        """Yield the same rows, each after the first row of its visit, which may be withdrawn."""
        for visit, last in self._last.items():
            rows = [*self._earlier.get(visit, ()), last]
            if standing := list(self._standing(rows)):
                yield rows[0][1], standing[-1][1]

    def _standing(self, rows: list[tuple[int, V]]) -> Iterator[tuple[int, V]]:
        for seq, row in rows:
            if not any(first <= seq <= last for first, last in self._withdrawn):
                yield seq, row
