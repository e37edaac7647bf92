"""By which cases fields were tuned, as manifests say it: a run that tests the same cases says so.

Tuned fields are in a file that ``sweep`` writes and ``--preset`` takes; here is what becomes of that in a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from .. import durable
from ..cases import Case

MARK = 16
"""Digits of a case's mark."""


def tuning(
    now: Mapping[str, Any], before: Mapping[str, Any], cases: Callable[[], Iterable[Case]]
) -> dict[str, Any]:
    """Return what a run's manifest says of a preset: as a command would have it, and as it did before.

    Fields that are typed make the same run as those of a preset, and what was told of them once is
    not taken back. ``now`` and ``before`` have ``preset`` and ``tuned``, if anything; ``cases`` are
    the run's.
    """
    new, old = now.get("tuned"), before.get("tuned")
    said, label = before.get("preset"), now["preset"]
    if said is None or not (old or new):
        return {"preset": label, "tuned": new}
    first, other = (said, label) if old else (label, said)
    if not (old and new):
        other = f"run without the preset, as {other or 'typed'}"
    entry = {**(old or new or {})}
    if marks := {*entry.get("marks", ()), *(new or {}).get("marks", ())}:
        entry |= {"marks": sorted(marks), "cases": max(entry["cases"], len(marks))}
        entry["tested"] = len(among(marks, cases()))
    also = "" if other in first else f"; also {other}"
    return {"preset": first + also, "tuned": entry}


def among(marks: Iterable[str], cases: Iterable[Case]) -> list[str]:
    """Return the ids of the cases whose facts fields were tuned by, whatever the task: by `mark`."""
    known = set(marks)
    return [case.id for case in cases if not case.problem and mark(case) in known]


def mark(case: Case) -> str:
    """Return what identifies a case's facts, in every task that has them."""
    return str(durable.digest([asdict(request) for request in case.requests]))[:MARK]
