"""The command ``verify``: reports on bundles, none believed. A child process reads each within limits.

``python -m`` runs the child. Whatever a bundle does to it is a line in a report, which the child writes last.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from msgspec import convert

from edit_harness.errors import UsageError, one_line
from edit_harness.hookspecs import DISTRIBUTION
from edit_harness.registry.packages import BLOCK, FILES, ONLY
from edit_harness.registry.registry import Plugins

from ..run.console import out
from .baseline import header_of
from .bundle import HIGHEST, LIMITS, REPLAY, SUMS, Draw, Finding, Limits, Report, shown
from .evidence import Evidence

GOOD, REJECTED = 0, 6
WALL = 5
"""How many times its processor time a process may take in all."""
TAKEN = {
    "memory": resource.RLIMIT_AS, "seconds": resource.RLIMIT_CPU, "uncompressed": resource.RLIMIT_FSIZE,
}  # fmt: skip


def verify(
    bundles: Sequence[str], level: int, baseline: Sequence[str], as_json: bool, **draw: Any
) -> int:
    """Check every bundle, print the reports, and return the exit code. ``draw`` is of `Draw`."""
    if level > HIGHEST and not draw["beacon"]:
        raise UsageError(
            "--level 4 draws cases by a beacon",
            "--beacon TEXT: what nobody knew before the submission, such as a public random number",
        )
    if missing := [bundle for bundle in bundles if not Path(bundle).exists()]:
        raise UsageError(f"there is no bundle {missing[0]}", "name a .zip")
    known = existing(baseline)
    reports = []
    for bundle in bundles:
        with tempfile.TemporaryDirectory(prefix="edit-harness-") as name:
            found = inspect(Path(bundle), min(level, HIGHEST), Path(name), known)
            report = replace(found, level=level)
            if level > HIGHEST and not report.having("failed"):
                report = replay(report, Path(name), known, Draw(**draw))
        reports.append(report)
        for line in () if as_json else _lines(report):
            out.print(one_line(line), soft_wrap=True)
    if as_json:
        out.out(json.dumps([report.as_dict() for report in reports], indent=1))
    return GOOD if all(report.good for report in reports) else REJECTED


def existing(names: Sequence[str]) -> list[Path]:
    """Return the files of baselines that were named. Raises `DataError` for one that is none."""
    paths = [Path(name) for name in names]
    for path in paths:
        header_of(path)
    return paths


def _lines(report: Report) -> Iterator[str]:
    yield f"bundle   {report.bundle}"
    for finding in report.findings:
        said = f": {finding.text}" if finding.text else ""
        yield f"  {finding.check:<5}{finding.name:<12}{finding.outcome}{said}"
    if tally := report.replay:
        yield (
            f"replay   {tally['agree']} of {tally['cases']} cases come out as submitted, of "
            f"{tally['of']} in all; largest difference {tally['worst']:.2g} nats"
        )
        by = f"drawn by the beacon {shown(tally['beacon'])!r}, {tally['asked']} asked for"
        yield f"         {by}; --json names the cases"
    if failed := report.having("failed"):
        yield f"rejected by check {failed[0].check}, {failed[0].name}"
    elif not report.good:
        yield f"not rejected; level {report.reached} of {report.level} could be checked in full"
    else:
        yield f"level {report.level} is passed"


def inspect(
    bundle: Path, level: int, folder: Path, baselines: Sequence[Path], limits: Limits = LIMITS
) -> Report:
    """Check a bundle up to level 3, without a model; its members come to ``members`` in the folder."""
    (folder / "members").mkdir()
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    environment = {
        **kept, FILES: "", BLOCK: "", ONLY: DISTRIBUTION, "HOME": str(folder),
        "EDIT_HARNESS_CACHE": str(folder / "cache"), "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip
    report, wall = Report(str(bundle), level), WALL * limits.seconds
    found = _run(report, folder, environment, baselines, seconds=wall, limits=asdict(limits))
    if isinstance(found, Report):
        return found
    most = f"{limits.seconds} s of processor time and {limits.memory:,} bytes of memory"
    why = f"reading it {found}; it may take {most}"
    return replace(report, findings=[Finding("0.0", "reader", "failed", why)])


def replay(report: Report, folder: Path, baselines: Sequence[Path], draw: Draw) -> Report:
    """Return a report with what comes of running cases again, with the rights of whoever verifies."""
    known, wall = report.findings, draw.seconds or None
    found = _run(report, folder, os.environ, baselines, seconds=wall, draw=asdict(draw))
    if isinstance(found, Report):
        return replace(found, findings=[*known, *found.findings])
    why = f"it {found}: fewer cases (-k), or --seconds N"
    return replace(report, findings=[*known, Finding(*REPLAY, "unchecked", why)])


def _run(
    report: Report, folder: Path, env: Mapping[str, str], baselines: Sequence[Path], **task: Any
) -> Report | str:
    """Run the child, and return its report, or how it ended; what it has started ends with it."""
    end = folder / "report.json"
    end.unlink(missing_ok=True)
    task |= {
        "bundle": report.bundle, "level": report.level, "digest": report.digest, "folder": str(folder),
        "baselines": [str(path) for path in baselines], "here": os.getcwd(),
    }  # fmt: skip
    path = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", __name__, json.dumps(task)],
        cwd=folder,
        env={**env, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=None if "EDIT_HARNESS_DEBUG" in os.environ else subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        code = process.wait(task["seconds"])
        found = convert(json.loads(end.read_text(encoding="ascii")), Report)
    except subprocess.TimeoutExpired:
        return f"took longer than {task['seconds']:g} s"
    except (OSError, ValueError):
        return f"ended the process ({f'signal {-code}' if code < 0 else f'exit code {code}'})"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return found


def main(task: Mapping[str, Any]) -> None:
    """Check a bundle, or run some of its cases again, in this process."""
    draw, limits = task.get("draw"), Limits(**task.get("limits", {}))
    if draw is None:
        for name, what in TAKEN.items():
            hard = resource.getrlimit(what)[1]  # one that is lower already stays
            most = getattr(limits, name)
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(what, (most, most))
    os.chdir(task["here"])  # where a bundle and a model lie, as they were named
    evidence = Evidence(
        Path(task["bundle"]), Path(task["folder"]) / "members", Plugins.installed(),
        [Path(path) for path in task["baselines"]], {SUMS: task["digest"]} if draw else {}, limits,
    )  # fmt: skip
    tally: dict[str, Any] = {}
    if draw is None:
        from . import checks

        findings = list(checks.found(evidence, task["level"]))
    else:
        from . import replay

        findings, tally = replay.replayed(evidence, Draw(**draw))
    digest = evidence.digests.get(SUMS, "")
    report = Report(task["bundle"], task["level"], findings, digest, tally)
    Path(task["folder"], "report.json").write_text(json.dumps(report.as_dict()), "ascii")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
