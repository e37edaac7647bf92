"""One bundle inspected in a process within limits, and that process: ``python -m`` runs it.

What comes of it is a file that the process writes at its end, so that whatever a bundle does to it is a
line in a report. It needs no torch, loads bundled plugins only, and has no use for a network.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from edit_harness.hookspecs import DISTRIBUTION
from edit_harness.registry.selection import BLOCK, FILES, FOLDERS, ONLY

from . import apart
from .findings import Finding, Report
from .limits import Limits

WALL = 5
"""How many times its processor time a process may take in all."""
READER = ("0.0", "reader")
"""Stands for the process itself, where a check should."""


def inspect(
    bundle: Path,
    level: int,
    folder: Path,
    baselines: Sequence[Path] = (),
    limits: Limits | None = None,
) -> Report:
    """Check a bundle up to a level, at most 3, in a process of its own; never raises for what it holds.

    ``folder`` is empty, and has the unpacked members in ``members`` afterwards.
    """
    limits = limits or Limits()
    members, end = folder / "members", folder / "report.json"
    members.mkdir()
    task = {
        "bundle": str(bundle.absolute()),
        "level": level,
        "folder": str(members),
        "baselines": [str(path.absolute()) for path in baselines],
        "limits": asdict(limits),
        "end": str(end),
    }
    code = apart.run(__name__, task, folder, _environment(folder), WALL * limits.seconds)
    report = apart.written(end)
    if report is None:
        report = Report(str(bundle), level, [Finding(*READER, "failed", _why(code, limits))])
    return replace(report, bundle=str(bundle))


def _environment(folder: Path) -> dict[str, str]:
    """Return an environment of bundled plugins, one thread, and nothing that is the user's."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {
        **kept,
        FILES: "",
        FOLDERS: "",
        BLOCK: "",
        ONLY: DISTRIBUTION,
        "EDIT_HARNESS_CACHE": str(folder / "cache"),
        "HF_HUB_OFFLINE": "1",
        "HOME": str(folder),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _why(code: int | None, limits: Limits) -> str:
    """Return why a process has written nothing."""
    if code is None:
        return f"reading it takes longer than {WALL * limits.seconds} s"
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"reading it takes more than {limits.seconds} s of processor time"
    return (
        f"reading it ended the process ({apart.how(code)}), which may have {limits.memory:,} bytes"
    )


def main(task: Mapping[str, Any]) -> None:
    """Inspect a bundle in this process, which takes the limits upon itself first."""
    limits = Limits(**task["limits"])
    _limit(resource.RLIMIT_AS, limits.memory)
    _limit(resource.RLIMIT_CPU, limits.seconds)
    _limit(resource.RLIMIT_FSIZE, limits.uncompressed)
    _limit(resource.RLIMIT_CORE, 0)
    # After the limits, as imports are of no bundle's making but count all the same.
    from edit_harness.registry.registry import Plugins

    from . import checks
    from .evidence import Evidence

    evidence = Evidence(
        Path(task["bundle"]),
        Path(task["folder"]),
        limits,
        Plugins.installed(),
        [Path(path) for path in task["baselines"]],
    )
    findings: list[Finding] = []
    try:
        findings.extend(checks.found(evidence, task["level"]))
    except MemoryError:
        why = f"reading it takes more than {limits.memory:,} bytes of memory"
        findings.append(Finding(*READER, "failed", why))
    digest = evidence.digests.get("SHA256SUMS", "")
    report = Report(task["bundle"], task["level"], findings, digest)
    apart.write(Path(task["end"]), report)


def _limit(what: int, most: int) -> None:
    """Lower a limit of this process; one that is lower already stays."""
    hard = resource.getrlimit(what)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (most, most))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
