"""Records of a run as a sequence that knows its columns: what numbers need, for all rows at once.

A run may have a million rows. Its numbers are made of the columns; a record is made when somebody
looks at it. Where the rows come from is `scans`' matter for a log, and here for a list of records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .stored import Lazy

if TYPE_CHECKING:
    from .records import Record

BATCH = 256
"""Records that are made at once."""


class Base(ABC):
    """All rows that there are, numbered from 0, of which a table chooses some."""

    def __init__(self) -> None:
        self.cases: list[str] = []
        self._states = array("q")
        self._statuses: dict[str, int] = {}
        self._codes = array("i")
        self._noops = bytearray()
        self.verdicts: dict[int, Counter[str]] = {}
        """How many texts have a verdict of each status, of rows that have any."""

    def _add(self, cases: list[str], states: list[int], statuses: list[str]) -> None:
        codes = self._statuses
        self.cases.extend(cases)
        self._states.extend(states)
        self._codes.extend([codes.setdefault(status, len(codes)) for status in statuses])

    def share(self, names: Sequence[str]) -> np.ndarray:
        """Let cases of these names be the same texts, and return of each row whether it is of one."""
        known = {name: name for name in names}
        shared = [known.get(case) for case in self.cases]
        self.cases = [
            case if same is None else same for case, same in zip(self.cases, shared, strict=True)
        ]
        return np.fromiter((same is not None for same in shared), bool, count=len(shared))

    @property
    def states(self) -> np.ndarray:
        """The state of the model in each row."""
        return np.frombuffer(self._states, dtype=np.int64)

    @property
    def noops(self) -> np.ndarray:
        """Of each row, whether the edit changed none of the answers."""
        return np.frombuffer(self._noops, dtype=bool)

    @property
    def statuses(self) -> list[str]:
        """The statuses that there are, by their codes."""
        return list(self._statuses)

    @property
    def codes(self) -> np.ndarray:
        """The code of each row's status."""
        return np.frombuffer(self._codes, dtype=np.int32)

    @abstractmethod
    def each(self, numbers: Sequence[int]) -> Sequence[Record]:
        """Return the records of some rows."""

    @abstractmethod
    def has(self, metric: str) -> np.ndarray:
        """Return of each row whether a metric has values of it."""

    @abstractmethod
    def columns(self, metric: str, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """Return a metric's values of some rows, NaN where one has none."""

    @abstractmethod
    def visits(self, numbers: np.ndarray) -> int:
        """Return how many visits some rows are of."""


class Listed(Base):
    """The rows of records that are there."""

    def __init__(self, records: Sequence[Record]) -> None:
        super().__init__()
        self._records = records
        self._add(
            [record.case for record in records],
            [record.state for record in records],
            [record.status for record in records],
        )
        self._noops.extend([bool(record.noop) for record in records])
        self.verdicts |= {n: r.verdicts for n, r in enumerate(records) if r.verdicts}

    def each(self, numbers: Sequence[int]) -> Sequence[Record]:
        """Return the records of some rows."""
        return [self._records[n] for n in numbers]

    def has(self, metric: str) -> np.ndarray:
        """Return of each row whether a metric has values of it."""
        return np.array([bool(record.values.get(metric)) for record in self._records], dtype=bool)

    def columns(self, metric: str, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """Return a metric's values of some rows, NaN where one has none."""
        rows = [self._records[n].values.get(metric, {}) for n in numbers.tolist()]
        names = dict.fromkeys(name for row in rows for name in row)
        return {n: np.array([row.get(n, np.nan) for row in rows], dtype=float) for n in names}

    def visits(self, numbers: np.ndarray) -> int:
        """Return how many visits some rows are of."""
        return len({self._records[n].visit for n in numbers.tolist()})


class Table(Lazy["Record"]):
    """Some rows in some order: a sequence of their records, and their columns."""

    def __init__(self, base: Base, numbers: np.ndarray) -> None:
        self._base, self._numbers = base, numbers

    @classmethod
    def of(cls, records: Sequence[Record]) -> Table:
        """Return records as a table, if they are none yet."""
        if isinstance(records, Table):
            return records
        return cls(Listed(records), np.arange(len(records)))

    def __len__(self) -> int:
        return len(self._numbers)

    def _at(self, number: int) -> Record:
        (found,) = self._base.each([int(self._numbers[number])])
        return found

    def __iter__(self) -> Iterator[Record]:
        for start in range(0, len(self), BATCH):
            yield from self._base.each(self._numbers[start : start + BATCH].tolist())

    def taken(self, which: np.ndarray) -> Table:
        """Return a part of it: rows by their places, or those for which a mask is true."""
        return Table(self._base, self._numbers[which])

    @property
    def cases(self) -> list[str]:
        """The case of each row."""
        return [self._base.cases[n] for n in self._numbers.tolist()]

    @property
    def states(self) -> np.ndarray:
        """The state of the model in each row."""
        return self._base.states[self._numbers]

    @property
    def statuses(self) -> list[str]:
        """The status of each row."""
        names = self._base.statuses
        return [names[code] for code in self._base.codes[self._numbers].tolist()]

    @property
    def noops(self) -> int:
        """How many edits changed none of the answers."""
        return int(self._base.noops[self._numbers].sum())

    @property
    def visits(self) -> int:
        """How many visits there are."""
        return self._base.visits(self._numbers)

    @property
    def verdicts(self) -> Counter[str]:
        """How many texts have a verdict of each status."""
        found: Counter[str] = Counter()
        if self._base.verdicts:
            for number in self._numbers.tolist():
                found.update(self._base.verdicts.get(number, ()))
        return found

    @property
    def judged(self) -> Table:
        """The rows with texts that have a verdict."""
        return self.taken(np.isin(self._numbers, list(self._base.verdicts)))

    def without(self, status: str) -> Table:
        """Return the rows but those of a status."""
        names = self._base.statuses
        if status not in names:
            return self
        return self.taken(self._base.codes[self._numbers] != names.index(status))

    def planned(self, names: Sequence[str]) -> Table:
        """Return the rows of cases of these names, which it shares from now on."""
        return self.taken(self._base.share(names)[self._numbers])

    def having(self, metric: str) -> Table:
        """Return the rows that a metric has values of."""
        return self.taken(self._base.has(metric)[self._numbers])

    def columns(self, metric: str) -> dict[str, np.ndarray]:
        """Return one metric's values as columns; a row without a value has NaN."""
        return self._base.columns(metric, self._numbers)

    def places(self, order: Mapping[str, int]) -> np.ndarray:
        """Return of each row the place of its case in an order, -1 if it has none."""
        found = (order.get(case, -1) for case in self.cases)
        return np.fromiter(found, dtype=np.int64, count=len(self))
