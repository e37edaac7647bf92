"""The command ``verify``: reports on bundles, each read in a process of its own, none believed."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from edit_harness.errors import UsageError, one_line

from ..run.console import out
from . import sandbox
from .baseline import header_of
from .bundle import Report, shown
from .checks import HIGHEST
from .sandbox import Draw

GOOD, REJECTED = 0, 6


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
            found = sandbox.inspect(Path(bundle), min(level, HIGHEST), Path(name), known)
            report = replace(found, level=level)
            if level > HIGHEST and not report.having("failed"):
                report = sandbox.replay(report, Path(name), known, Draw(**draw))
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
    """Yield what each check came to, and what that means."""
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
