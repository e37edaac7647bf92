"""Records of a benchmark's file: read, with the place of whatever is wrong in them.

A file is a list of records in JSON, or JSON Lines. What a record must have is said by the caller;
where the file comes from stands in `edit_harness_plugins.tasks._files.published`. A file whose layout is
wrong is refused as a whole; a record with the right layout and no use, such as one with an empty
target, is kept with the reason, so that it can be listed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from json import JSONDecodeError
from pathlib import Path
from typing import Any, NamedTuple

from edit_harness import DataError

SHOWN = 5
SURROGATE = re.compile("[\ud800-\udfff]")
SPACE = re.compile(r"[ \t\r\n]*")
KINDS = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "a truth value",
    type(None): "null",
}

Record = dict[str, Any]


class Problem(NamedTuple):
    """What is wrong with a record."""

    text: str
    of_content: bool = False
    """Whether the layout is right: then the record is of no use, and the rest of the file is."""


class Entry(NamedTuple):
    """A record, and why no case can be made of it, with its place in the file; usually empty."""

    record: Record
    problem: str = ""


Check = Callable[[str, Record], Iterable[Problem]]
"""Takes what a record is called ("record 7") and the record, and says what is wrong with it."""


def read(path: Path, wrong: Check) -> list[Entry]:
    """Return the records of a .json or .jsonl file, each with what is wrong with its content.

    Raises `DataError` if the file or a record has another layout, or if no record is of any use. It
    names file and line, for the first five problems and their number.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from None
    lined = list(_lines(text, path) if path.suffix == ".jsonl" else _items(text, path))
    if not lined:
        raise DataError(f"{path}:1: there are no records")
    checked = [
        _checked(line, f"record {number}", record, wrong)
        for number, (line, record) in enumerate(lined, 1)
    ]
    _refuse(path, checked)
    return [Entry(each.record, each.told(path.name)) for each in checked]


class _Checked(NamedTuple):
    """A record, its place in the file, and what is wrong with it."""

    record: Any
    place: str
    problems: Sequence[Problem]

    def told(self, file: str) -> str:
        """Say what is wrong and where, or return an empty text."""
        texts = "; ".join(problem.text for problem in self.problems)
        return f"{file}:{self.place}: {texts}" if texts else ""


def _checked(line: int, here: str, record: Any, wrong: Check) -> _Checked:
    # A file may well have all its records in one line, so the line alone is not enough.
    place = f"{line}: {here}"
    if not isinstance(record, dict):
        return _Checked(record, place, [Problem(f"{kind_of(record)}, expected an object")])
    return _Checked(record, place, list(wrong(here, record)))


def _refuse(path: Path, checked: Sequence[_Checked]) -> None:
    """Raise `DataError` for problems of layout, or for those of content if every record has one."""
    found = [(each.place, problem) for each in checked for problem in each.problems]
    of_layout = [(place, problem) for place, problem in found if not problem.of_content]
    if not of_layout and not all(each.problems for each in checked):
        return
    told = [f"{path}:{place}: {problem.text}" for place, problem in of_layout or found]
    more = f"; these are the first {SHOWN}" if len(told) > SHOWN else ""
    count = f"{len(told)} problem{'s' if len(told) > 1 else ''}"
    raise DataError("; ".join(told[:SHOWN]), f"{count} in {path}{more}")


def wrong_text(record: Record, field: str) -> Problem | None:
    """Say what is wrong with a text, given by its path."""
    value: Any = record
    walked = ""
    for name in field.split("."):
        if not isinstance(value, dict):
            return Problem(f"{walked} is {kind_of(value)}, expected an object")
        walked = f"{walked}.{name}".lstrip(".")
        if name not in value:
            return Problem(f"{walked} is missing")
        value = value[name]
    return _wrong_value(field, value)


def wrong_list(field: str, value: Any) -> Iterator[Problem]:
    """Say what is wrong with a list of texts, which has at least one."""
    if not isinstance(value, list) or not value:
        expected = f"{field} is {kind_of(value)}, expected a list of texts"
        yield Problem(expected, of_content=isinstance(value, list))
        return
    for i, item in enumerate(value):
        if problem := _wrong_value(f"{field}[{i}]", item):
            yield problem


def wrong_texts(where: str, record: Record, fields: Iterable[str]) -> Iterator[Problem]:
    """Say what is wrong with texts of an object that stands somewhere in a record."""
    for field in fields:
        if problem := wrong_text(record, field):
            yield Problem(f"{where}.{problem.text}".lstrip("."), problem.of_content)


def wrong_names(field: str, value: Any) -> Iterator[Problem]:
    """Say what is wrong with a list of texts that may be empty."""
    if value != []:
        yield from wrong_list(field, value)


def wrong_objects(
    field: str, value: Any, wrong: Callable[[str, Record], Iterable[Problem]]
) -> Iterator[Problem]:
    """Say what is wrong with a list of objects, and, by ``wrong``, with each of them in its place."""
    if not isinstance(value, list):
        yield Problem(f"{field} is {kind_of(value)}, expected a list of objects")
        return
    for i, item in enumerate(value):
        place = f"{field}[{i}]"
        if isinstance(item, dict):
            yield from wrong(place, item)
        else:
            yield Problem(f"{place} is {kind_of(item)}, expected an object")


def kind_of(value: Any) -> str:
    """Name the kind of a value of JSON."""
    empty = isinstance(value, str | list) and not (
        value.strip() if isinstance(value, str) else value
    )
    return KINDS.get(type(value), "a number") + (" without content" if empty else "")


def _wrong_value(field: str, value: Any) -> Problem | None:
    if not isinstance(value, str) or not value.strip():
        expected = f"{field} is {kind_of(value)}, expected a text"
        return Problem(expected, of_content=isinstance(value, str))
    if SURROGATE.search(value):
        return Problem(f"{field} has half of a surrogate pair, expected a text", of_content=True)
    return None


def _lines(text: str, path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the line number and the value of each line that is not blank."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError) as error:
                raise _no_json(path, number, error) from None


def _items(text: str, path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the first line and the value of each item of a list.

    The list is walked here, since the parser of a whole file does not say where an item starts.
    """
    parse = json.JSONDecoder().raw_decode
    at = _skip(text, 0)
    if text[at : at + 1] != "[":
        raise DataError(f"{path}:1: expected a list of records, got {text[at : at + 20]!r}")
    at = _skip(text, at + 1)
    line, counted, mark = 1, 0, ","
    if text[at : at + 1] == "]":
        at, mark = at + 1, "]"
    while mark == ",":
        line, counted = line + text.count("\n", counted, at), at
        try:
            item, end = parse(text, at)
            at = _skip(text, end)
            if (mark := text[at : at + 1]) not in (",", "]"):
                raise JSONDecodeError("Expecting ',' or ']'", text, at)
        except (ValueError, RecursionError) as error:
            raise _no_json(path, getattr(error, "lineno", line), error) from None
        yield line, item
        at = _skip(text, at + 1)
    if rest := text[at:].strip():
        raise DataError(f"{path}: {rest[:20]!r} follows the end of the list")


def _skip(text: str, at: int) -> int:
    """Return where the white space at a place ends."""
    return SPACE.match(text, at).end()  # type: ignore[union-attr]


def _no_json(path: Path, line: int, error: ValueError | RecursionError) -> DataError:
    what = getattr(error, "msg", "") or str(error)
    return DataError(f"{path}:{line}: not JSON: {what}", "the file is damaged or cut off")
