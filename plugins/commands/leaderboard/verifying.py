"""The command ``verify``: reports on bundles, each read in a process of its own, none believed."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edit_harness.errors import UsageError
from edit_harness.escapes import one_line
from edit_harness.registry.registry import Plugins
from edit_harness.wording import counted

from ..run.console import out
from .checks import HIGHEST
from .evidence import Evidence
from .findings import Report, shown
from .inspecting import inspect
from .limits import SUMS, Limits
from .replaying import Draw, replay

GOOD, REJECTED = 0, 6


@dataclass(frozen=True, kw_only=True)
class Flags:
    """The flags of ``verify``, as they were parsed."""

    bundles: Sequence[str]
    level: int
    baseline: Sequence[str]
    beacon: str
    number: int
    model: str
    seconds: float
    as_json: bool
    debug: bool

    @property
    def draw(self) -> Draw:
        """How cases are drawn, and run again."""
        return Draw(beacon=self.beacon, number=self.number, model=self.model, seconds=self.seconds)


def verify(flags: Flags) -> int:
    """Check every bundle, print the reports, and return the exit code. Raises `UsageError`."""
    if flags.level > HIGHEST and not flags.beacon:
        raise UsageError(
            "--level 4 draws cases by a beacon",
            "--beacon TEXT: what nobody knew before the submission, such as a public random number",
        )
    for bundle in flags.bundles:
        if not Path(bundle).exists():
            raise UsageError(
                f"there is no bundle {bundle}", "name a .zip, or a folder of its files"
            )
    known = existing(flags.baseline)
    reports = []
    for bundle in flags.bundles:
        reports.append(checked(Path(bundle), flags, known))
        if not flags.as_json:
            show(reports[-1])
    if flags.as_json:
        out.out(json.dumps([report.as_dict() for report in reports], indent=1), highlight=False)
    return GOOD if all(report.good for report in reports) else REJECTED


def existing(names: Sequence[str]) -> list[Path]:
    """Return the files of baselines that were named. Raises `DataError` for one that is none."""
    from . import baselines

    paths = [Path(name) for name in names]
    for path in paths:
        baselines.header_of(path)
    return paths


def checked(bundle: Path, flags: Flags, known: Sequence[Path] = ()) -> Report:
    """Return the report on one bundle; whatever it holds, none of it is raised."""
    with tempfile.TemporaryDirectory(prefix="edit-harness-") as name:
        folder = Path(name)
        report = inspect(bundle, min(flags.level, HIGHEST), folder, known)
        if flags.level > HIGHEST:
            report = replace(report, level=flags.level)
            if not report.failed:
                report = replay(report, folder, known, flags.draw)
        return report


def unpacked(
    report: Report, folder: Path, plugins: Plugins, known: Sequence[Path] = ()
) -> Evidence:
    """Return the content of a bundle that was inspected there and not rejected."""
    return Evidence(
        Path(report.bundle), folder / "members", Limits(), plugins, known, {SUMS: report.digest}
    )


def show(report: Report) -> None:
    """Print a report: what each check came to, and what that means."""
    lines = [f"bundle   {report.bundle}"]
    for finding in report.findings:
        said = f": {finding.text}" if finding.text else ""
        lines.append(f"  {finding.check:<5}{finding.name:<12}{finding.outcome}{said}")
    for line in (*lines, *_conclusion(report)):
        out.print(one_line(line), markup=False, highlight=False, soft_wrap=True)


def _conclusion(report: Report) -> list[str]:
    """Return what a report comes to, in lines."""
    lines = []
    if tally := report.replay:
        lines.append(
            f"replay   {tally['agree']} of {tally['cases']} cases come out as submitted, of "
            f"{tally['of']} in all; largest difference {tally['worst']:.2g} nats"
        )
        lines.append(
            f"         drawn by the beacon {shown(tally['beacon'])!r}, {tally['asked']} asked for; "
            "--json names the cases"
        )
        if tally["more"]:
            lines.append(f"         and {len(tally['more'])} that the rows call invalid")
        if tally["controls"]:
            answers = counted(len(tally["controls"]), "answer")
            lines.append(f"         and {answers} of controls")
        for share, chance in tally["detection"].items():
            sure = 1.0 if tally["cases"] >= tally["of"] else chance
            lines.append(
                f"         {share} % altered cases are met with a probability of {100 * sure:.1f} %"
            )
    if report.failed:
        first = report.failed[0]
        return [*lines, f"rejected by check {first.check}, {first.name}"]
    if report.unchecked:
        return [
            *lines,
            f"not rejected; level {report.reached} of {report.level} could be checked in full",
        ]
    flags = f", {counted(len(report.flags), 'flag')} to look at" if report.flags else ""
    return [*lines, f"level {report.level} is passed{flags}"]
