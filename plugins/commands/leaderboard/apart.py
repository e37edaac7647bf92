"""A module run in a process of its own, which ends with a report in a file, or is ended.

Whatever a bundle does to that process is a line in a report, and nothing to the one that waits for it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from .findings import Finding, Report


def run(
    module: str,
    task: Mapping[str, Any],
    folder: Path,
    environment: Mapping[str, str],
    seconds: float | None,
) -> int | None:
    """Run a module on a task, and return its exit code; None if it took longer than ``seconds``.

    The processes that it has started end with it.
    """
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", module, json.dumps(task)],
        cwd=folder,
        env={
            **environment,
            "PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path))),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=None if "EDIT_HARNESS_DEBUG" in os.environ else subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def write(end: Path, report: Report) -> None:
    """Write a report, as the last thing that the process does."""
    end.write_text(json.dumps(report.as_dict()), encoding="ascii")


def written(end: Path) -> Report | None:
    """Return the report of a process; None if it came to none."""
    try:
        data = json.loads(end.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    known = {name: data[name] for name in ("bundle", "level", "digest", "replay")}
    return Report(**known, findings=[Finding(**each) for each in data["findings"]])


def how(code: int) -> str:
    """Return how a process ended that has written nothing."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"
