"""Writing a run: its rows, and the cases and the manifest that say what they are of."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import UNSET, structs

from ..data import Visit
from ..errors import counted
from ..folder.folder import RunFolder
from ..folder.manifest import Manifest, ModelInfo, TaskInfo, Tuning
from ..folder.record import Record
from ..registry.settings import settings
from . import plan

if TYPE_CHECKING:
    from ..folder.record import Writer
    from .evaluation import Evaluation

SHOWN = 3
"""How many conflicts the manifest names."""


@dataclass
class RunRows:
    """The rows of one run: those that are there, and those written now."""

    folder: RunFolder
    write: Writer
    known: dict[Visit, Record]
    again: AbstractSet[Visit] = frozenset()
    """Visits with a row that are tried once more."""
    others: AbstractSet[Visit] = frozenset()
    """Visits of the plan that other shards or workers make."""

    def __post_init__(self) -> None:
        self.first, self.keeps = self.write.seq, self.folder.path

    @property
    def done(self) -> set[Visit]:
        """The visits that need no row from here."""
        return (self.known.keys() - self.again) | self.others

    def add(self, record: Record) -> Record:
        """Write a record, and return it as written: with the number of its try."""
        before = self.known.get(record.visit)
        record = structs.replace(record, attempt=before.attempt + 1) if before else record
        self.write(record)
        self.known[record.visit] = record
        self.again = self.again - {record.visit}
        return record

    def withdraw(self, why: str) -> bool:
        """Withdraw all rows that this process wrote, and tell whether there are any."""
        written = self.write.seq > self.first
        self.write.withdraw(self.first, why)
        self.known = {record.visit: record for record in self.folder.records()}
        return written

    def tell(self, line: str) -> None:
        """Note a line for readers of the run, once."""
        if line not in self.folder.notes:
            self.folder.notes.append(line)


def settle(evaluation: Evaluation, folder: RunFolder, known: AbstractSet[str]) -> None:
    """Write cases and manifest into a locked folder; ``known`` cases have rows.

    The cases are in the task's order. A folder never loses one.
    """
    before, own = folder.manifest(), evaluation.own_cases
    # Where edits share a model, this run's cases come first: their order is part of its identity.
    first = own if evaluation.identity.together else []
    names = {*(before.cases if before else ()), *known, *(case.id for case in own)}
    names -= {case.id for case in first}
    rest = (case for case in evaluation.all_cases or evaluation.cases if case.id in names)
    cases = [*first, *rest]
    if not folder.has_cases([case.id for case in cases]):
        folder.write_cases(cases)
    preset, tuned = _tuning(evaluation, before)
    judging = settings(evaluation.judge.value) if evaluation.judge else None
    folder.write_manifest(
        Manifest(
            identity=evaluation.identity,
            cases=[case.id for case in cases],
            judged_by=before.judged_by if before else None,
            judge_settings=before.judge_settings if before and judging is None else judging,
            label=evaluation.label,
            metrics=list(evaluation.metrics),
            # A case that this command leaves out has one visit: its edit is single, or it cannot run.
            visits=len(evaluation.visits) + len(cases) - len(own),
            preset=preset,
            tuned=tuned,
            found=dict(evaluation.editor.value.found),
            preview=evaluation.preview,
            model=ModelInfo(
                name=evaluation.model.name,
                path=evaluation.model.source.path,
                revision=evaluation.model.revision,
                note=evaluation.model.source.note,
                parameters=evaluation.model.size,
                let_in=evaluation.model.let_in,
            ),
            task=TaskInfo(
                origin=evaluation.task.value.origin,
                notes=list(getattr(evaluation.task.value, "notes", ())),
                conflicts=_conflicts(evaluation),
            ),
            distributions=[package.identity for package in evaluation.packages],
            segments=before.segments if before else (),
            shard=evaluation.share.info(evaluation, before) if evaluation.share else UNSET,
        )
    )


def _conflicts(evaluation: Evaluation) -> str:
    """Say which cases conflict: they write different objects to one subject and relation."""
    planned = [case for case in evaluation.cases if not case.problem]
    found = evaluation.dropped or plan.conflicting(planned, evaluation.regime)
    pairs = [f"{name} against {other}" for name, other in found.items()]
    more = f" and {len(pairs) - SHOWN:,} more" if len(pairs) > SHOWN else ""
    what = f"{counted(len(pairs), 'case')} in conflict with an earlier one of the same subject and relation"
    how = "left out" if evaluation.dropped else "kept (--edit-conflicts drop leaves them out)"
    return f"{what}, {how}: {', '.join(pairs[:SHOWN])}{more}" if pairs else ""


def _tuning(evaluation: Evaluation, before: Manifest | None) -> tuple[str, Tuning | None]:
    """Return where the editor's fields come from, and by which cases they were chosen.

    The same fields, typed, make the same run; the folder keeps saying that a preset gave them once.
    """
    new, old = evaluation.spec.tuned, before.tuned if before else None
    if not (before and old):
        return evaluation.preset, new
    marks = {mark for each in (old, new) if each for mark in each.marks}
    return before.preset, structs.replace(old, marks=sorted(marks))
