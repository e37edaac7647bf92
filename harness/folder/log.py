"""Rows that are only ever appended, each with its number and a checksum: what a run stands on.

It knows rows, which are mappings, and bytes; what a row means stands in `records`. A row counts as
written once `Log.append` has returned. Reading never changes a file: what a crash left of a row is
left out, and cut off by the next process that writes. This module needs no torch.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import IO, Any, NamedTuple, NoReturn

from .. import files
from ..errors import ResourceError, RunFolderError, UsageError
from ..files import dumps

VERSION = 4
POLICIES = ("row", "batch", "none")
"""When rows are made safe from a power cut: each, 64 or a second's worth, or when the system likes."""
BATCH, PAUSE = 64, 1.0
MIN_FREE = 64
"""MiB of a disk below which nothing is appended: EDIT_HARNESS_MIN_FREE."""
MARK = 12
"""Hexadecimal digits of a run's fingerprint that each of its rows has."""
BOM = b"\xef\xbb\xbf"
HEAD = re.compile(rb'\{"v": (\d{1,9}), "seq": (\d{1,18}), "fp": "([0-9a-f]{12})"[,}]')
CHECK = len(b', "crc": "00000000"}\n')
FULL = {errno.ENOSPC: "no space left", errno.EDQUOT: "no quota left"}


class Line(NamedTuple):
    """A sound row as it stands in its file."""

    seq: int
    start: int
    """Where it begins, in bytes."""
    data: bytes

    @property
    def row(self) -> dict[str, Any]:
        """What it says. Raises `ValueError` for what is no JSON, though its checksum fits."""
        return dict(files.strict(self.data))


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


def sound(line: bytes) -> bool:
    """Tell whether a line is whole and as it was written."""
    return _head(line) is not None


def _head(line: bytes) -> re.Match[bytes] | None:
    """Return what a sound line begins with; None for one that is not whole, or was changed."""
    return HEAD.match(line) if line.endswith(_check(memoryview(line)[:-CHECK])) else None


def scan(path: Path, mark: str = "", end: End | None = None) -> Iterator[Line]:
    """Yield the rows of a file, one at a time, up to an unfinished one at its end.

    ``mark`` is what all rows have to bear; by default the first row's. Raises `RunFolderError` for
    damage: a line that is not sound before one that is, or a row that is not in its place.
    """
    end = End() if end is None else end
    end.mark = mark
    if (file := _opened(path)) is None:
        return
    with file:
        for data in file:
            if (head := _head(data)) is None:
                end.torn = len(data) + _rest(path, file, data, end)
                return
            yield _placed(path, data, head, end)
            end.rows += 1
            end.size += len(data)


def _opened(path: Path) -> IO[bytes] | None:
    """Open a file to read; None if there is none."""
    try:
        return open(path, "rb")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ResourceError(f"{path} cannot be read: {error.strerror}") from None


def _placed(path: Path, data: bytes, head: re.Match[bytes], end: End) -> Line:
    """Return a sound line as the row that is next. Raises `RunFolderError` if it is not."""
    version, seq, mark = int(head[1]), int(head[2]), head[3].decode()
    end.mark = end.mark or mark
    if version != VERSION:
        raise other_version(path, version)
    if mark != end.mark:
        raise _damage(path, end, f"it is of another run, {mark}")
    if seq != end.rows:
        raise _damage(path, end, f"row {seq} stands in its place")
    return Line(seq, end.size, data)


def _rest(path: Path, file: Iterator[bytes], bad: bytes, end: End) -> int:
    """Return how many bytes follow an unsound line; `RunFolderError` if it is more than torn."""
    _check_version(path, bad)
    size = 0
    for data in file:
        if sound(data):
            raise _damage(path, end, _why(bad))
        size += len(data)
    if bad.startswith(BOM) or bad.endswith(b"\r\n"):
        raise _damage(path, end, _why(bad))
    return size


def _why(bad: bytes) -> str:
    if bad.startswith(BOM):
        return "a byte order mark was put before it"
    if bad.endswith(b"\r\n"):
        return "its line ends were changed to CRLF"
    return "its checksum does not fit"


def _check_version(path: Path, line: bytes) -> None:
    """Raise `RunFolderError` if a line is one of the time before there were checksums."""
    try:
        row = files.strict(line)
    except ValueError:
        return
    version = row.get("v") if isinstance(row, dict) and "crc" not in row else None
    if type(version) is int and version < VERSION:
        raise other_version(path, version)


def other_version(path: Path, version: int) -> RunFolderError:
    """Return the error for a file of another version of the format."""
    if version < VERSION:
        return RunFolderError(
            f"{path} was made by an older version (log format {version})",
            "read it with that version, or run it anew: --new",
        )
    return RunFolderError(
        f"{path} was made by a newer version (log format {version})", "update edit-harness"
    )


def _damage(path: Path, end: End, why: str) -> RunFolderError:
    return RunFolderError(
        f"row {end.rows} of {path} is damaged (byte {end.size}): {why}",
        f"nothing was changed; edit-harness repair {path.parent}",
    )


class Log:
    """A file that rows are appended to, by one process that holds its folder.

    An unfinished row at its end is put aside and cut off first, which ``notes`` tells. Raises
    `RunFolderError` if the file is damaged, `ResourceError` if it cannot be written: from then on
    nothing more is.
    """

    def __init__(self, path: Path, mark: str, policy: str | None = None) -> None:
        self.path = path
        self.mark = mark[:MARK]
        self.notes: list[str] = []
        self._policy = _policy(policy)
        self._least = _least_free()
        self._dead = ""
        end = End()
        for _ in scan(path, self.mark, end):
            pass
        self.seq, self._size = end.rows, end.size
        try:
            self._descriptor = self._opened(end)
        except OSError as error:
            raise _unwritable(path, error, self.seq) from None
        self._unsynced, self._synced_at = 0, monotonic()

    def _opened(self, end: End) -> int:
        if end.torn:
            self._put_aside(end)
        new = not self.path.exists()
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            if end.torn:
                os.ftruncate(descriptor, end.size)
                os.fsync(descriptor)
                self.notes.append(f"removed {end.torn} bytes of an unfinished row")
            if new:
                files.sync_folder(self.path.parent)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _put_aside(self, end: End) -> None:
        with open(self.path, "rb") as file:
            file.seek(end.size)
            files.put(self.path.with_suffix(".torn"), file.read())

    def append(self, row: Mapping[str, Any]) -> int:
        """Write a row, and return its number; then it is kept."""
        self._check()
        line = encoded(self.seq, self.mark, row)
        try:
            files.write(self._descriptor, line)
        except BaseException as error:
            self._cut_back()
            if isinstance(error, OSError):
                self._die(error)
            raise  # an interruption in the middle: the row was never acknowledged
        self.seq += 1
        self._size += len(line)
        self._unsynced += 1
        if self._due:
            self._sync()
        return self.seq - 1

    def _check(self) -> None:
        """Raise an error if nothing may be appended."""
        if self._dead:
            raise ResourceError(self._dead, "start the same command again")
        try:
            mine, there = os.fstat(self._descriptor), os.stat(self.path)
            free = shutil.disk_usage(self.path.parent).free
        except FileNotFoundError:
            self._lose("was removed")
        except OSError as error:
            self._die(error)
        if (mine.st_ino, mine.st_dev) != (there.st_ino, there.st_dev):
            self._lose("was replaced")
        if there.st_size != self._size:
            self._lose("was written to")
        if free < self._least << 20:
            self._die(OSError(errno.ENOSPC, f"less than {self._least} MiB are free"))

    @property
    def _due(self) -> bool:
        """Whether what was written since the last sync has to be made safe now."""
        if self._policy == "batch":
            return self._unsynced >= BATCH or monotonic() - self._synced_at >= PAUSE
        return self._policy == "row"

    def _sync(self) -> None:
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            # What a failed sync has lost, the next would not tell: it is never tried again.
            self.seq -= self._unsynced
            self._die(error)
        self._unsynced, self._synced_at = 0, monotonic()

    def _cut_back(self) -> None:
        """Remove a part of a row; what cannot be removed now is at the next start."""
        self._dead = f"a row of {self.path} could not be finished"
        with suppress(OSError):
            os.ftruncate(self._descriptor, self._size)

    def _lose(self, what: str) -> NoReturn:
        self._dead = f"{self.path} {what} by another program"
        raise RunFolderError(
            f"{self._dead} while this one wrote to it: {self.seq} rows were kept",
            "see to it that nobody else does, and start the same command again",
        )

    def _die(self, error: OSError) -> NoReturn:
        failure = _unwritable(self.path, error, self.seq)
        self._dead = failure.cause
        raise failure from None

    def close(self) -> None:
        """Make all rows safe and close the file. Raises `ResourceError` if that fails."""
        try:
            if self._unsynced and self._policy != "none" and not self._dead:
                self._sync()
        finally:
            os.close(self._descriptor)


def _unwritable(path: Path, error: OSError, rows: int) -> ResourceError:
    if error.errno in FULL:
        return ResourceError(
            f"{FULL[error.errno]} in {path.parent}: {rows} rows kept",
            "make room, and start the same command again",
        )
    return ResourceError(
        f"{path} cannot be written ({error.strerror}): {rows} rows kept",
        "see to the disk, and start the same command again",
    )


def _policy(given: str | None) -> str:
    policy = given or os.environ.get("EDIT_HARNESS_FSYNC") or "row"
    if policy not in POLICIES:
        raise UsageError(
            f"EDIT_HARNESS_FSYNC is {policy!r}, not one of {', '.join(POLICIES)}", "set it to row"
        )
    return policy


def _least_free() -> int:
    text = os.environ.get("EDIT_HARNESS_MIN_FREE") or str(MIN_FREE)
    if not text.isdecimal():
        raise UsageError(f"EDIT_HARNESS_MIN_FREE is {text!r}, no number of MiB", "set it to 64")
    return int(text)
