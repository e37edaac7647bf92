"""The folder in which another judge judges the texts of a run: a copy whose texts wait for it.

A run has one judge, so that the verdicts of another are another run, with the same texts. Judging
itself stands in `edit_harness_plugins.commands.results.scoring`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from msgspec import structs

from edit_harness.folder.folder import RunFolder
from edit_harness.folder.manifest import JudgeId
from edit_harness.folder.record import Record
from edit_harness.registry.components import Named, described
from edit_harness.registry.fields import settings
from edit_harness.run.judging import NO_JUDGE
from edit_harness.run.outcome import Run


def sibling(run: Run, judge: Named, in_use: str) -> Run:
    """Return the run as another judge judges it, in a folder beside it, named after both.

    What the folder has of the same texts stays, with its verdicts; what has come since is added.
    ``in_use`` is the remedy if another process writes there. Raises `RunFolderError`.
    """
    identity = structs.replace(run.manifest.identity, judge=JudgeId(**described(judge)))
    # A path such as "." has no name to go by.
    path = run.folder.path if run.folder.path.name not in ("", "..") else run.folder.path.resolve()
    folder = RunFolder.open(path.parent, f"{path.name}-{judge.name}", identity, new=False)
    with folder.writing(in_use) as write:
        known = folder.manifest()
        own = structs.replace(
            run.manifest,
            identity=identity,
            judged_by=known.judged_by if known else None,
            judge_settings=settings(judge.value),
        )
        for record in _fresh(run, folder):
            write(record)
        folder.write_cases(run.cases)
        folder.write_manifest(own)
    return Run.read(folder, run.metrics)


def _fresh(run: Run, folder: RunFolder) -> Iterator[Record]:
    """Yield the records of a run that the folder has not, or has of other texts."""
    there = {record.visit: _waiting(record) for record in folder.records()}
    for record in map(_waiting, run.everything):
        known = there.get(record.visit)
        if known is None:
            yield record
        elif (known.before, known.after) != (record.before, record.after):
            yield replace(record, attempt=max(record.attempt, known.attempt + 1))


def _waiting(record: Record) -> Record:
    """Return a record whose texts wait for a judge."""
    before, after = (list(map(_unjudged, side)) for side in (record.before, record.after))
    return replace(record, before=before, after=after)


def _unjudged(answer: Any) -> Any:
    """Return an encoded answer with its verdict, if it has one, taken back."""
    if not isinstance(answer, Mapping) or not answer.get("verdict"):
        return answer
    return {**answer, "verdict": {"status": NO_JUDGE.status, "note": NO_JUDGE.note}}
