"""What is read from a run folder when it is looked at, and not kept: answers and cases.

A run of all of CounterFact+ has 400 MB of them, and its numbers need none. Each is read again where
it lies, so that a file that was changed meanwhile is an error here too.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar, overload

from .. import files
from ..data import Case, Visit
from ..errors import DataError, RunFolderError
from ..folder.encoding import decode_case
from . import log

T = TypeVar("T")
ID = re.compile(rb'\{"id": ("(?:[^"\\]|\\.)*")')

TEXT = rb"[ !#-\[\]-~]*(?:\\.[ !#-\[\]-~]*)*"
HEAD = re.compile(
    rb'\{"v": \d+, "seq": \d+, "fp": "\w+", "case": "(' + TEXT + rb')", "state": (0|[1-9]\d{0,8}), '
    rb'"try": (0|[1-9]\d{0,8}), "status": "(\w+)", "after": \['
)
TAIL = ["edit", "message", "noop", "seconds", "values", "crc"]
VERDICT = b'"verdict": '


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is no number")


PLAIN = json.JSONDecoder(parse_constant=_refused)
"""Reads JSON without a look at keys that are there twice, which takes half of the time."""


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
            (data,) = self.lines([(start, check)])
            self._last = (start, log.Line(0, start, data).row)
        return self._last[1]

    def lines(self, places: Sequence[tuple[int, bytes]]) -> list[bytes]:
        """Return the lines that begin at some bytes. Raises `RunFolderError` if one is another."""
        found = []
        with open(self.path, "rb") as file:
            for start, check in places:
                file.seek(start)
                found.append(file.readline())
                if not (found[-1].endswith(check) and log.sound(found[-1])):
                    raise RunFolderError(
                        f"{self.path} was changed while it was read (byte {start})", "read it again"
                    )
        return found


class Answers(Lazy[Any]):
    """The answers of one row, before or after."""

    __slots__ = ("_check", "_side", "_source", "_start")

    def __init__(self, source: Source, start: int, check: bytes, side: str) -> None:
        self._source, self._start, self._check, self._side = source, start, check, side

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


class Head(NamedTuple):
    """What a row begins with: which visit it is of, and what became of it."""

    case: str
    state: int
    attempt: int
    status: str

    @property
    def visit(self) -> Visit:
        """The case, and the state of the model."""
        return self.case, self.state


def head(data: bytes) -> Head | None:
    """Return what a line begins with; None if it has to be read whole, as a withdrawal has."""
    if (found := HEAD.match(data)) is None:
        return None
    name, state, attempt, status = found.groups()
    try:
        case = json.loads(b'"%b"' % name) if b"\\" in name else name.decode()
    except ValueError:
        return None
    return Head(case, int(state), int(attempt), status.decode())


def tails(lines: Sequence[bytes]) -> list[dict[str, Any] | None]:
    """Return what lines that have a head say after their answers; None for one to be read whole.

    Only what is whole is JSON: so what is left out was nothing but the answers. Read at once, lines
    share the names of their keys.
    """
    parts = [_tail(line) for line in lines]
    try:
        found = PLAIN.decode("[" + b",".join(filter(None, parts)).decode() + "]")
    except (ValueError, RecursionError):
        found = []
    if len(found) != len(parts) - parts.count(b""):
        return [_alone(part) for part in parts]
    rows = iter(found)
    return [_checked(next(rows), part) if part else None for part in parts]


def _tail(line: bytes) -> bytes:
    """Return a line's end as an object; nothing if it has none, or if its texts have verdicts."""
    start = line.find(b'], "edit": {')
    return b"" if start == -1 or VERDICT in line else b"{" + line[start + 3 :]


def _checked(row: Any, part: bytes) -> dict[str, Any] | None:
    """Return a row that was read without a look at keys that are there twice, if it has none.

    There are as many keys as it has, unless some are in deeper objects, or a text looks like one.
    """
    try:
        values = row["values"]
        keys = len(row) + len(row["edit"]) + len(row["seconds"]) + len(values)
        keys += sum(map(len, values.values()))
    except (TypeError, KeyError, AttributeError):
        return None
    return row if list(row) == TAIL and keys == part.count(b'": ') else _alone(part)


def _alone(part: bytes) -> dict[str, Any] | None:
    try:
        row = files.strict(part)
    except ValueError:
        return None
    return row if isinstance(row, dict) and list(row) == TAIL else None


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
        name = found[1]
        return str(json.loads(name)) if b"\\" in name else name[1:-1].decode()

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
            return decode_case(files.strict(line))
        except (ValueError, TypeError, AttributeError, KeyError, DataError):
            raise self._error() from None

    def _error(self) -> RunFolderError:
        return RunFolderError(f"{self._path} has a line that is no case", self._remedy)


class ById(Mapping[str, T], Generic[T]):
    """Items by their ids."""

    def __init__(self, ids: Sequence[str], items: Sequence[T]) -> None:
        self._ids, self._items = ids, items

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self._ids)}

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
