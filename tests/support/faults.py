"""System calls that fail when they are told to: what a full or a broken disk looks like to the log.

It stands in for the module `os` in those modules that write, and counts what they ask of it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from edit_harness import files
from edit_harness.folder import folder, log

SHORT = -1
"""A write that takes one byte only, in the place of an error."""
ERRORS = {
    "ftruncate": (errno.EIO,),
    "write": (SHORT, errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS),
    "fsync": (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS),
    "replace": (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS),
    "open": (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS),
}
"""What may come of each call."""


class Faulty:
    """The module `os`, whose n-th call of one name fails, once or from then on."""

    def __init__(self, name: str, error: int, number: int, lasting: bool) -> None:
        self.name, self.error, self.number, self.lasting = name, error, number, lasting
        self.calls = 0
        self.failed = False

    def __getattr__(self, name: str) -> Any:
        return self._call if name == self.name else getattr(os, name)

    def _call(self, *args: Any, **extra: Any) -> Any:
        self.calls += 1
        due = self.calls >= self.number if self.lasting else self.calls == self.number
        if not due:
            return getattr(os, self.name)(*args, **extra)
        self.failed = True
        if self.error == SHORT:
            return os.write(args[0], bytes(args[1])[:1])
        raise OSError(self.error, os.strerror(self.error))


@contextmanager
def failing(name: str, error: int, number: int, *, lasting: bool = False) -> Iterator[Faulty]:
    """Let the n-th call of a name fail in the modules that write a run folder."""
    faulty = Faulty(name, error, number, lasting)
    with pytest.MonkeyPatch.context() as patch:
        for module in (files, folder, log):
            patch.setattr(module, "os", faulty)
        yield faulty
