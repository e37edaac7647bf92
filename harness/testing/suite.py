"""What the suites of all kinds share; it needs no torch."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from ..registry import guard


class Suite:
    """The base of all suites."""

    @pytest.fixture(autouse=True)
    def process_as_before(self) -> Iterator[None]:
        """Put the process back, so that one fault fails the checks that are for it, and no others."""
        before = guard.read()
        yield
        guard.put_back(before)


def python(
    *args: str, given: bytes = b"", env: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[bytes]:
    """Run Python in a process of its own, which finds the modules that this one finds."""
    env = {**env, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, *args], input=given, capture_output=True, check=False, env=env
    )


@contextmanager
def left_alone(
    state: Callable[[], Mapping[str, Any]] = guard.read, how: str = ""
) -> Iterator[None]:
    """Fail if the block changed something about the process, or whatever ``state`` returns."""
    before = state()
    yield
    changed = guard.changes(before, state())
    assert not changed, f"changed and not put back: {'; '.join(changed)}{how}"
