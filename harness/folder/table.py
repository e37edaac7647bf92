"""The rows of a run as a table: its columns, which numbers are made of, and its records.

A run may have a million rows: a record, or a case, is read again where it lies when somebody looks at it.
"""

from __future__ import annotations

import copy
import hashlib
import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np

from ..data import Case
from ..errors import RunFolderError
from ..files import dumps
from . import log
from .encoding import decode_case, plain
from .log import Line
from .record import BRIEF, Brief, Count, Lazy, Record

ABSENT = math.inf
"""What a column has where a row has no value; NaN is a value that is no number."""
WITHDRAWS = b'"withdraws": ['
VERDICT = b'"verdict"'
START = 90
"""Bytes in which a line says whether it withdraws others."""


class RunTable(Lazy[Record]):
    """Some rows in some order: a sequence of their records, and their columns.

    The columns are of all rows that there are, of which ``_numbers`` are the table's.
    """

    def __init__(self) -> None:
        self._numbers = np.zeros(0, np.int64)
        self._records: Sequence[Record] | Lines = ()
        self._cases: list[str] = []
        self._states, self._codes, self._noops = array("q"), array("i"), bytearray()
        self._statuses: dict[str, int] = {}
        self._verdicts: dict[int, Counter[str]] = {}
        self._values: dict[str, dict[str, array[float]]] = {}

    @classmethod
    def of(cls, records: Sequence[Record]) -> RunTable:
        """Return records as a table, if they are none yet."""
        if isinstance(records, RunTable):
            return records
        table = cls()
        table._records = records
        for record in records:
            table._add(record)
        table._numbers = np.arange(len(records))
        return table

    @classmethod
    def read(cls, path: Path, lines: Iterable[Line]) -> RunTable:
        """Return the last row of each visit that was not withdrawn, in the order in which visits came.

        Raises `RunFolderError` for a row that is no record, and for two rows of one try that differ.
        """
        table, records, stands = cls(), Lines(path), bytearray()
        table._records = records
        for line in lines:
            try:
                records.starts.append(line.start)
                stands.append(WITHDRAWS not in line.data[:START])
                table._add(_read(line.data) if stands[-1] else Record("", "", {}))
                if not stands[-1]:
                    first, last = msgspec.convert(line.row["withdraws"], tuple[Count, Count])
                    stands[first : last + 1] = bytes(len(stands[first : last + 1]))
            except (ValueError, TypeError, KeyError) as error:
                raise log.damaged(path, line.seq, line.start, error) from None
        table._numbers = table._counting(path, np.frombuffer(stands, bool).copy())
        return table

    def _counting(self, path: Path, stands: np.ndarray) -> np.ndarray:
        """Return the rows that count, of those that were not withdrawn, in the order of their visits."""
        visits = _hashes(self._cases, self._states)
        _, first, visit = np.unique(visits, return_index=True, return_inverse=True)
        rows = np.flatnonzero(stands)
        rows = rows[np.argsort(visit[rows], kind="stable")]
        again = visit[rows[1:]] == visit[rows[:-1]]
        for earlier, later in zip(rows[:-1][again].tolist(), rows[1:][again].tolist(), strict=True):
            if self._records[later].contradicts(self._records[earlier]):
                where = f" in state {self._states[later]}" if self._states[later] else ""
                told = f"say different things of case {self._cases[later]}{where}"
                raise RunFolderError(
                    f"{path}: rows {earlier} and {later} {told}", "run it anew: --new"
                )
        last = np.full(len(first), -1)
        last[visit[rows]] = rows  # of several the last
        ordered = last[np.argsort(first)]
        return ordered[ordered >= 0]

    def _add(self, row: Record | Brief) -> None:
        """Add a row to the columns."""
        number = len(self._cases)
        for metric, values in row.values.items():
            columns = self._values.setdefault(metric, {})
            for name, value in values.items():
                if (column := columns.get(name)) is None:
                    column = columns[name] = array("d")
                if len(column) < number:
                    _fill(column, number)
                column.append(math.nan if value is None else value)
        if isinstance(row, Record) and (verdicts := row.verdicts):
            self._verdicts[number] = verdicts
        self._cases.append(row.case)
        self._states.append(row.state)
        self._codes.append(self._statuses.setdefault(row.status, len(self._statuses)))
        self._noops.append(bool(row.noop))

    def __len__(self) -> int:
        return len(self._numbers)

    def _at(self, number: int) -> Record:
        return self._records[int(self._numbers[number])]

    def __iter__(self) -> Iterator[Record]:
        return (self._records[number] for number in self._numbers.tolist())

    def taken(self, which: np.ndarray) -> RunTable:
        """Return a part of it: rows by their places, or those for which a mask is true."""
        part = copy.copy(self)
        part._numbers = self._numbers[which]
        return part

    @property
    def cases(self) -> list[str]:
        """The case of each row."""
        return [self._cases[n] for n in self._numbers.tolist()]

    @property
    def states(self) -> np.ndarray:
        """The state of the model in each row."""
        return np.frombuffer(self._states, np.int64)[self._numbers]

    @property
    def statuses(self) -> list[str]:
        """The status of each row."""
        names = list(self._statuses)
        return [names[self._codes[n]] for n in self._numbers.tolist()]

    @property
    def noops(self) -> int:
        """How many edits changed none of the answers."""
        return sum(self._noops[n] for n in self._numbers.tolist())

    @property
    def visits(self) -> int:
        """How many visits there are."""
        return len(np.unique(_hashes(self.cases, self.states.tolist())))

    @property
    def verdicts(self) -> Counter[str]:
        """How many texts have a verdict of each status."""
        found: Counter[str] = Counter()
        for number in self.judged._numbers.tolist():
            found.update(self._verdicts[number])
        return found

    @property
    def judged(self) -> RunTable:
        """The rows with texts that have a verdict."""
        return self.taken(np.isin(self._numbers, list(self._verdicts)))

    def without(self, status: str) -> RunTable:
        """Return the rows but those of a status."""
        codes = np.frombuffer(self._codes, np.int32)[self._numbers]
        return self.taken(codes != self._statuses.get(status, -1))

    def planned(self, names: Sequence[str]) -> RunTable:
        """Return the rows of cases of these names, which it shares: a million are held once."""
        known = {name: name for name in names}
        self._cases[:] = [known.get(case, case) for case in self._cases]
        places = self._numbers.tolist()
        return self.taken(np.fromiter((self._cases[n] in known for n in places), bool, len(self)))

    def having(self, metric: str) -> RunTable:
        """Return the rows that a metric has values of."""
        there = [column != ABSENT for column in self._columns(metric).values()]
        return self.taken(np.any(there, axis=0) if there else np.zeros(len(self), bool))

    def columns(self, metric: str) -> dict[str, np.ndarray]:
        """Return one metric's values as columns, NaN where a row has none, by names as they first stand."""
        columns = {
            n: column for n, column in self._columns(metric).items() if (column != ABSENT).any()
        }
        first = {name: int((column != ABSENT).argmax()) for name, column in columns.items()}
        rows = {place: list(self[place].values[metric]) for place in set(first.values())}
        ordered = sorted(columns, key=lambda name: (first[name], rows[first[name]].index(name)))
        return {n: np.where(columns[n] != ABSENT, columns[n], np.nan) for n in ordered}

    def _columns(self, metric: str) -> dict[str, np.ndarray]:
        columns = self._values.get(metric, {})
        for column in columns.values():
            _fill(column, len(self._cases))
        return {name: np.frombuffer(column)[self._numbers] for name, column in columns.items()}

    def places(self, order: Mapping[str, int]) -> np.ndarray:
        """Return of each row the place of its case in an order, -1 if it has none."""
        return np.array([order.get(case, -1) for case in self.cases], np.int64)


def _read(data: bytes) -> Record | Brief:
    """Return what a line says, with decoded answers only where it has verdicts."""
    with suppress(msgspec.DecodeError):  # `Record.read` says what is wrong
        if VERDICT not in data:
            return BRIEF.decode(data)
    return Record.read(data)


def _hashes(cases: Sequence[str], states: Iterable[int]) -> np.ndarray:
    """Return a number for each visit; that two share one is a chance of one in 10^19."""
    return np.fromiter(map(hash, zip(cases, states, strict=True)), np.int64, len(cases))


def _fill(column: array[float], rows: int) -> None:
    """Give a column a number for each of so many rows."""
    column.extend(array("d", [ABSENT]) * (rows - len(column)))


class Lines:
    """The records of a log's lines, read again by their numbers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.starts = array("q")

    def __getitem__(self, number: int) -> Record:
        with open(self.path, "rb") as file:
            file.seek(self.starts[number])
            return Record.read(file.readline())


class Cases(Mapping[str, Case]):
    """The cases of a run by their ids, in their order."""

    def __init__(self, path: Path, ids: Sequence[str] = ()) -> None:
        self._path = path
        self._starts: dict[str, int] = {}
        start = 0
        with open(path, "rb") as file:
            for place, line in enumerate(file):
                name = str(log.parsed(line)["id"])
                known = place < len(ids) and ids[place] == name  # a million ids are held once
                self._starts[ids[place] if known else name] = start
                start += len(line)

    def __getitem__(self, name: str) -> Case:
        with open(self._path, "rb") as file:
            file.seek(self._starts[name])
            return decode_case(log.parsed(file.readline()))

    def __iter__(self) -> Iterator[str]:
        return iter(self._starts)

    def __len__(self) -> int:
        return len(self._starts)


class Chosen(Lazy[Case]):
    """The cases that have these ids, in this order."""

    def __init__(self, cases: Mapping[str, Case], ids: Sequence[str]) -> None:
        self._cases, self._ids = cases, ids

    def _at(self, number: int) -> Case:
        return self._cases[self._ids[number]]

    def __len__(self) -> int:
        return len(self._ids)


def cases_digest(cases: Iterable[Case]) -> str:
    """Return a SHA-256 over the cases, in order."""
    digest = hashlib.sha256()
    for case in cases:
        digest.update(dumps(plain(case)).encode() + b"\n")
    return digest.hexdigest()
