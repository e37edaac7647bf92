"""Cases of one bundle run again, in a process that can be ended, and that process: ``python -m`` runs it.

Unlike `inspecting` it loads a model and an editor, with the rights and the plugins of whoever verifies.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edit_harness.errors import HarnessError
from edit_harness.registry.registry import Plugins

from . import apart
from .checks import REPLAY
from .evidence import Evidence
from .findings import Finding, Report, shown
from .limits import SUMS, Limits


@dataclass(frozen=True, kw_only=True)
class Draw:
    """How cases are drawn, and run again."""

    beacon: str
    number: int
    model: str = ""
    seconds: float = 3600.0
    """How long all of it may take; 0 for as long as it takes."""


def replay(report: Report, folder: Path, known: Sequence[Path], draw: Draw) -> Report:
    """Return a report with what comes of running cases again; never raises for what a bundle holds.

    ``folder`` is what the bundle was inspected in, and ``known`` are baselines.
    """
    end = folder / "replay.json"
    task = {
        "report": {"bundle": report.bundle, "level": report.level, "digest": report.digest},
        "folder": str(folder / "members"),
        "baselines": [str(path.absolute()) for path in known],
        "draw": vars(draw),
        "end": str(end),
        "here": os.getcwd(),
    }
    code = apart.run(__name__, task, folder, os.environ, draw.seconds or None)
    found = apart.written(end) or _ended(report, code, draw)
    return replace(report, findings=[*report.findings, *found.findings], replay=found.replay)


def _ended(report: Report, code: int | None, draw: Draw) -> Report:
    if code is None:
        why = f"it took longer than {draw.seconds:g} s: fewer cases (-k), or --seconds N"
    else:
        why = f"it ended the process ({apart.how(code)})"
    return replace(report, findings=[_unchecked(why)])


def main(task: Mapping[str, Any]) -> None:
    """Run the cases again in this process; whatever goes wrong is why they could not be checked."""
    from .replay import replayed

    os.chdir(task["here"])  # where a model's folder, as it was named, lies
    report, draw = Report(**task["report"]), Draw(**task["draw"])
    tally: dict[str, Any] = {}
    try:
        evidence = Evidence(
            Path(report.bundle), Path(task["folder"]), Limits(), plugins := Plugins.installed(),
            list(map(Path, task["baselines"])), {SUMS: report.digest},
        )  # fmt: skip
        findings, tally = replayed(evidence, plugins, draw.model, draw.beacon, draw.number)
    except HarnessError as error:
        findings = [_unchecked(f"{error.cause}; {error.remedy}" if error.remedy else error.cause)]
    except Exception as error:  # an editor may raise anything, and so may what a bundle leads to
        findings = [_unchecked(f"it failed with {type(error).__name__}: {shown(str(error))}")]
    apart.write(Path(task["end"]), replace(report, findings=findings, replay=tally))


def _unchecked(why: str) -> Finding:
    return Finding(REPLAY, "replay", "unchecked", " ".join(why.split()))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
