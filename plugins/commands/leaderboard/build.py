"""The command ``leaderboard build``: a site of the bundles that pass, as a folder of static pages.

The same entries give the same bytes, and the folder is put into place as a whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup
from msgspec import structs

from edit_harness.errors import DataError, UsageError, one_line
from edit_harness.files import digest, dumps, finite
from edit_harness.folder.manifest import Identity, TaskInfo, as_json
from edit_harness.hookspecs import DISTRIBUTION
from edit_harness.registry import settings
from edit_harness.registry.registry import Plugins
from edit_harness.run.estimates import LEVEL
from edit_harness.run.results import Results
from edit_harness_plugins.command_line import chosen

from ..report import written
from ..report.facts import grouped, statuses
from ..report.page import Entrant, Protocol, boards_of, contents
from ..report.templates import SCRIPTS, SHARED, STYLE, asset, page, shown
from ..run.console import err
from . import replay, verify
from .bundle import HIGHEST
from .evidence import Evidence

OWN = {"index.html", "promise.html", "results.json", "runs", STYLE, *SCRIPTS}
"""What a site consists of; a folder with anything else is not replaced."""
POLICY = {"policy": Markup(SHARED), "style": None, "script": None}


@dataclass(frozen=True, eq=False, kw_only=True)
class Entry(Entrant):
    """A bundle that passed, as a row of a board."""

    submission: Mapping[str, Any]
    bundle: str = ""
    """The name of its file."""

    @classmethod
    def of(cls, run: Results, submission: Mapping[str, Any], badge: str, bundle: str = "") -> Entry:
        """Return an entry with its page's name, of a digest and of plain letters; twice the same is one page."""
        rows = [(*r.visit, r.status, [*r.before], [*r.after]) for r in run.everything]
        whole = dumps([run.manifest.fingerprint, rows, submission, badge])
        words = re.sub(r"[^a-z0-9]+", "-", run.label.lower()).strip("-")[:32].strip("-")
        href = f"runs/{words or 'run'}-{hashlib.sha256(whole.encode()).hexdigest()[:16]}.html"
        return cls(run, href, badge, submission=submission, bundle=bundle)


def build(folder: str, out: str, title: str, baseline: Sequence[str], reports: str | None) -> int:
    """Check the bundles, write the site, and return the exit code: 6 if a bundle was left out.

    ``reports`` is a folder with what ``verify --level 4 --json`` printed. Raises `HarnessError`.
    """
    if not Path(folder).is_dir():
        raise UsageError(f"there is no folder {folder}", "name the folder with the bundles")
    bundles = sorted(path for path in Path(folder).iterdir() if path.suffix.lower() == ".zip")
    if not bundles:
        raise UsageError(
            f"{folder} has no bundles", "edit-harness leaderboard submit RUN makes one"
        )
    known = verify.existing(baseline)
    badges = _badges(Path(reports)) if reports else {}
    rejected: list[tuple[str, str]] = []
    entries: list[Entry] = []
    with ExitStack() as stack:
        stack.enter_context(chosen(only=[DISTRIBUTION]))
        plugins = Plugins.installed()
        for bundle in bundles:
            # The site reads a run's folder as it is written, so all of them stay until then.
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="edit-harness-")))
            report = verify.inspect(bundle, HIGHEST, place, known)
            if report.good:
                evidence = Evidence(bundle, place / "members", plugins, known)
                entries.append(_entry(evidence, badges.get(report.digest, "recomputed")))
            else:
                first = [*report.having("failed"), *report.having("unchecked")][0]
                why = f"check {first.check}, {first.name}: {first.text}"
                rejected.append((bundle.name, why))
        entries, told = side_by_side(entries)
        write(entries, rejected, Path(out), title)
    for line in [*told, *(f"left out {name}: {reason}" for name, reason in rejected)]:
        err.print(one_line(line), soft_wrap=True)
    number = len(bundles) - len(rejected)
    err.print(f"saved    {out}  ({number} runs, {len(rejected)} left out)")
    return verify.REJECTED if rejected else verify.GOOD


def _badges(folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            for report in json.loads(path.read_text(encoding="utf-8")):
                if report["good"] and (tally := report["replay"]):
                    agree, of = tally["agree"], tally["of"]
                    badge = "reproduced" if agree == of else f"replayed {agree}/{of}"
                    found[report["digest"]] = badge
        except (OSError, ValueError, KeyError, TypeError):
            raise DataError(
                f"{path} is no report of a replay", "verify --level 4 --json prints one"
            ) from None
    return found


def _entry(evidence: Evidence, badge: str) -> Entry:
    """Return an entry with names that the fingerprint or the baseline vouches for, and no others."""
    said, editor = evidence.manifest, evidence.identity.editor
    variant = ""
    with suppress(Exception):  # an editor is made of numbers that a stranger chose, or is not here
        found = evidence.plugins.find("editor", editor.name)
        variant = settings.build(found.load(), replay.given(found, editor), "editor").variant
    label = f"{editor.name}[{variant}]" if variant else editor.name
    model = evidence.baseline.header.name or said.identity.model.digest[:12]
    manifest = structs.replace(
        said,
        label=label,
        preset="as submitted" if said.preset else "",
        model=structs.replace(said.model, name=model, note="", revision=""),
        task=TaskInfo(),
    )
    run = Results(evidence.run.folder, evidence.metrics, manifest, evidence.everything)
    submitted = as_json(evidence.submission)
    for name, own in (("editor", label), ("model", model)):
        if (text := submitted.pop(name)) != own:
            submitted[f"{name}, as submitted"] = text
    return Entry.of(run, submitted, badge, evidence.bundle.name)


def side_by_side(entries: Sequence[Entry]) -> tuple[list[Entry], list[str]]:
    """Return the entries, those that claim the same run marked, and lines that say so.

    None takes another's place: nobody knows whose was first, and a replay shows which is right.
    """
    all_of_them, lines = [], []
    for same in grouped(entries, lambda entry: claim(entry.run.manifest.identity)):
        if len(same) > 1:
            names = ", ".join(entry.bundle for entry in same)
            lines.append(f"rivals   {names}: the same run, all are shown")
            same = [replace(each, rival=f"one of {len(same)} of the same run") for each in same]
        all_of_them += same
    return all_of_them, lines


def claim(identity: Identity) -> str:
    """Return a digest of what a run says that it is, without what is its submitter's word alone."""
    said = as_json(identity)
    for part in (said["editor"], said["judge"] or {}, *said.get("controls", ())):
        part |= {"version": "", "provenance": {}}
    said["model"] |= {"config": "", "tokenizer": ""}
    return digest({**said, "metrics": sorted(identity.metrics), "together": "", "code": []})


def write(
    entries: Sequence[Entry], rejected: Sequence[tuple[str, str]], out: Path, title: str
) -> None:
    """Write the site. What was there stays if it fails.

    Raises `UsageError` for a folder of other files, `ResourceError` if the disk does not take it.
    """
    out = out.resolve()
    if out.is_file():
        raise UsageError(f"{out} is a file", "name a folder: --output SITE")
    if out.exists() and (others := sorted({path.name for path in out.iterdir()} - OWN)):
        raise UsageError(
            f"{out} has files that are no part of a site, such as {others[0]}",
            "name a folder of its own: --output SITE",
        )
    fresh = out.with_name(f".{out.name}.{os.getpid()}.new")
    try:
        with written(f"the site {out}", "name another place: --output SITE"):
            for name, text in _files(entries, rejected, title):
                path = fresh / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8", newline="")
            if out.exists():
                shutil.rmtree(out)
            fresh.rename(out)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _files(
    entries: Sequence[Entry], rejected: Sequence[tuple[str, str]], title: str
) -> Iterator[tuple[str, str]]:
    ordered = [entry for _, entry in sorted({entry.href: entry for entry in entries}.items())]
    told = {"title": title, "level": f"{LEVEL:.0%}", "rejected": sorted(rejected)}
    boards = boards_of(ordered)
    yield "index.html", page("index.jinja", **POLICY, root="", boards=boards, **told)
    yield "promise.html", page("promise.jinja", **POLICY, root="", site=title, title=title)
    for entry in ordered:
        declared = entry.submission.items()
        own = {
            "title": f"{entry.run.label} · {entry.run.manifest.identity.task.name}",
            "badge": entry.badge,
            "rank": entry.rank,
            "submission": [(str(k), v if isinstance(v, str) else dumps(v)) for k, v in declared],
            **contents([entry.run]),
        }
        yield entry.href, page("run.jinja", **POLICY, root="../", site=title, boards=[], **own)
    for name in (STYLE, *SCRIPTS):
        yield name, asset(name)
    data = {
        "title": title,
        "level": LEVEL,
        "entries": [_data(entry) for entry in ordered],
        "rejected": [{"bundle": name, "reason": reason} for name, reason in sorted(rejected)],
    }
    text = json.dumps(finite(shown(data)), indent=1, sort_keys=True, allow_nan=False)
    yield "results.json", f"{text}\n"


def _data(entry: Entry) -> dict[str, Any]:
    return {
        **vars(Protocol.of(entry.run)),
        "model": entry.model,
        "editor": entry.run.label,
        "badge": entry.badge,
        "rival": entry.rival,
        "fingerprint": entry.run.manifest.fingerprint,
        "page": entry.href,
        "submission": entry.submission,
        "statuses": {name: count for name, count, _ in statuses(entry.run)},
        "results": {name: vars(each) for name, each in entry.run.estimates.items()},
    }
