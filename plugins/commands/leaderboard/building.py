"""The command ``leaderboard build``: all bundles of a folder checked, and a site made of those that pass."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edit_harness.errors import DataError, UsageError
from edit_harness.escapes import one_line
from edit_harness.folder.manifest import Identity
from edit_harness.hookspecs import DISTRIBUTION
from edit_harness.registry import selection
from edit_harness.registry.plugins import Plugins
from edit_harness.run.outcome import Run

from ..run.console import err
from . import names, verifying
from .agreement import alike, tolerance_of
from .checks import HIGHEST
from .findings import Report
from .inspecting import inspect
from .stated import foreign

CLAIMED = ("editor", "model", "revision", "preset")
"""What a submitter calls things that have a name of their own."""
if TYPE_CHECKING:
    from .site import Entry


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
    from . import site

    bundles = found(folder)
    known = verifying.existing(baselines)
    replays = _replays(Path(reports)) if reports else {}
    rejected: list[tuple[str, str]] = []
    entries: list[Entry] = []
    first_of: dict[str, str] = {}
    with ExitStack() as stack:
        stack.enter_context(
            selection.chosen(plugin=(), include_path=(), only=[DISTRIBUTION], block=())
        )
        plugins = Plugins.installed()
        for bundle in bundles:
            # The site reads a run's folder as it is written, so all of them stay until then.
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="edit-harness-")))
            report = inspect(bundle, HIGHEST, place, known)
            first = first_of.setdefault(report.digest or bundle.name, bundle.name)
            reason = _left_out(report, bundle.name, first)
            if reason := reason or _foreign(report, place, plugins):
                rejected.append((bundle.name, reason))
            else:
                entries.append(_entry(report, place, plugins, known, replays))
        entries, told = side_by_side(entries)
        unshown = site.write(entries, rejected, Path(out), title)
    rejected, shown = [*rejected, *unshown], len(entries) - len(unshown)
    for line in [*told, *(f"left out {name}: {reason}" for name, reason in rejected)]:
        err.print(one_line(line), markup=False, highlight=False, soft_wrap=True)
    err.print(f"saved    {out}  ({shown} runs, {len(rejected)} left out)", markup=False)
    return verifying.REJECTED if rejected else verifying.GOOD


def found(folder: str) -> list[Path]:
    """Return the bundles of a folder, by name. Raises `UsageError` if there are none."""
    place = Path(folder)
    if not place.is_dir():
        raise UsageError(f"there is no folder {folder}", "name the folder with the bundles")
    everything = sorted(place.iterdir())
    bundles = [path for path in everything if path.suffix.lower() == ".zip" or path.is_dir()]
    if others := [path.name for path in everything if path not in bundles]:
        said = f"skipped  {len(others)} files that are no .zip, such as {one_line(others[0])}"
        err.print(said, markup=False, highlight=False)
    if not bundles:
        raise UsageError(f"{folder} has no bundles", "edit-harness submit RUN makes one")
    return bundles


def side_by_side(entries: Sequence[Entry]) -> tuple[list[Entry], list[str]]:
    """Return what a board shows of entries that claim the same run, and lines that say so.

    The same answers are one entry, under all contacts: nobody knows whose was first. Other answers
    are other entries, marked; which is right shows in a replay.
    """
    claims: list[tuple[dict[str, Any], dict[str, list[Entry]]]] = []
    for entry in entries:
        said = claimed(entry.run.manifest.identity)
        known = next((claim for other, claim in claims if other == said), None)
        if known is None:
            claims.append((said, known := {}))
        known.setdefault(entry.answers, []).append(entry)
    shown, lines = [], []
    for _, claim in claims:
        for same in claim.values():
            if len(same) > 1:
                lines.append(f"same     {_names(same)}: one entry, as all answers are equal")
        found = [_one(same) for same in claim.values()]
        if len(found) > 1:
            lines.append(f"differ   {_names(found)}: all are shown")
            pairs = [_apart(found[0], other) for other in found[1:]]
            lines += [f"differ   {pair}" for pair in pairs]
            rival = f"one of {len(found)} that differ"
            found = [
                replace(e, notes=[*e.notes, *own], rival=rival)
                for e, own in zip(found, [pairs, *([pair] for pair in pairs)], strict=True)
            ]
        shown += found
    return shown, lines


def claimed(identity: Identity) -> dict[str, Any]:
    """Return what a run says that it is, without the digests that are its submitter's word alone.

    Of two claims that are equal, at most one set of answers is right but for what machines differ by.
    """
    editor, judge, model = identity.editor, identity.judge, identity.model
    return {
        "editor": [editor.name, editor.fields],
        "task": identity.task,
        "model": [model.digest, model.dtype],
        "metrics": {*identity.metrics},
        "judge": [judge.name, judge.fields] if judge else None,
        "controls": {each.id: each.fields for each in identity.controls},
        "sample": identity.sample if identity.controls else 0,
        "regime": identity.regime,
        "seed": identity.seed,
    }


def _names(entries: Sequence[Entry]) -> str:
    return ", ".join(Path(entry.bundle).name for entry in entries)


def _one(same: Sequence[Entry]) -> Entry:
    """Return entries of the same answers as one: the best badge, and all that their submitters say."""
    best = max(same, key=lambda entry: entry.entrant.rank)
    said = {
        name: [str(e.submission[name]) for e in same if name in e.submission]
        for name in dict.fromkeys(chain.from_iterable(e.submission for e in same))
    }
    submission = {name: "; also ".join(dict.fromkeys(texts)) for name, texts in said.items()}
    notes = dict.fromkeys(note for entry in same for note in entry.notes)
    return replace(best, submission=submission, notes=[*notes]) if len(same) > 1 else best


def _apart(one: Entry, two: Entry) -> str:
    """Say how many rows of two entries are further apart than a replay lets pass."""
    first, other = ({r.visit: r for r in entry.run.everything} for entry in (one, two))
    dtype = one.run.manifest.identity.model.dtype
    found = sum(v not in other or not alike(first[v], other[v], dtype) for v in first)
    return (
        f"{found} of {len(first)} rows of {_names([one])} and {_names([two])} "
        f"differ by more than rounding, {tolerance_of(dtype):g} nats"
    )


def why(report: Report) -> str:
    """Return why a bundle is left out, in a line."""
    first = (report.failed or report.unchecked)[0]
    return f"check {first.check}, {first.name}: {first.text}"


def _left_out(report: Report, name: str, first: str) -> str:
    """Return why a bundle is left out; empty if it is not. ``first`` is the name of the first like it."""
    if not report.good:
        return why(report)
    return "" if first == name else f"the same bundle as {first}"


def _foreign(report: Report, place: Path, plugins: Plugins) -> str:
    """Return why a bundle that passed is not of the editor that it names; empty if it may be."""
    return foreign(plugins, verifying.unpacked(report, place, plugins).identity.editor)


def _entry(
    report: Report,
    place: Path,
    plugins: Plugins,
    known: Sequence[Path],
    replays: dict[str, dict[str, Any]],
) -> Entry:
    from .site import Entry

    evidence = verifying.unpacked(report, place, plugins, known)
    notes = [f"{finding.name}: {finding.text}" for finding in report.flags]
    manifest = names.vouched(evidence)
    run = Run(evidence.run.folder, evidence.metrics, manifest, evidence.everything)
    said = {
        f"{name}, as submitted": text
        for source in (evidence.submission, names.claims(evidence.manifest))
        for name, text in source.items()
        if name in CLAIMED and text not in ("", manifest.label, manifest.model.name)
    }
    rest = {name: text for name, text in evidence.submission.items() if name not in CLAIMED}
    return Entry(run, {**rest, **said}, badge(replays.get(report.digest)), notes, report.bundle)


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
