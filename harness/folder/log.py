"""Rows that are only ever appended, each with its number and a checksum: what a run stands on.

It knows rows, which are mappings, and bytes; what a row means stands in `record`. A row counts as
written once `Log.append` has returned. Reading never changes a file: what a crash left of a row is
left out, and cut off by the next process that writes. This module needs no torch.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from .. import files
from ..errors import ResourceError, RunFolderError
from ..files import dumps

VERSION = 4
MARK = 12
"""Hexadecimal digits of a run's fingerprint that each of its rows has."""
HEAD = re.compile(rb'\{"v": (\d{1,9}), "seq": (\d{1,18}), "fp": "([0-9a-f]{12})"[,}]')
CHECK = len(b', "crc": "00000000"}\n')


class Line(NamedTuple):
    """A sound row as it stands in its file."""

    seq: int
    start: int
    """Where it begins, in bytes."""
    data: bytes

    @property
    def row(self) -> dict[str, Any]:
        """What it says. Raises `ValueError` for what is no JSON, though its checksum fits."""
        return dict(parsed(self.data))


def parsed(data: bytes) -> Any:
    """Return what JSON of ours says. Raises `ValueError`."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:  # a model may write half of a surrogate pair, which msgspec refuses
        return files.strict(data)


@dataclass
class End:
    """How far a file's sound rows go: a scan fills it in."""

    rows: int = 0
    size: int = 0
    torn: int = 0
    """Bytes of an unfinished row after them."""
    mark: str = ""


def encoded(seq: int, mark: str, row: Mapping[str, Any]) -> bytes:
    """Return a row as its line: ASCII, its keys in the order given, and a checksum."""
    whole = {"v": VERSION, "seq": seq, "fp": mark, **row}
    body = "{" + ", ".join(f"{dumps(key)}: {dumps(value)}" for key, value in whole.items())
    return body.encode() + _check(body.encode())


def _check(body: bytes | memoryview) -> bytes:
    return b', "crc": "%08x"}\n' % zlib.crc32(body)


def sound(line: bytes) -> re.Match[bytes] | None:
    """Return what a line begins with; None for one that is not whole, or was changed."""
    return HEAD.match(line) if line.endswith(_check(memoryview(line)[:-CHECK])) else None


def scan(path: Path, mark: str = "", end: End | None = None) -> Iterator[Line]:
    """Yield the rows of a file, one at a time, up to an unfinished one at its end.

    ``mark`` is what all rows have to bear; by default the first row's. Raises `RunFolderError` for
    damage: a line that is not sound and not the last, or a row that is not in its place.
    """
    end = End() if end is None else end
    end.mark = mark
    try:
        file = open(path, "rb")  # noqa: SIM115  (closed below)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ResourceError(f"{path} cannot be read: {error.strerror}") from None
    with file:
        for data in file:
            if (head := sound(data)) is None:
                if data.endswith(b"\n") and file.readline():  # a crash leaves one unfinished row
                    raise damaged(path, end.rows, end.size, "its checksum does not fit")
                end.torn = len(data)
                return
            _check_place(path, head, end)
            yield Line(end.rows, end.size, data)
            end.rows += 1
            end.size += len(data)


def _check_place(path: Path, head: re.Match[bytes], end: End) -> None:
    """Raise `RunFolderError` if a sound line is not the row that is next."""
    version, seq, mark = int(head[1]), int(head[2]), head[3].decode()
    end.mark = end.mark or mark
    if version != VERSION:
        raise RunFolderError(
            f"{path} was made by another version (log format {version}, not {VERSION})",
            "read it with that version, or run it anew: --new",
        )
    if mark != end.mark:
        raise damaged(path, end.rows, end.size, f"it is of another run, {mark}")
    if seq != end.rows:
        raise damaged(path, end.rows, end.size, f"row {seq} stands in its place")


def damaged(path: Path, seq: int, start: int, why: object) -> RunFolderError:
    """Return the error for a row that is not as it was written."""
    return RunFolderError(
        f"row {seq} of {path} is damaged (byte {start}): {why}",
        f"nothing was changed; edit-harness score --repair {path.parent}",
    )


class Log:
    """A file that rows are appended to, by one process that holds its folder.

    An unfinished row at its end is cut off first, which ``notes`` tells. Raises `RunFolderError`
    if the file is damaged, `ResourceError` if it cannot be written: from then on nothing more is.
    """

    def __init__(self, path: Path, mark: str) -> None:
        self.path = path
        self.mark = mark[:MARK]
        self.notes: list[str] = []
        self._sync = os.environ.get("EDIT_HARNESS_FSYNC") != "none"
        self._dead = ""
        end = End()
        for _ in scan(path, self.mark, end):
            pass
        self.seq, self._size = end.rows, end.size
        try:
            self._descriptor = self._opened(end)
        except OSError as error:
            raise self._unwritable(error) from None

    def _opened(self, end: End) -> int:
        new = not self.path.exists()
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        if end.torn:
            os.ftruncate(descriptor, end.size)
            os.fsync(descriptor)
            self.notes.append(f"removed {end.torn} bytes of an unfinished row")
        if new:
            files.sync_folder(self.path.parent)
        return descriptor

    def append(self, row: Mapping[str, Any]) -> int:
        """Write a row, and return its number; then it is kept."""
        self._check()
        line = encoded(self.seq, self.mark, row)
        try:
            files.write(self._descriptor, line)
        except BaseException as error:
            self._dead = f"a row of {self.path} could not be finished"
            with suppress(OSError):  # what cannot be removed now is at the next start
                os.ftruncate(self._descriptor, self._size)
            if isinstance(error, OSError):
                raise self._unwritable(error) from None
            raise  # an interruption in the middle: the row was never acknowledged
        self.seq += 1
        self._size += len(line)
        if self._sync:
            try:
                os.fsync(self._descriptor)
            except OSError as error:  # what it has lost, the next would not tell: no second try
                self.seq -= 1
                raise self._unwritable(error) from None
        return self.seq - 1

    def _check(self) -> None:
        """Raise an error if nothing may be appended."""
        if self._dead:
            raise ResourceError(self._dead, "start the same command again")
        if not self.path.exists() or self.path.stat().st_size != self._size:
            self._dead = f"{self.path} was changed by another program"
            cause = f"{self._dead} while this one wrote to it: {self.seq} rows were kept"
            remedy = "see to it that nobody else does, and start the same command again"
            raise RunFolderError(cause, remedy)

    def _unwritable(self, error: OSError) -> ResourceError:
        self._dead = f"{self.path} cannot be written ({error.strerror}): {self.seq} rows kept"
        remedy = "make room or see to the disk, and start the same command again"
        return ResourceError(self._dead, remedy)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)
