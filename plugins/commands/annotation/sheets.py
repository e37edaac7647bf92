"""The sheet that an annotator fills in: a CSV file that gets through spreadsheet programs unharmed.

It is written as UTF-8 with a byte order mark, without which Excel reads it as another encoding; a
text that such a program would run as a formula has an apostrophe before it. What is asked in a sheet,
and of which texts, is not known here.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from edit_harness.errors import DataError, UsageError

SEPARATORS = ",;\t"
"""What stands between cells: ours, and what spreadsheet programs of other languages write."""
GUARD = "'"
GUARDED = re.compile("['=+\\-@\t\n＝＋－＠]")
"""How a text begins that needs a guard; the guard itself is one, so that it can be taken off."""
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
"""Characters of control and of direction, and halves of surrogate pairs."""


@dataclass(frozen=True)
class Row:
    """A line of a sheet that was filled in."""

    where: str
    """The file and the number of the row, as a spreadsheet program counts."""
    cells: Mapping[str, str]
    """By the heading of their column, without guards; empty where the row is too short."""


def shown(text: str) -> str:
    """Return a text as a sheet has it: with escapes for what cannot be shown, or should not."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), plain)


def same(one: str, other: str) -> bool:
    """Tell whether two texts differ in white space at most, which programs change when they save."""
    return one.split() == other.split()


def write(path: Path, names: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
    """Write a sheet with a column for each name; a row's missing cells are empty."""
    with open(path, "w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writerow({name: _guarded(name) for name in names})
        writer.writerows({n: _guarded(cell) for n, cell in row.items()} for row in rows)


def read(path: Path, names: Sequence[str]) -> list[Row]:
    """Return the rows of a sheet that was filled in; empty ones are left out.

    Raises `UsageError` if there is no such file, and `DataError` if it is not UTF-8, no CSV, or has
    not each of the columns once.
    """
    text = _text(path)
    try:
        separator = _separator(path, text, names)
        table = list(csv.reader(_lines(text), delimiter=separator, strict=True))
    except csv.Error as error:
        raise DataError(f"{path} is no CSV: {error}", "save the sheet as CSV (UTF-8)") from None
    heads = _heads(text, separator)
    return [
        Row(
            f"{path}: row {number}",
            dict(zip_longest(heads, map(_unguarded, cells[: len(heads)]), fillvalue="")),
        )
        for number, cells in enumerate(table[1:], 2)
        if any(cell.strip() for cell in cells)
    ]


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"the sheet {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path} is not UTF-8: line {line} has the byte {error.object[error.start]:#04x}",
            "save the sheet again, as 'CSV UTF-8' or with the character set UTF-8",
        ) from None


def _separator(path: Path, text: str, names: Sequence[str]) -> str:
    """Return what separates cells: that with which every column is found once."""
    missing = {}
    for separator in SEPARATORS:
        heads = _heads(text, separator)
        missing[separator] = [name for name in names if heads.count(name) != 1]
        if not missing[separator]:
            return separator
    fewest = min(missing.values(), key=len)
    raise DataError(
        f"{path} has the column {fewest[0]!r} not at all, or more than once",
        "keep all columns of the sheet that was handed out; more may be added",
    )


def _heads(text: str, separator: str) -> list[str]:
    """Return the headings of the columns, if this is what separates them."""
    heads = next(csv.reader(_lines(text), delimiter=separator), [])
    return [_unguarded(head.strip()) for head in heads]


def _lines(text: str) -> io.StringIO:
    return io.StringIO(text, newline="")


def _guarded(text: str) -> str:
    return GUARD + text if GUARDED.match(text) else text


def _unguarded(cell: str) -> str:
    """Return a cell without its guard, which some programs have taken off already."""
    guarded = cell.startswith(GUARD) and GUARDED.match(cell, 1)
    return cell.removeprefix(GUARD) if guarded else cell
