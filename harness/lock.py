"""Who may write into a folder: one process at a time, and which.

The lock is a file's, so that it ends with its process. Some clusters' file systems only pretend to
lock: that is tried out, and there a file that only one can create stands in for it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from .errors import ResourceError, RunFolderError
from .files import alive

HELD = {errno.EWOULDBLOCK, errno.EACCES}
"""What the system says of a lock that another has; anything else is a lock that does not work."""


@dataclass(frozen=True)
class Owner:
    """The process that holds a folder."""

    pid: int
    host: str
    since: str
    """Local time, for people; nothing is decided by it."""

    @classmethod
    def this(cls) -> Owner:
        """Return this process."""
        return cls(os.getpid(), socket.gethostname(), time.strftime("%Y-%m-%d %H:%M"))

    @classmethod
    def of(cls, text: str) -> Owner | None:
        """Return the process that a lock names; None if it names none."""
        try:
            owner = cls(**json.loads(text))
        except (TypeError, ValueError):
            return None
        return owner if isinstance(owner.pid, int) else None

    @property
    def gone(self) -> bool:
        """Whether it is known to have ended: of another host, nothing is known."""
        return self.host == socket.gethostname() and not alive(self.pid)

    def __str__(self) -> str:
        return f"pid {self.pid} on host {self.host} since {self.since}"


@contextmanager
def held(folder: Path, instead: str) -> Iterator[list[str]]:
    """Hold a folder while the block runs; yields what there is to say of it.

    ``instead`` is what to do if another process has it, which raises `RunFolderError`. Raises
    `ResourceError` if the lock cannot be written.
    """
    descriptor = _opened(folder / "lock", os.O_RDWR | os.O_CREAT)
    try:
        locks = _claim(descriptor, folder, instead)
        with _really(folder / "lock", locks, instead) as notes:
            notes = notes or _taken_over(descriptor)
            _name(descriptor, json.dumps(asdict(Owner.this())))
            try:
                yield notes
            finally:
                _name(descriptor, "")
    finally:
        os.close(descriptor)


def _opened(path: Path, how: int) -> int:
    try:
        return os.open(path, how, 0o666)
    except FileExistsError:
        raise
    except OSError as error:
        raise ResourceError(
            f"{path} cannot be written: {error.strerror}", "see to the disk, and start it again"
        ) from None


def _claim(descriptor: int, folder: Path, instead: str) -> bool:
    """Lock a file; False if the file system has no locks. Raises `RunFolderError`."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in HELD:
            return False
        owner = Owner.of(_text(descriptor))
        by = str(owner) if owner else "another process"
        raise RunFolderError(f"{folder} is in use by {by}", instead) from None
    return True


@contextmanager
def _really(path: Path, locks: bool, instead: str) -> Iterator[list[str]]:
    """Go on if a lock keeps a second one away, or else hold the file that stands in for it."""
    if locks and _keeps_away(path):
        yield []
    else:
        with _alone(path.with_name("lock.owner"), instead) as notes:
            yield notes


def _keeps_away(path: Path) -> bool:
    """Tell whether a lock that is held cannot be had again."""
    second = _opened(path, os.O_RDWR)
    try:
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(second)
    return False


@contextmanager
def _alone(path: Path, instead: str) -> Iterator[list[str]]:
    """Hold a file that exists as long as its owner does. Raises `RunFolderError`."""
    notes = [] if _create(path) else _steal(path, instead)
    try:
        yield notes
    finally:
        with suppress(OSError):
            path.unlink()


def _create(path: Path) -> bool:
    try:
        descriptor = _opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return False
    with os.fdopen(descriptor, "w") as file:
        json.dump(asdict(Owner.this()), file)
    return True


def _steal(path: Path, instead: str) -> list[str]:
    """Take the place of a process that is gone, and say so. Raises `RunFolderError`."""
    with suppress(FileNotFoundError):
        text = path.read_text(encoding="utf-8")
        owner = Owner.of(text)
        if owner is None or not owner.gone:
            raise RunFolderError(
                f"{path.parent} is in use by {owner or 'another process'}",
                f"{instead}; if that process is gone, remove {path}",
            )
        # Two may have read that it is gone: only one of them gets what it has read.
        mine = path.with_name(f"{path.name}.{os.getpid()}")
        path.rename(mine)
        if mine.read_text(encoding="utf-8") != text:
            with suppress(FileExistsError):
                os.link(mine, path)
        mine.unlink()
        if _create(path):
            return [f"took over from {owner}, which is gone"]
    raise RunFolderError(f"{path.parent} is in use by another process", instead)


def _taken_over(descriptor: int) -> list[str]:
    """Say whose lock this was, if it was left behind."""
    owner = Owner.of(_text(descriptor))
    return [f"took over from {owner}, which is gone"] if owner else []


def _text(descriptor: int) -> str:
    return os.pread(descriptor, 4096, 0).decode(errors="replace")


def _name(descriptor: int, text: str) -> None:
    # Only for messages, so that a full disk is no reason to stop here.
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)
