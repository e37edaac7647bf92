"""Runs Python in a process of its own, which finds the modules that this one finds."""

from __future__ import annotations

import os
import subprocess
import sys


def python(*args: str, given: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run Python with arguments, bytes for its standard input and variables of the environment."""
    path = os.pathsep.join(filter(None, sys.path))
    return subprocess.run(
        [sys.executable, *args],
        input=given,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path, **env},
    )
