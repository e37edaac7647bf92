"""A log that is read once: what each row begins with, and what numbers need of it, in columns.

Answers and diagnostics stay in the file until somebody looks at a record. Rows that were withdrawn,
or that a later row of their visit stands in the place of, are left out.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..data import Visit
from ..errors import RunFolderError
from .columns import Values
from .log import Line
from .rows import Rows
from .stored import Answers, Head, Source, head, tails
from .tables import BATCH, Base, Table

if TYPE_CHECKING:
    from .records import Record

Row = tuple[Line, Head, Mapping[str, Any]]
"""A row as a line, what it begins with and what it ends with."""
KEPT = 1 << 15
"""Records that are kept once they were made; of a larger run, others are made each time."""


class Repeated(NamedTuple):
    """A row of a visit that has several."""

    visit: Visit
    attempt: int
    number: int


class Scan(Base):
    """The rows of a log, as they are added; ``of`` makes a record of what a line says."""

    def __init__(self, source: Source, of: Callable[[Mapping[str, Any]], Record]) -> None:
        super().__init__()
        self._source, self._of = source, of
        self._attempts, self._seqs, self._starts = array("q"), array("q"), array("q")
        self._checks = array("I")
        self._withdrawn: list[tuple[int, int]] = []
        self._judged: dict[int, Counter[str]] = {}
        """What `verdicts` has, by the numbers that rows have in the log."""
        self._values = Values()
        self._made: dict[int, Record] = {}

    def read(self, lines: Iterator[Line]) -> None:
        """Add all rows. Raises `RunFolderError` for one that is no record."""
        while batch := list(islice(lines, BATCH)):
            found = list(self._found(batch))
            self._place([(line, its) for line, its, _ in found])
            self._noops.extend([bool(end["noop"]) for _, _, end in found])
            self._add_values([(line, end["values"]) for line, _, end in found])

    def read_heads(self, lines: Iterator[Line]) -> None:
        """Add all rows without their values, which takes a third of the time."""
        while batch := list(islice(lines, BATCH)):
            found = ((line, head(line.data)) for line in batch)
            rows = ((line, its) if its else self._whole(line) for line, its in found)
            self._place([row[:2] for row in rows if row])

    def _found(self, batch: Sequence[Line]) -> Iterator[Row]:
        """Yield of each row what it begins with and what it ends with."""
        heads = [head(line.data) for line in batch]
        ends = iter(tails([line.data for line, its in zip(batch, heads, strict=True) if its]))
        for line, its in zip(batch, heads, strict=True):
            if its and (end := next(ends)):
                yield line, its, end
            elif row := self._whole(line):
                yield row

    def _whole(self, line: Line) -> Row | None:
        """Return the same of a row that has to be read whole; None of a withdrawal, which is noted."""
        try:
            row = line.row
            if "withdraws" in row:
                first, last = map(index, row["withdraws"])
                self._withdrawn.append((first, last))
                return None
            record = self._of(row)
            array("q", [record.state, record.attempt])  # columns have room for such numbers only
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise self._damaged(line, error) from None
        if verdicts := record.verdicts:
            self._judged[line.seq] = verdicts
        its = Head(record.case, record.state, record.attempt, record.status)
        return line, its, {"noop": record.noop, "values": record.values}

    def _place(self, rows: Sequence[tuple[Line, Head]]) -> None:
        heads = [its for _, its in rows]
        self._add(
            [its.case for its in heads], [its.state for its in heads], [its.status for its in heads]
        )
        self._attempts.extend([its.attempt for its in heads])
        self._seqs.extend([line.seq for line, _ in rows])
        self._starts.extend([line.start for line, _ in rows])
        self._checks.extend([int(line.data[-11:-3], 16) for line, _ in rows])

    def _add_values(self, found: Sequence[tuple[Line, Any]]) -> None:
        try:
            self._values.extend([values for _, values in found])
        except (ValueError, TypeError) as error:
            line = next(line for line, values in found if not _are_values(values))
            raise self._damaged(line, error) from None

    def _damaged(self, line: Line, error: Exception) -> RunFolderError:
        path = self._source.path
        return RunFolderError(
            f"row {line.seq} of {path} is damaged (byte {line.start}): {error}",
            f"nothing was changed; edit-harness repair {path.parent}",
        )

    def counting(self) -> Table:
        """Return the rows that count, in the order in which their visits came; it is called once.

        Raises `RunFolderError` for two rows of one try that differ.
        """
        numbers = np.searchsorted(np.frombuffer(self._seqs, np.int64), list(self._judged))
        self.verdicts = dict(zip(numbers.tolist(), self._judged.values(), strict=True))
        standing, repeated = self._standing(), self._repeated()
        rows: Rows[Repeated] = Rows(self._same)
        for number in repeated.tolist():
            visit = self.cases[number], self._states[number]
            rows.add(self._seqs[number], Repeated(visit, self._attempts[number], number))
        for first, last in self._withdrawn:
            rows.withdraw(first, last)
        for conflict in rows.conflicts():
            raise RunFolderError(f"{self._source.path}: {conflict}", "run it anew: --new")
        standing[repeated] = False
        places = np.arange(len(standing))
        for earliest, counts in rows.placed():
            standing[counts.number] = True
            places[counts.number] = earliest.number
        numbers = np.flatnonzero(standing)
        del self._seqs, self._attempts  # 16 MB of a million rows, which nobody needs any more
        return Table(self, numbers[np.argsort(places[numbers], kind="stable")])

    def _standing(self) -> np.ndarray:
        """Return of each row whether it was not withdrawn."""
        seqs, standing = np.frombuffer(self._seqs, dtype=np.int64), np.ones(len(self._seqs), bool)
        for first, last in self._withdrawn:
            standing[np.searchsorted(seqs, first) : np.searchsorted(seqs, last, "right")] = False
        return standing

    def _repeated(self) -> np.ndarray:
        """Return the numbers of the rows whose visit has others, and perhaps, by chance, a few more."""
        marks = map(hash, zip(self.cases, self._states, strict=True))
        found = np.fromiter(marks, dtype=np.int64, count=len(self.cases))
        order = np.argsort(found, kind="stable")
        same = found[order[1:]] == found[order[:-1]]
        return np.unique(np.concatenate([order[1:][same], order[:-1][same]]))

    def _same(self, one: Repeated, other: Repeated) -> bool:
        first, second = self.each([one.number, other.number])
        return first.same_answers(second)

    def each(self, numbers: Sequence[int]) -> Sequence[Record]:
        """Return the records of some rows. Raises `RunFolderError` if the file is another by now."""
        kept = self._made
        lacking = [n for n in numbers if n not in kept]
        made = dict(zip(lacking, self._records(lacking), strict=True))
        if len(kept) + len(made) <= KEPT:
            kept.update(made)
        return [kept[n] if n in kept else made[n] for n in numbers]

    def _records(self, numbers: Sequence[int]) -> Iterator[Record]:
        places = [(self._starts[n], b', "crc": "%08x"}\n' % self._checks[n]) for n in numbers]
        lines = self._source.lines(places)
        heads = [head(line) for line in lines]
        ends = iter(tails([line for line, its in zip(lines, heads, strict=True) if its]))
        for line, its, (start, check) in zip(lines, heads, places, strict=True):
            end = next(ends) if its else None
            if its is None or end is None:
                yield self._of(Line(0, start, line).row)
            else:
                sides = {s: Answers(self._source, start, check, s) for s in ("before", "after")}
                first = {"case": its.case, "state": its.state, "try": its.attempt}
                yield self._of({**first, "status": its.status, **end, **sides})

    def has(self, metric: str) -> np.ndarray:
        """Return of each row whether a metric has values of it."""
        return self._values.has(metric)

    def columns(self, metric: str, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """Return a metric's values of some rows, NaN where one has none."""
        return self._values.chosen(metric, numbers)

    def visits(self, numbers: np.ndarray) -> int:
        """Return how many visits some rows are of: those that count are of one each."""
        return len(numbers)


def _are_values(values: Any) -> bool:
    try:
        Values().extend([values])
    except (ValueError, TypeError):
        return False
    return True
