"""What the suites of all kinds share; it needs no torch.

A check that changes the process leaves nothing to the next, and what a component does to folders, threads
and the screen is checked for several kinds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ..registry import guard

KEPT = "keep.txt"
"""A file of the user's."""
PATIENCE = 1.0
"""Seconds that a thread may take to end."""


class Suite:
    """The base of all suites."""

    @pytest.fixture(autouse=True)
    def process_as_before(self) -> Iterator[None]:
        """Put the process back, so that one fault fails the checks that are for it, and no others."""
        before = guard.read()
        yield
        guard.put_back(before)


class TraceChecks(Suite):
    """Being used leaves nothing on disk, in the background, or on the screen."""

    def using(self) -> Callable[[], object]:
        """Return a function that does once what a run does with the component."""
        raise NotImplementedError

    def test_leaves_the_working_folder_alone(self) -> None:
        """What lies in the folder that a run is started in is its user's."""
        use = self.using()
        with TemporaryDirectory() as folder, chdir(folder):
            Path(KEPT).write_text("kept", encoding="utf-8")
            before = listed(folder)
            with suppress(Exception):  # other checks are for errors
                use()
            after = listed(folder)
        gone, made = sorted(before.keys() - after.keys()), sorted(after.keys() - before.keys())
        assert not gone, f"it removed files from the working folder: {', '.join(gone)}"
        assert not made, f"it made files in the working folder: {', '.join(made)}"
        assert after == before, "it changed a file in the working folder"

    def test_leaves_nothing_running(self) -> None:
        """A thread or a process that goes on keeps a run from ending."""
        use, threads, processes = self.using(), set(threading.enumerate()), children()
        with suppress(Exception):
            use()
        left = [t for t in threading.enumerate() if t not in threads and not t.daemon]
        for thread in left:
            thread.join(PATIENCE)
        names = [thread.name for thread in left if thread.is_alive()]
        assert not names, f"it leaves a thread that goes on ({', '.join(names)}): join it"
        new = len(children() - processes)
        assert not new, f"it leaves {new} child processes: wait for them to end"

    def test_prints_nothing(self, capfd: pytest.CaptureFixture[str]) -> None:
        """What it prints would stand in the table of a run, and in its JSON."""
        use = self.using()
        capfd.readouterr()
        with suppress(Exception):
            use()
        said, _ = capfd.readouterr()
        assert not said, f"it prints {said[:200]!r}: use logging"


def listed(folder: str) -> dict[str, tuple[int, int]]:
    """Return the files below a folder by their paths, each with its size and when it was written."""
    found = {str(path.relative_to(folder)): path.stat() for path in Path(folder).rglob("*")}
    return {name: (at.st_size, at.st_mtime_ns) for name, at in found.items()}


def children() -> set[int]:
    """Return the processes that this one started and that are there; none where /proc is not."""
    found = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return {int(number) for path in found for number in path.read_text().split()}


def python(
    *args: str, given: bytes = b"", env: Mapping[str, str] | None = None, folder: str | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run Python in a process of its own, which finds the modules that this one finds."""
    path = os.pathsep.join(os.path.abspath(part) for part in sys.path if part)
    return subprocess.run(
        [sys.executable, *args], input=given, capture_output=True, check=False, cwd=folder,
        env={**(os.environ if env is None else env), "PYTHONPATH": path},
    )  # fmt: skip
