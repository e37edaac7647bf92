"""Runs Python in a process of its own, which finds the modules that this one finds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

NEEDED = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "SYSTEMROOT")
"""What a process needs of the environment to find its way."""


def python(*args: str, given: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run Python with arguments, bytes for its standard input and variables of the environment."""
    return _run(args, given, {**os.environ, **env}, None)


def bare_python(*args: str, folder: str) -> subprocess.CompletedProcess[bytes]:
    """Run Python in a folder, in an environment in which nothing has been set yet."""
    kept = {k: v for k, v in os.environ.items() if k in NEEDED or k.startswith("EDIT_HARNESS_")}
    return _run(args, b"", kept, folder)


def _run(
    args: Sequence[str], given: bytes, env: Mapping[str, str], folder: str | None
) -> subprocess.CompletedProcess[bytes]:
    path = os.pathsep.join(os.path.abspath(part) for part in sys.path if part)
    return subprocess.run(
        [sys.executable, *args],
        input=given,
        capture_output=True,
        check=False,
        cwd=folder,
        env={**env, "PYTHONPATH": path},
    )
