"""The leaderboard as a folder of static pages that opens from a disk as well as from a server.

What goes in was checked elsewhere: see `edit_harness_plugins.commands.leaderboard`. The same entries give the same
bytes, and the folder is put into place as a whole.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from markupsafe import Markup

from edit_harness.encoding import dumps, finite
from edit_harness.errors import ResourceError, UsageError
from edit_harness.run.estimates import LEVEL
from edit_harness.run.outcome import Run

from ..report.boards import Entrant, Protocol, model_of
from ..report.explorer import boards_of, contents
from ..report.facts import statuses
from ..report.templates import SCRIPTS, SHARED, STYLE, asset, page
from ..report.text import guarded, shown

OWN = {"index.html", "promise.html", "results.csv", "results.json", "runs", STYLE, *SCRIPTS}
"""What a site consists of; a folder with anything else is not replaced."""
SIDES = ("before", "after")


@dataclass(frozen=True)
class Entry:
    """A bundle that passed."""

    run: Run
    submission: Mapping[str, Any]
    """What the submitter declares."""
    badge: str
    """How the numbers were checked: ``recomputed``, ``replayed k/n`` or ``reproduced``."""
    notes: Sequence[str]
    """What the checks found odd, a line each."""
    bundle: str = ""
    """Where it came from, to name it if it cannot be shown."""
    rival: str = ""
    """What is said beside its name if other entries claim the same run, and have other answers."""

    @cached_property
    def answers(self) -> str:
        """A digest of all that was answered, whatever time it took."""
        rows = [(*r.visit, r.status, [*r.before], [*r.after]) for r in self.run.everything]
        return hashlib.sha256(dumps(rows).encode()).hexdigest()

    @property
    def entrant(self) -> Entrant:
        """Its place on a board."""
        return Entrant(self.run, _page_name(self), self.badge, self.rival)


def write(
    entries: Sequence[Entry], rejected: Sequence[tuple[str, str]], out: Path, title: str
) -> list[tuple[str, str]]:
    """Write the site. ``rejected`` has the name of each bundle that did not pass, and why.

    Returns the same of entries that cannot be shown, whatever a stranger put there; the site has the others.

    Raises `UsageError` if there is a folder of other files, and `ResourceError` if the disk does
    not take the site; what was there stays as it was.
    """
    out = out.resolve()
    _check_ours(out)
    tried = [(entry, _unshowable(entry, title)) for entry in entries]
    unshown = [(Path(entry.bundle).name, why) for entry, why in tried if why]
    entries, rejected = [entry for entry, why in tried if not why], [*rejected, *unshown]
    fresh, old = (out.with_name(f".{out.name}.{os.getpid()}.{kind}") for kind in ("new", "old"))
    try:
        for name, text in _files(entries, rejected, title):
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
        if out.exists():
            out.rename(old)
        fresh.rename(out)
    except OSError as error:
        if old.exists() and not out.exists():
            old.rename(out)
        raise ResourceError(
            f"the site {out} cannot be written: {error.strerror}", "name another place: --out SITE"
        ) from None
    finally:
        for left in (fresh, old):
            shutil.rmtree(left, ignore_errors=True)
    return unshown


def _unshowable(entry: Entry, title: str) -> str:
    """Return why no page can be made of an entry, found by making one; empty if one can."""
    try:
        for _ in _files([entry], (), title):
            pass
    except Exception as error:  # a bundle that passed may still hold what nobody thought of
        return f"it cannot be shown: {type(error).__name__}: {str(error)[:80]!r}"
    return ""


def _check_ours(out: Path) -> None:
    if out.is_file():
        raise UsageError(f"{out} is a file", "name a folder: --out SITE")
    if out.exists() and (others := sorted({path.name for path in out.iterdir()} - OWN)):
        raise UsageError(
            f"{out} has files that are no part of a site, such as {others[0]}",
            "name a folder of its own: --out SITE",
        )


def _files(
    entries: Sequence[Entry], rejected: Sequence[tuple[str, str]], title: str
) -> Iterator[tuple[str, str]]:
    """Yield the files of the site, a name and a text each."""
    ordered = sorted({entry.entrant.href: entry for entry in entries}.items())
    entrants = [entry.entrant for _, entry in ordered]
    refused = sorted(rejected)
    shared = {"policy": Markup(SHARED), "style": None, "script": None}
    yield (
        "index.html",
        page(
            "index.jinja",
            **shared,
            root="",
            title=title,
            level=f"{LEVEL:.0%}",
            boards=boards_of(entrants),
            rejected=refused,
        ),
    )
    yield "promise.html", page("promise.jinja", **shared, root="", site=title, title=title)
    for name, entry in ordered:
        yield name, _run_page(entry, title, shared)
    for name in (STYLE, *SCRIPTS):
        yield name, asset(name)
    yield "results.csv", _csv(ordered)
    yield "results.json", _json(ordered, refused, title)


def _run_page(entry: Entry, site: str, shared: Mapping[str, Any]) -> str:
    return page(
        "run.jinja",
        **shared,
        root="../",
        site=site,
        title=f"{entry.run.label} · {entry.run.manifest.identity.task.name}",
        badge=entry.badge,
        rank=entry.entrant.rank,
        submission=[(str(k), _said(v)) for k, v in entry.submission.items()],
        notes=entry.notes,
        boards=[],
        **contents([entry.run]),
    )


def _said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _page_name(entry: Entry) -> str:
    """Return a name made of a digest and of plain letters; the same entry twice is one page."""
    claim = [entry.run.manifest.fingerprint, entry.answers]
    identity = [*claim, entry.submission, entry.badge, entry.notes]
    digest = hashlib.sha256(dumps(identity).encode()).hexdigest()[:16]
    words = re.sub(r"[^a-z0-9]+", "-", f"{entry.run.label}".lower()).strip("-")[:32].strip("-")
    return f"runs/{words or 'run'}-{digest}.html"


def _csv(ordered: Sequence[tuple[str, Entry]]) -> str:
    """Return every measure of every entry as a row; texts are safe to open in a spreadsheet."""
    rows = [row for name, entry in ordered for row in _csv_rows(name, entry)]
    file = io.StringIO()
    heads = list(rows[0]) if rows else ["task"]
    writer = csv.DictWriter(file, heads, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def _csv_rows(name: str, entry: Entry) -> Iterator[dict[str, Any]]:
    about = {key: guarded(str(value)) for key, value in _about(name, entry).items()}
    for line in entry.run.lines:
        numbers = {
            f"{side}{end}": getattr(estimate, end.strip("_") or "value", "")
            for side, estimate in zip(SIDES, (line.before, line.after), strict=True)
            for end in ("", "_low", "_high")
        }
        measure = {"measure": guarded(line.name), "better": line.measure.better}
        n = line.after.n if line.after else 0
        yield {**about, **measure, "unit": line.measure.unit, **numbers, "n": n}


def _about(name: str, entry: Entry) -> dict[str, Any]:
    protocol = Protocol.of(entry.run)
    return {
        "task": protocol.task,
        "version": protocol.version,
        "regime": protocol.regime,
        "precision": protocol.precision,
        "judge": protocol.judge,
        "model": model_of(entry.run),
        "editor": entry.run.label,
        "badge": entry.badge,
        "fingerprint": entry.run.manifest.fingerprint,
        "rival": entry.rival,
        "page": name,
    }


def _json(ordered: Sequence[tuple[str, Entry]], rejected: Sequence[Any], title: str) -> str:
    data = {
        "title": title,
        "level": LEVEL,
        "entries": [
            {
                **_about(name, entry),
                "submission": entry.submission,
                "notes": list(entry.notes),
                "statuses": {status.name: status.count for status in statuses(entry.run)},
                "results": {name: vars(e) for name, e in entry.run.estimates.items()},
            }
            for name, entry in ordered
        ],
        "rejected": [{"bundle": name, "reason": reason} for name, reason in rejected],
    }
    return json.dumps(finite(shown(data)), indent=1, sort_keys=True, allow_nan=False) + "\n"
