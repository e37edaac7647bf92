"""The command ``leaderboard build``: all bundles of a folder checked, and a site made of those that pass."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edit_harness import selection
from edit_harness.console import err
from edit_harness.errors import DataError, UsageError
from edit_harness.hookspecs import DISTRIBUTION
from edit_harness.leaderboard import verifying
from edit_harness.leaderboard.checks import HIGHEST
from edit_harness.leaderboard.findings import Report
from edit_harness.leaderboard.inspecting import inspect
from edit_harness.plugins import Plugins

if TYPE_CHECKING:
    from edit_harness.pages.site import Entry


def build(
    folder: str,
    out: str,
    title: str,
    baselines: Sequence[str] = (),
    reports: str | None = None,
) -> int:
    """Check the bundles, write the site, and return the exit code: 6 if a bundle was left out.

    ``reports`` is a folder with what ``verify --level 4 --json`` printed, the badges of bundles that
    were replayed. Raises `UsageError`, and `DataError` for a report that is none.
    """
    from edit_harness.pages import site

    bundles = found(folder)
    known = verifying.existing(baselines)
    replays = _replays(Path(reports)) if reports else {}
    rejected: list[tuple[str, str]] = []
    entries: list[Entry] = []
    with ExitStack() as stack:
        stack.enter_context(
            selection.chosen(plugin=(), include_path=(), only=[DISTRIBUTION], block=())
        )
        plugins = Plugins.installed()
        for bundle in bundles:
            # The site reads a run's folder as it is written, so all of them stay until then.
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="edit-harness-")))
            report = inspect(bundle, HIGHEST, place, known)
            if report.good:
                entries.append(_entry(report, place, plugins, known, replays))
            else:
                rejected.append((bundle.name, why(report)))
                err.print(f"left out {bundle.name}: {rejected[-1][1]}", markup=False)
        site.write(entries, rejected, Path(out), title)
    err.print(f"saved    {out}  ({len(entries)} runs, {len(rejected)} left out)", markup=False)
    return verifying.REJECTED if rejected else verifying.GOOD


def found(folder: str) -> list[Path]:
    """Return the bundles of a folder, by name. Raises `UsageError` if there are none."""
    place = Path(folder)
    if not place.is_dir():
        raise UsageError(f"there is no folder {folder}", "name the folder with the bundles")
    bundles = sorted(p for p in place.iterdir() if p.suffix == ".zip" or p.is_dir())
    if not bundles:
        raise UsageError(f"{folder} has no bundles", "edit-harness submit RUN makes one")
    return bundles


def why(report: Report) -> str:
    """Return why a bundle is left out, in a line."""
    first = (report.failed or report.unchecked)[0]
    return f"check {first.check}, {first.name}: {first.text}"


def _entry(
    report: Report,
    place: Path,
    plugins: Plugins,
    known: Sequence[Path],
    replays: dict[str, dict[str, Any]],
) -> Entry:
    from edit_harness.pages.site import Entry

    evidence = verifying.unpacked(report, place, plugins, known)
    notes = [f"{finding.name}: {finding.text}" for finding in report.flags]
    return Entry(evidence.run, evidence.submission, badge(replays.get(report.digest)), notes)


def badge(tally: dict[str, Any] | None) -> str:
    """Return what a bundle may be called: as far as somebody else has come to the same."""
    if tally is None:
        return "recomputed"
    agree, of = tally["agree"], tally["of"]
    return "reproduced" if agree == of else f"replayed {agree}/{of}"


def _replays(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what came of replays, by the digest of the bundle. Raises `DataError`."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            for report in json.loads(path.read_text(encoding="utf-8")):
                if report["good"] and report["replay"]:
                    found[report["digest"]] = report["replay"]
        except (OSError, ValueError, KeyError, TypeError):
            raise DataError(
                f"{path} is no report of a replay", "verify --level 4 --json prints one"
            ) from None
    return found
