"""The rows of a bundle, read more strictly than a run folder's: whoever wrote them may have meant harm."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from edit_harness.cases import Visit
from edit_harness.folder.record import OK, Record

from . import strict
from .findings import Rejected, shown
from .limits import Limits

VERSION = 4
FIRST = ("v", "seq", "fp")
OF_RECORD = (*FIRST, "case", "state", "try", "status")
OF_WITHDRAWAL = (*FIRST, "withdraws", "why", "crc")
TRY = "attempt"
"""What a record calls its ``try``, which is no name in Python."""
KNOWN = {f.name for f in fields(Record)} - {TRY} | {*OF_RECORD, "crc"}
TYPES: Mapping[str, Any] = {
    "case": str, "state": int, "try": int, "status": str, "values": dict, "before": list,
    "after": list, "edit": dict, "noop": bool, "seconds": dict, "message": str,
}  # fmt: skip
MARK = b', "crc": "'


@dataclass
class Rows:
    """All rows, in their order, and which of them count."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    damaged: list[int] = field(default_factory=list)
    """The numbers of lines whose checksum is not theirs."""

    @classmethod
    def read(cls, path: Path, limits: Limits) -> Rows:
        """Return the rows of a file. Raises `Rejected` for what is no row."""
        found = cls()
        for number, (raw, row) in enumerate(strict.objects(path, limits), 1):
            try:
                _check(row)
            except Rejected as error:
                raise Rejected(f"line {number}: {error}") from None
            if f"{zlib.crc32(raw[: raw.rfind(MARK)]):08x}" != row["crc"]:
                found.damaged.append(number)
            found.rows.append(row)
        return found

    @property
    def withdrawals(self) -> Iterator[dict[str, Any]]:
        """The rows that say of others that they do not count."""
        return (row for row in self.rows if "withdraws" in row)

    def kept(self) -> list[dict[str, Any]]:
        """Return the rows of visits that were not withdrawn, in their order."""
        gone: set[int] = set()
        for row in self.withdrawals:
            first, last = row["withdraws"]
            gone.update(range(max(first, 0), min(last, len(self.rows)) + 1))
        return [row for row in self.rows if "withdraws" not in row and row["seq"] not in gone]

    def records(self) -> list[Record]:
        """Return the records that count: the last of each visit."""
        found = {visit_of(row): row for row in self.kept()}
        return [record_of(row) for row in found.values()]


def visit_of(row: Mapping[str, Any]) -> Visit:
    """Return what tells a row's record apart from those of other visits."""
    return row["case"], row["state"]


def record_of(row: Mapping[str, Any]) -> Record:
    """Return the record of a row."""
    known = {f.name for f in fields(Record)}
    data = {TRY if key == "try" else key: value for key, value in row.items()}
    return Record(**{key: value for key, value in data.items() if key in known})


def history(kept: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what is wrong with the rows of one visit: tries that are not, or other answers in one.

    A case that came out well is not tried again, and more verdicts change no answer.
    """
    for before, now in zip((None, *kept), kept, strict=False):
        name = shown(now["case"])
        if before is None or now["try"] == before["try"]:
            if before and _answered(before) != _answered(now):
                yield f"row {now['seq']} gives try {now['try']} of case {name!r} other answers"
        elif now["try"] != before["try"] + 1:
            yield f"row {now['seq']} is try {now['try']} of case {name!r}, after {before['try']}"
        elif before["status"] == OK:
            yield f"row {now['seq']} tries case {name!r} again, which had come out well"


def _answered(row: Mapping[str, Any]) -> list[Any]:
    """Return a row's answers without what judges say of them."""
    answers = (*row.get("before", ()), *row.get("after", ()))
    bare = [
        {k: v for k, v in answer.items() if k != "verdict"} if isinstance(answer, dict) else answer
        for answer in answers
    ]
    return [row["status"], len(row.get("before", ())), *bare]


def _check(row: Mapping[str, Any]) -> None:
    """Raise `Rejected` unless a row has the keys, and the types, that it has to have."""
    names = list(row)
    withdrawal = "withdraws" in row
    first = OF_WITHDRAWAL if withdrawal else OF_RECORD
    if tuple(names[: len(first)]) != first or names[-1] != "crc":
        raise Rejected(f"a row begins with {', '.join(first)} and ends with crc")
    rest = names[len(first) : -1]
    if rest != sorted(rest):
        raise Rejected("the fields of a row are sorted by name")
    if unknown := [n for n in rest if n not in KNOWN and not n.startswith("x_")]:
        raise Rejected(f"a row has no field {shown(unknown[0])!r}")
    if row["v"] != VERSION:
        raise Rejected(f"version {shown(row['v'])} of rows, not {VERSION}")
    for name, kind in {"seq": int, "fp": str, "crc": str, **({} if withdrawal else TYPES)}.items():
        if name in row and type(row[name]) is not kind:
            raise Rejected(f"{name} is {shown(row[name])}, no {kind.__name__}")
    if withdrawal:
        _check_withdrawal(row)
    else:
        _check_record(row)


def _check_record(row: Mapping[str, Any]) -> None:
    if row["state"] < 0 or row["try"] < 1:
        raise Rejected("states begin at 0, and tries at 1")
    for name in ("values", "seconds"):
        groups = row.get(name, {}).values() if name == "values" else [row.get(name, {})]
        for group in groups:
            if not isinstance(group, dict) or not all(map(is_number, group.values())):
                raise Rejected(f"{name} are no numbers by name")


def _check_withdrawal(row: Mapping[str, Any]) -> None:
    span = row["withdraws"]
    if type(span) is not list or [type(end) for end in span] != [int, int]:
        raise Rejected("a withdrawal is of the rows from one number to another")
    if not 0 <= span[0] <= span[1] < row["seq"]:
        raise Rejected(f"rows {shown(span)} cannot be withdrawn by row {row['seq']}")


def is_number(value: object) -> bool:
    """Tell whether a value is a number, and no boolean."""
    return type(value) in (int, float)
