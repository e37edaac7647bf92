"""Editors that take turns on one model, and their rows: written once verified, withdrawn if that fails.

The editors share the model, so what one of them leaves in it may spoil the rows of all. What a leak
is, is told by `edit_harness.witness`; the order of cases is `edit_harness.runner`'s matter.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from edit_harness import runner, selfcheck, selftest
from edit_harness.allowance import Allowance
from edit_harness.asking import failed
from edit_harness.before import Before
from edit_harness.cases import Case, Visit
from edit_harness.control import ID
from edit_harness.errors import HarnessError, LeakError
from edit_harness.failures import RETRIED
from edit_harness.files import cache_folder
from edit_harness.model import Model
from edit_harness.records import Record, RunFolder

if TYPE_CHECKING:
    from edit_harness.evaluation import Evaluation
    from edit_harness.records import Writer

Turn = tuple["Evaluation", Record]
MANY_EDITORS = "run them one by one to see which it is"


@dataclass(frozen=True)
class Care:
    """What is done about what goes wrong in a run."""

    stop: bool = False
    """End at the first failure."""
    retry: bool = False
    """Run again what failed and may not fail again: see `edit_harness.failures.RETRIED`."""
    case_timeout: float | None = None
    """Seconds that a case may take; None goes by the cases before."""
    reload: Callable[[], Model] | None = None
    """Loads the model anew, so that a run can go on after a leak."""
    selfcheck: bool = False
    """Try first whether cases come out the same again, and in another order."""


@dataclass
class Rows:
    """The rows of one run: those of before, and those that are written now."""

    folder: RunFolder
    write: Writer
    known: dict[Visit, Record]
    again: AbstractSet[Visit] = frozenset()
    """Those that are there and tried once more."""
    _unsure: dict[Visit, Record | None] = field(default_factory=dict)
    """What the rows since the last verification stand in the place of."""
    _first: int = 0
    _told: set[str] = field(default_factory=set)

    @property
    def done(self) -> set[Visit]:
        """The visits that need nothing more."""
        return self.known.keys() - self.again

    def add(self, record: Record) -> Record:
        """Write a record, and return it as it was written: with the number of its try."""
        before = self.known.get(record.visit)
        record = replace(record, attempt=before.attempt + 1) if before else record
        seq = self.write(record)
        if not self._unsure:
            self._first = seq
        self._unsure[record.visit] = before
        self.known[record.visit] = record
        self.again = self.again - {record.visit}
        return record

    def verified(self) -> None:
        """Be sure of all that is written."""
        self._unsure.clear()

    def withdraw(self, why: str) -> list[Visit]:
        """Let the rows that are not verified count no more, and return their visits."""
        visits = list(self._unsure)
        if visits:
            self.write.withdraw(self._first, why)
        for visit, before in self._unsure.items():
            del self.known[visit]
            if before:
                self.known[visit] = before
                self.again = self.again | {visit}
        self._unsure.clear()
        return visits

    def tell(self, line: str) -> None:
        """Note something about the run, once."""
        if line not in self._told:
            self._told.add(line)
            self.folder.notes.append(line)
            self.folder.event("note", text=line)


def turns(rows: Mapping[Evaluation, Rows], care: Care) -> Generator[Turn]:
    """Yield the records that are still to be made, as they are written, the editors in turn.

    Raises `LeakError` if the model did not stay as it was and cannot be loaded anew, and what
    `runner.chunks` and `selftest.check` raise.
    """
    first: Before | None = None
    while any(not set(e.visits) <= r.done for e, r in rows.items()):
        before = Before(next(iter(rows)).model, cache_folder() / "answers")
        if first:
            first.witness.resembles(before.witness)
        session = Session(rows, care, before)
        try:
            yield from session.turns()
        except LeakError as leak:
            made = list(session.leaked(leak))
            yield from made
            if not (care.reload and made):
                raise session.named(leak) from None
            _load_anew(rows, care.reload)
        first = first or before


def _load_anew(rows: Mapping[Evaluation, Rows], load: Callable[[], Model]) -> None:
    """Give all editors a model that none of them has touched."""
    model = load()
    for evaluation, its in rows.items():
        its.tell("the model was loaded anew after a leak")
        evaluation.turn_to(model)


@dataclass
class Session:
    """Editors on one loaded model, until they are done or something leaks."""

    rows: Mapping[Evaluation, Rows]
    care: Care
    before: Before
    _at_work: dict[Evaluation, None] = field(default_factory=dict)
    """Those that may have changed the model since it was verified; the last one is at work."""

    def turns(self) -> Iterator[Turn]:
        """Yield the records, chunk by chunk; the model is verified now and then, and at the end."""
        yield from self._of_no_use()
        if case := self._trial():
            selftest.check(self.before, case)
            self._selfcheck()
        streams = {e: self._stream(e, its) for e, its in self.rows.items()}
        try:
            while streams:
                for evaluation in list(streams):
                    yield from self._next(evaluation, streams)
            self._verify()
        except LeakError:
            raise
        except BaseException:
            self._last_look()
            raise

    def _last_look(self) -> None:
        """Keep no row that a leak may have spoilt, though the run ends for another reason."""
        # A device or a disk that failed says no more, and is what the run ends for.
        with suppress(HarnessError, RuntimeError, OSError):
            try:
                self._verify()
            except LeakError as leak:
                list(self.leaked(leak))

    def _selfcheck(self) -> None:
        for evaluation, its in self.rows.items() if self.care.selfcheck else ():
            selfcheck.check(evaluation, its.tell)
        self.before.witness.verify()

    def _of_no_use(self) -> Iterator[Turn]:
        for evaluation, its in self.rows.items():
            for case in evaluation.cases:
                if case.problem and (case.id, 0) not in its.known:
                    yield evaluation, its.add(Record.of_no_use(case.id, case.problem))
            its.verified()

    def _trial(self) -> Case | None:
        """Return a case to try the model with; None if nothing is left to be asked."""
        todo = (
            case
            for e, its in self.rows.items()
            for step in e.steps
            for case in step.measure
            if (case.id, step.state) not in its.done and case.id != ID
        )
        return next(todo, None)

    def _stream(self, evaluation: Evaluation, its: Rows) -> Iterator[list[Record]]:
        return runner.chunks(
            evaluation.model,
            evaluation.editor.value,
            evaluation.steps,
            evaluation.metrics,
            self.before,
            judge=evaluation.judge.value if evaluation.judge else None,
            done=its.done,
            allowance=Allowance(self.care.case_timeout),
            tell=its.tell,
        )

    def _next(
        self, evaluation: Evaluation, streams: dict[Evaluation, Iterator[list[Record]]]
    ) -> Iterator[Turn]:
        """Let one editor do its next chunk."""
        self._at_work.pop(evaluation, None)
        self._at_work[evaluation] = None
        records = next(streams[evaluation], None)
        if records is None:
            del streams[evaluation]
            return
        for record in records:
            yield evaluation, self.rows[evaluation].add(record)
        self.before.witness.unseen += len(records)
        if self.before.witness.due:
            self._verify()

    def _verify(self) -> None:
        """Be sure of all rows so far. Raises `LeakError`."""
        self.before.witness.verify()
        for its in self.rows.values():
            its.verified()
        self._at_work.clear()

    def leaked(self, leak: LeakError) -> Iterator[Turn]:
        """Withdraw what is not verified, and yield a failure for each visit of who is to blame."""
        culprit = self._culprit(leak)
        for evaluation, its in self.rows.items():
            visits = its.withdraw(str(self.named(leak)))
            its.folder.event("leak", what=leak.what, withdrawn=len(visits))
            if evaluation is culprit:
                message = self.named(leak).cause
                for name, state in [*visits, *leak.visits]:
                    case = evaluation.case(name)
                    record = failed(case, state, "leak", message, evaluation.metrics)
                    yield evaluation, its.add(record)
            its.verified()

    def _culprit(self, leak: LeakError) -> Evaluation | None:
        """Return whose leak it is: who was at work when the bits were found changed, or the only one."""
        suspects = list(self._at_work)
        return suspects[-1] if suspects and (leak.visits or len(suspects) == 1) else None

    def named(self, leak: LeakError) -> LeakError:
        """Return the error with the name of the editor, or of all that it may be."""
        if culprit := self._culprit(leak):
            return LeakError(leak.what, editor=f"editor {culprit.label}", remedy=leak.remedy)
        names = ", ".join(e.label for e in self._at_work) or "something else"
        return LeakError(leak.what, editor=f"one of {names}", remedy=MANY_EDITORS)


def retried(evaluation: Evaluation, known: Mapping[Visit, str]) -> set[Visit]:
    """Return the visits whose status is worth another try, with all that share their edits."""
    failures = {visit for visit, status in known.items() if status in RETRIED}
    names = {name for name, _ in failures}
    mode = evaluation.regime.mode
    states = {s.state for s in evaluation.steps for case in s.edit if case.id in names}
    if mode == "single" or not states:
        return failures
    visits = {visit for step in evaluation.steps for visit in step.visits}
    if mode == "batch":
        return failures | {visit for visit in visits if visit[1] in states}
    return failures | {visit for visit in visits if visit[1] >= min(states)}
