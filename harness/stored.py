"""What is read from a run folder when it is looked at, and not kept: answers and cases.

A run of all of CounterFact+ has 400 MB of them, and its numbers need none. Each is read again where
it lies, so that a file that was changed meanwhile is an error here too.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

from edit_harness import durable, log
from edit_harness.cases import Case
from edit_harness.encoding import decode_case
from edit_harness.errors import DataError, RunFolderError
from edit_harness.log import Line

T = TypeVar("T")
ID = re.compile(rb'\{"id": ("(?:[^"\\]|\\.)*")')

VERDICT = b'"verdict": '


class Lazy(Sequence[T], Generic[T]):
    """A sequence whose items are made when they are asked for; one is equal to a list of the same."""

    def _at(self, number: int) -> T:
        """Return the item of a number from 0."""
        raise NotImplementedError

    @overload
    def __getitem__(self, which: int) -> T: ...
    @overload
    def __getitem__(self, which: slice) -> list[T]: ...
    def __getitem__(self, which: int | slice) -> T | list[T]:
        numbers = range(len(self))[which]
        return [self._at(n) for n in numbers] if isinstance(numbers, range) else self._at(numbers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


class Source:
    """The lines of a log, read again one at a time; the last is kept, as it is mostly next too."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last: tuple[int, dict[str, Any]] = (-1, {})

    def line(self, start: int, check: bytes) -> dict[str, Any]:
        """Return the line that begins at a byte. Raises `RunFolderError` if it is another by now."""
        if self._last[0] != start:
            with open(self.path, "rb") as file:
                file.seek(start)
                data = file.readline()
            if not (data.endswith(check) and log.sound(data)):
                raise RunFolderError(
                    f"{self.path} was changed while it was read (byte {start})", "read it again"
                )
            self._last = (start, log.Line(0, start, data).row)
        return self._last[1]


class Answers(Lazy[Any]):
    """The answers of one row, before or after."""

    __slots__ = ("_check", "_side", "_source", "_start")

    def __init__(self, source: Source, line: Line, side: str) -> None:
        self._source, self._start, self._side = source, line.start, side
        self._check = line.data[-log.CHECK :]

    @property
    def _all(self) -> list[Any]:
        found: list[Any] = self._source.line(self._start, self._check)[self._side]
        return found

    def _at(self, number: int) -> Any:
        return self._all[number]

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._all)


def read_rows(lines: Sequence[Line], source: Source) -> Iterator[dict[str, Any] | None]:
    """Yield what each line says, its answers to be read when they are looked at.

    Of a line that has to be read alone, there is None. Read at once, the others share the names of
    their keys.
    """
    parts = [_without_answers(line.data) for line in lines]
    whole = [part for part in parts if part]
    try:
        rows = durable.strict(b"[" + b",".join(whole) + b"]")
    except ValueError:
        rows = []
    found = iter(rows if len(rows) == len(whole) else ())
    for line, part in zip(lines, parts, strict=True):
        row = next(found, None) if part else None
        yield row and {
            **row,
            "before": Answers(source, line, "before"),
            "after": Answers(source, line, "after"),
        }


def _without_answers(data: bytes) -> bytes:
    """Return a line without its answers, or nothing if that cannot be done, or they have verdicts.

    Only an object that is whole is JSON: so what is left out was nothing but two of its values.
    """
    begin = data.find(b', "after": [')
    end = data.find(b'], "edit": {', begin)
    if -1 in (begin, end) or VERDICT in data:
        return b""
    return data[:begin] + data[end + 1 :]


class Cases(Lazy[Case]):
    """The cases of a run, in their order. Raises `RunFolderError` if a line is none."""

    def __init__(self, path: Path, remedy: str) -> None:
        self.ids: list[str] = []
        self._path, self._remedy = path, remedy
        self._starts = array("q")
        start = 0
        with open(path, "rb") as file:
            for line in file:
                self.ids.append(self._id(line))
                self._starts.append(start)
                start += len(line)

    def _id(self, line: bytes) -> str:
        if (found := ID.match(line)) is None:
            raise self._error()
        return str(json.loads(found[1]))

    def _at(self, number: int) -> Case:
        with open(self._path, "rb") as file:
            file.seek(self._starts[number])
            return self._decoded(file.readline())

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Case]:
        with open(self._path, "rb") as file:
            for line in file:
                yield self._decoded(line)

    def _decoded(self, line: bytes) -> Case:
        try:
            return decode_case(durable.strict(line))
        except (ValueError, TypeError, AttributeError, KeyError, DataError):
            raise self._error() from None

    def _error(self) -> RunFolderError:
        return RunFolderError(f"{self._path} has a line that is no case", self._remedy)


class ById(Mapping[str, T], Generic[T]):
    """Items by their ids."""

    def __init__(self, ids: Sequence[str], items: Sequence[T]) -> None:
        self._places = {name: place for place, name in enumerate(ids)}
        self._items = items

    def __getitem__(self, name: str) -> T:
        return self._items[self._places[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class Chosen(Lazy[T], Generic[T]):
    """Those items of a mapping that have these keys, in this order."""

    def __init__(self, items: Mapping[str, T], keys: Sequence[str]) -> None:
        self._items, self._keys = items, keys

    def _at(self, number: int) -> T:
        return self._items[self._keys[number]]

    def __len__(self) -> int:
        return len(self._keys)
