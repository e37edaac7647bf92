"""The lock of a folder: one process at a time writes into it, and the lock ends with the process."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from .errors import ResourceError, RunFolderError

NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}
"""What a file system says that has no locks."""


@contextmanager
def held(folder: Path, instead: str) -> Iterator[list[str]]:
    """Hold a folder while the block runs; yields what there is to say of it.

    ``instead`` is what to do if another process has it, which raises `RunFolderError`. Raises
    `ResourceError` if the lock cannot be written.
    """
    lock, owner = FileLock(folder / "lock", mode=0o666), folder / "lock.owner"
    notes = []
    try:
        lock.acquire(blocking=False)
    except Timeout:
        by = _named(owner) or "another process"
        raise RunFolderError(f"{folder} is in use by {by}", instead) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise ResourceError(
                f"{folder / 'lock'} cannot be written: {error.strerror}",
                "see to the disk, and start it again",
            ) from None
        # The log finds a second writer, but only after it has written.
        notes.append("this file system has no locks: start no second process on this folder")
    try:
        if left := _named(owner):
            notes.append(f"took over from {left}, which is gone")
        with suppress(OSError):  # it is only for messages: a full disk is no reason to stop here
            since = time.strftime("%Y-%m-%d %H:%M")
            owner.write_text(f"pid {os.getpid()} on host {socket.gethostname()} since {since}")
        yield notes
    finally:
        with suppress(OSError):
            owner.unlink()
        lock.release()


def _named(owner: Path) -> str:
    """Return the process that holds a folder, or held it when it died."""
    with suppress(OSError):
        return owner.read_text(encoding="utf-8", errors="replace")
    return ""
