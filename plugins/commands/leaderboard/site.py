"""The leaderboard as a folder of static pages that opens from a disk as well as from a server.

What goes in was checked elsewhere. The same entries give the same bytes, and the folder is put into place
as a whole.
"""

from __future__ import annotations

import hashlib
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

from edit_harness.errors import ResourceError, UsageError
from edit_harness.files import dumps, finite
from edit_harness.run.estimates import LEVEL
from edit_harness.run.results import Results

from ..report.boards import Entrant, Protocol, model_of
from ..report.facts import statuses
from ..report.page import boards_of, contents
from ..report.templates import SCRIPTS, SHARED, STYLE, asset, page
from ..report.templates import shown as printable

OWN = {"index.html", "promise.html", "results.json", "runs", STYLE, *SCRIPTS}
"""What a site consists of; a folder with anything else is not replaced."""
POLICY = {"policy": Markup(SHARED), "style": None, "script": None}


@dataclass(frozen=True)
class Entry:
    """A bundle that passed."""

    run: Results
    submission: Mapping[str, Any]
    """What the submitter declares."""
    badge: str
    """How the numbers were checked: ``recomputed``, ``replayed k/n`` or ``reproduced``."""
    bundle: str = ""
    """The name of its file, to name it if it cannot be shown."""
    rival: str = ""
    """What is said beside its name if other entries claim the same run."""

    @cached_property
    def href(self) -> str:
        """The name of its page, of a digest and of plain letters; the same entry twice is one page."""
        rows = [(*r.visit, r.status, [*r.before], [*r.after]) for r in self.run.everything]
        whole = dumps([self.run.manifest.fingerprint, rows, self.submission, self.badge])
        words = re.sub(r"[^a-z0-9]+", "-", self.run.label.lower()).strip("-")[:32].strip("-")
        return f"runs/{words or 'run'}-{hashlib.sha256(whole.encode()).hexdigest()[:16]}.html"

    @property
    def entrant(self) -> Entrant:
        """Its place on a board."""
        return Entrant(self.run, self.href, self.badge, self.rival)


def write(
    entries: Sequence[Entry], rejected: Sequence[tuple[str, str]], out: Path, title: str
) -> list[tuple[str, str]]:
    """Write the site; return the entries that cannot be shown, and why. What was there stays if it fails.

    Raises `UsageError` for a folder of other files, `ResourceError` if the disk does not take it.
    """
    out = out.resolve()
    if out.is_file():
        raise UsageError(f"{out} is a file", "name a folder: --out SITE")
    if out.exists() and (others := sorted({path.name for path in out.iterdir()} - OWN)):
        raise UsageError(
            f"{out} has files that are no part of a site, such as {others[0]}",
            "name a folder of its own: --out SITE",
        )
    shown, unshown = [], []
    for entry in entries:
        try:
            list(_files([entry], (), title))
            shown.append(entry)
        except Exception as error:  # a bundle that passed may still hold what nobody thought of
            why = f"it cannot be shown: {type(error).__name__}: {str(error)[:80]!r}"
            unshown.append((entry.bundle, why))
    fresh = out.with_name(f".{out.name}.{os.getpid()}.new")
    try:
        for name, text in _files(shown, [*rejected, *unshown], title):
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
        if out.exists():
            shutil.rmtree(out)
        fresh.rename(out)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise ResourceError(
            f"the site {out} cannot be written: {error.strerror}", "name another place: --out SITE"
        ) from None
    return unshown


def _files(
    entries: Sequence[Entry], rejected: Sequence[tuple[str, str]], title: str
) -> Iterator[tuple[str, str]]:
    """Yield the files of the site, a name and a text each."""
    ordered = [entry for _, entry in sorted({entry.href: entry for entry in entries}.items())]
    told = {"title": title, "level": f"{LEVEL:.0%}", "rejected": sorted(rejected)}
    boards = boards_of([entry.entrant for entry in ordered])
    yield "index.html", page("index.jinja", **POLICY, root="", boards=boards, **told)
    yield "promise.html", page("promise.jinja", **POLICY, root="", site=title, title=title)
    for entry in ordered:
        declared = entry.submission.items()
        yield (
            entry.href,
            page(
                "run.jinja",
                **POLICY,
                root="../",
                site=title,
                title=f"{entry.run.label} · {entry.run.manifest.identity.task.name}",
                badge=entry.badge,
                rank=entry.entrant.rank,
                submission=[(str(k), v if isinstance(v, str) else dumps(v)) for k, v in declared],
                boards=[],
                **contents([entry.run]),
            ),
        )
    for name in (STYLE, *SCRIPTS):
        yield name, asset(name)
    yield "results.json", _json(ordered, sorted(rejected), title)


def _json(ordered: Sequence[Entry], rejected: Sequence[Any], title: str) -> str:
    entries = [
        {
            **vars(Protocol.of(entry.run)),
            "model": model_of(entry.run),
            "editor": entry.run.label,
            "badge": entry.badge,
            "rival": entry.rival,
            "fingerprint": entry.run.manifest.fingerprint,
            "page": entry.href,
            "submission": entry.submission,
            "statuses": {status.name: status.count for status in statuses(entry.run)},
            "results": {name: vars(each) for name, each in entry.run.estimates.items()},
        }
        for entry in ordered
    ]
    refused = [{"bundle": name, "reason": reason} for name, reason in rejected]
    data = {"title": title, "level": LEVEL, "entries": entries, "rejected": refused}
    return json.dumps(finite(printable(data)), indent=1, sort_keys=True, allow_nan=False) + "\n"
