"""By which cases fields were tuned, as manifests say it: a run that tests the same cases says so.

Tuned fields are in a file that ``sweep`` writes and ``--preset`` takes; here is what becomes of that in a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import cast

from msgspec import structs

from .. import files
from ..data import Case
from ..folder.manifest import Manifest, Tuning

MARK = 16
"""Digits of a case's mark."""


def tuning(
    preset: str, tuned: Tuning | None, before: Manifest | None, cases: Callable[[], Iterable[Case]]
) -> tuple[str, Tuning | None]:
    """Return where fields come from and by which cases they were tuned, as a manifest is to say it.

    Fields that are typed make the same run as those of a preset, and what was told of them once is
    not taken back: ``preset`` and ``tuned`` are what a command says, ``before`` is what the folder
    said. ``cases`` are the run's.
    """
    old = before.tuned if before else None
    if before is None or not (old or tuned):
        return preset, tuned
    first, other = (before.preset, preset) if old else (preset, before.preset)
    if not (old and tuned):
        other = f"run without the preset, as {other or 'typed'}"
    marks = {mark for each in (old, tuned) if each for mark in each.marks}
    entry = cast(Tuning, old or tuned)
    if marks:
        tested = len(among(marks, cases()))
        most = max(entry.cases, len(marks))
        entry = structs.replace(entry, marks=sorted(marks), cases=most, tested=tested)
    also = "" if other in first else f"; also {other}"
    return first + also, entry


def among(marks: Iterable[str], cases: Iterable[Case]) -> list[str]:
    """Return the ids of the cases whose facts fields were tuned by, whatever the task: by `mark`."""
    known = set(marks)
    return [case.id for case in cases if not case.problem and mark(case) in known]


def mark(case: Case) -> str:
    """Return what identifies a case's facts, in every task that has them."""
    return str(files.digest([asdict(request) for request in case.requests]))[:MARK]
