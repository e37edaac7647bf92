"""Records of a benchmark's file: read, with the place of whatever is wrong in them.

A file is a list of records in JSON, or JSON Lines. What a record must have is said by the caller;
where the file comes from stands in `edit_harness_plugins.tasks.published`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from json import JSONDecodeError
from pathlib import Path
from typing import Any

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


def read(path: Path, wrong: Callable[[str, Record], Iterable[str]]) -> list[Record]:
    """Return the records of a .json or .jsonl file, checked.

    ``wrong`` takes what a record is called ("record 7") and the record, and says what is wrong.
    Raises `DataError` that names file and line, for the first five problems and their number.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from None
    lined = list(_lines(text, path) if path.suffix == ".jsonl" else _items(text, path))
    problems = [f"{path}:{line}: {problem}" for line, problem in _problems(lined, wrong)]
    if problems:
        more = f"; these are the first {SHOWN}" if len(problems) > SHOWN else ""
        count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
        raise DataError("; ".join(problems[:SHOWN]), f"{count} in {path}{more}")
    if not lined:
        raise DataError(f"{path}:1: there are no records")
    return [record for _, record in lined]


def wrong_text(record: Record, field: str) -> str:
    """Say what is wrong with a text, given by its path, or return an empty text."""
    value: Any = record
    walked = ""
    for name in field.split("."):
        if not isinstance(value, dict):
            return f"{walked} is {kind_of(value)}, expected an object"
        walked = f"{walked}.{name}".lstrip(".")
        if name not in value:
            return f"{walked} is missing"
        value = value[name]
    return _wrong_content(field, value)


def wrong_list(field: str, value: Any) -> Iterator[str]:
    """Say what is wrong with a list of texts."""
    if not isinstance(value, list) or not value:
        yield f"{field} is {kind_of(value)}, expected a list of texts"
        return
    for i, item in enumerate(value):
        if problem := _wrong_content(f"{field}[{i}]", item):
            yield problem


def kind_of(value: Any) -> str:
    """Name the kind of a value of JSON."""
    empty = isinstance(value, str | list) and not (
        value.strip() if isinstance(value, str) else value
    )
    return KINDS.get(type(value), "a number") + (" without content" if empty else "")


def _wrong_content(field: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        return f"{field} is {kind_of(value)}, expected a text"
    if SURROGATE.search(value):
        return f"{field} has half of a surrogate pair, expected a text"
    return ""


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


def _problems(
    lined: Iterable[tuple[int, Any]], wrong: Callable[[str, Record], Iterable[str]]
) -> Iterator[tuple[int, str]]:
    """Yield the line and the description of whatever is wrong with the records."""
    for number, (line, record) in enumerate(lined, 1):
        # A file may well have all its records in one line, so the line alone is not enough.
        here = f"record {number}"
        if isinstance(record, dict):
            yield from ((line, f"{here}: {problem}") for problem in wrong(here, record))
        else:
            yield line, f"{here} is {kind_of(record)}, expected an object"
