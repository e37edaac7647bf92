"""Loads one package in a process of its own, within limits, to see what it does to an interpreter.

What the process comes to it writes down at its end: how it ends shows nothing, as a plugin may end it with
any code. The suites of a package are run by `edit_harness_plugins.commands.authoring.supervision`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from edit_harness.registry import selection as discovery
from edit_harness.registry.packages import Package
from edit_harness.registry.sources import FileEntry

LIMIT_SECONDS, LIMIT_BYTES = 60, 4 << 30
"""What a package may take to load; the bytes are its data, as libraries map more than they use."""
LOAD = """
import json, os, resource, sys
limit, end = int(sys.argv.pop()), sys.argv.pop()
hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
soft = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
from edit_harness.registry import guard as blame, registry as plugins
try:
    found = plugins.Plugins.installed()
    reasons = [f.reason for f in found.failures] if found.packages else ["it is not found there"]
except Exception as error:
    reasons = [blame.said(error)]
with open(end, "w") as file:
    json.dump(reasons, file)
os._exit(0)
"""


def trouble(package: Package) -> str:
    """Return why a package does not load, in a process that has no other, within the limits; empty if it does."""
    try:
        with tempfile.TemporaryDirectory(prefix="edit-harness-") as folder:
            return _loaded(package, Path(folder) / "end.json")
    except OSError as error:
        return f"cannot be tried: {error.strerror}"


def _loaded(package: Package, end: Path) -> str:
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", LOAD, str(end), str(LIMIT_BYTES)],
        env={**os.environ, **_environment(package)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        code = process.wait(LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        return f"takes longer than {LIMIT_SECONDS} s"
    finally:
        _kill(process)
    return _came_to(end, code)


def _environment(package: Package) -> dict[str, str]:
    """Return the variables that say: this package, and no other."""
    nothing = {discovery.ONLY: "", discovery.BLOCK: "", discovery.FILES: "", discovery.FOLDERS: ""}
    return {**nothing, **_naming(package), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def _naming(package: Package) -> dict[str, str]:
    if not package.named:
        return {discovery.ONLY: package.name}
    files = [str(entry.path) for entry in package.entries if isinstance(entry, FileEntry)]
    if files:
        return {discovery.FILES: os.pathsep.join(files)}
    return {discovery.FOLDERS: package.source.rpartition(" (sources")[0]}


def _came_to(end: Path, code: int) -> str:
    try:
        return "; ".join(json.loads(end.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"kills the interpreter: {how}"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the process and those that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
