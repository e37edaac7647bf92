"""JSON that a stranger wrote: nothing that parsers read in two ways, and nothing beyond the limits."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from .findings import Rejected, shown
from .limits import Limits


def loads(raw: bytes, limits: Limits) -> Any:
    """Return a JSON value. Raises `Rejected` for what is none, or is not as strict as it has to be.

    ASCII only: half of a surrogate pair can be written as an escape, and is found by encoding.
    """

    def whole(text: str) -> int:
        _check_length(text, limits)
        return int(text)

    def real(text: str) -> float:
        _check_length(text, limits)
        if not math.isfinite(value := float(text)):
            raise Rejected(f"the number {text} is out of range")
        return value

    try:
        value = json.loads(
            raw.decode("ascii"),
            parse_int=whole,
            parse_float=real,
            parse_constant=_no_number,
            object_pairs_hook=_distinct,
        )
    except UnicodeDecodeError as error:
        raise Rejected(f"byte {error.start} is not ASCII: 0x{raw[error.start]:02x}") from None
    except RecursionError:
        raise Rejected(f"deeper than {limits.depth}") from None
    except ValueError as error:
        raise Rejected(f"no JSON: {shown(str(error))}") from None
    _check(value, limits, limits.depth)
    return value


def document(path: Path, limits: Limits) -> dict[str, Any]:
    """Return the object of a file. Raises `Rejected`."""
    if path.stat().st_size > limits.document:
        raise Rejected(f"larger than {limits.document:,} bytes")
    value = loads(path.read_bytes(), limits)
    if not isinstance(value, dict):
        raise Rejected("no JSON object")
    return value


def lines(path: Path, limits: Limits) -> Iterator[bytes]:
    """Yield the lines of a file, without their ends. Raises `Rejected` with the line's number."""
    with path.open("rb") as file:
        for number in range(1, limits.rows + 2):
            if not (line := file.readline(limits.row + 1)):
                return
            if number > limits.rows:
                raise Rejected(f"more than {limits.rows:,} lines")
            if len(line) > limits.row:
                raise Rejected(f"line {number} is longer than {limits.row:,} bytes")
            if not line.endswith(b"\n"):
                raise Rejected(f"line {number} has no end: the file was cut off")
            yield line[:-1]


def objects(path: Path, limits: Limits) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yield each line with the object that it is. Raises `Rejected` with the line's number."""
    for number, raw in enumerate(lines(path, limits), 1):
        try:
            value = loads(raw, limits)
            if not isinstance(value, dict):
                raise Rejected("no JSON object")
        except Rejected as error:
            raise Rejected(f"line {number}: {error}") from None
        yield raw, value


def _check(value: Any, limits: Limits, room: int) -> None:
    """Raise `Rejected` for what is nested too deep, too long, or no text."""
    if isinstance(value, str):
        if len(value) > limits.text:
            raise Rejected(f"a text of {len(value):,} characters, more than {limits.text:,}")
        if not value.isascii():
            _check_encodable(value)
    elif isinstance(value, dict | list):
        if not room:
            raise Rejected(f"deeper than {limits.depth}")
        for item in value.values() if isinstance(value, dict) else value:
            if isinstance(item, str | dict | list):
                _check(item, limits, room - 1)
        for key in value if isinstance(value, dict) else ():
            _check(key, limits, room - 1)


def _check_encodable(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Rejected("a text with half of a surrogate pair") from None


def _check_length(text: str, limits: Limits) -> None:
    if len(text) > limits.number:
        raise Rejected(f"a number of {len(text):,} characters, more than {limits.number}")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Rejected(f"the key {shown(twice)!r} is there twice")
    return found


def _no_number(text: str) -> NoReturn:
    raise Rejected(f"{text} is no JSON number")
