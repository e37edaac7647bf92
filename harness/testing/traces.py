"""Checks of what a component leaves behind outside of the process's settings; for suites of several kinds.

What a process's settings are is the matter of `edit_harness.registry.process`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import chdir, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from .suite import Suite

KEPT = "keep.txt"
"""A file of the user's."""
PATIENCE = 1.0
"""Seconds that a thread may take to end."""


class TraceChecks(Suite):
    """Being used leaves nothing on disk, in the background, or on the screen."""

    def using(self) -> Callable[[], object]:
        """Return what does once what a run does with the component."""
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
    """Return the files below a folder by their paths, each with what changes when it is written."""
    found = {str(path.relative_to(folder)): path.stat() for path in Path(folder).rglob("*")}
    return {name: (at.st_size, at.st_mtime_ns) for name, at in found.items()}


def children() -> set[int]:
    """Return the processes that this one started and that are there; none where /proc is not."""
    found = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return {int(number) for path in found for number in path.read_text().split()}
