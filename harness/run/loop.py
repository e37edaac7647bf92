"""The loop: editors take turns on one model, a chunk each, and each chunk is verified before it is written.

The editors share the model, so what one of them leaves in it would spoil the rows of all; whose turn
it was is to blame.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Protocol

from ..allowance import Allowance
from ..cases import Case, Visit
from ..errors import LeakError
from ..files import cache_folder
from ..folder.records import Record
from ..model.model import Model
from ..wording import counted
from . import trial
from .clean import CleanPass
from .control import is_control
from .failures import RETRIED
from .measure import Work, failed
from .plan import Step, chunk_size, chunks

if TYPE_CHECKING:
    from .evaluation import Evaluation
    from .rows import Rows

Turn = tuple["Evaluation", Record]


@dataclass(frozen=True)
class FailurePolicy:
    """What is done about what goes wrong in a run."""

    stop: bool = False
    """End at the first failure."""
    retry: bool = False
    """Run again what failed and may not fail again: see `edit_harness.run.failures.RETRIED`."""
    case_timeout: float | None = None
    """Seconds that a case may take; None goes by the cases before."""
    reload: Callable[[], Model] | None = None
    """Loads the model anew, so that a run can go on after a leak."""
    selfcheck: bool = False
    """Try first whether cases come out the same again, and in another order."""


class RowSink(Protocol):
    """Where the rows of one editor go: a run folder, or who sends them to the one who has it."""

    suspects: AbstractSet[Visit]
    """Those that run one by one: of a chunk that failed as a whole, nobody knows which it was."""

    @property
    def done(self) -> AbstractSet[Visit]:
        """The visits that need nothing more here."""

    def add(self, record: Record) -> Record:
        """Keep a record, and return it as it is kept."""

    def tell(self, line: str) -> None:
        """Note something that readers of the run should know, once."""

    def event(self, kind: str, **details: Any) -> None:
        """Note that something happened."""


def turns(rows: Mapping[Evaluation, Rows], policy: FailurePolicy) -> Generator[Turn]:
    """Yield the records that are still to be made, as they are written, the editors in turn.

    Raises what `Loop.run` and `Overlap.end` raise.
    """
    overlaps = {e: over for e, its in rows.items() if (over := its.begin(e, e.environment))}
    for _ in Loop(replace(policy, reload=None, selfcheck=False)).run(overlaps):
        pass
    for overlap in overlaps.values():
        overlap.end()
    return Loop(policy).run(rows)


class Loop:
    """Editors on a loaded model, which is tried once, however often they come back to it."""

    def __init__(self, policy: FailurePolicy) -> None:
        self.policy = policy
        self._tried = False
        self._clean: CleanPass | None = None
        self._first: CleanPass | None = None
        self._at_work: Evaluation | None = None

    def run(self, sinks: Mapping[Evaluation, RowSink]) -> Generator[Turn]:
        """Yield the records that are still to be made, as they are kept.

        Raises `LeakError` if the model did not stay as it was and cannot be loaded anew, and what
        `Work.records`, `Work.check` and `trial.check` raise.
        """
        yield from record_unusable(sinks)
        while any(not set(e.visits) <= its.done for e, its in sinks.items()):
            clean = self._ready(next(iter(sinks)).model)
            try:
                for evaluation, records in self._turns(sinks, clean):
                    for record in records:
                        yield evaluation, sinks[evaluation].add(record)
            except LeakError as leak:
                yield from self._leaked(sinks, leak)
                if not (self.policy.reload and leak.visits):
                    raise self._named(leak) from None
                self._load_anew(sinks, self.policy.reload)

    def _ready(self, model: Model) -> CleanPass:
        """Return what the unedited model is asked with, at the beginning of its chunks."""
        if self._clean is None:
            self._clean = CleanPass(model, cache_folder() / "answers")
            if self._first:
                self._first.guard.resembles(self._clean.guard)
            self._first = self._first or self._clean
        self._clean.turn_to(-1)
        return self._clean

    def _load_anew(self, sinks: Mapping[Evaluation, RowSink], load: Callable[[], Model]) -> None:
        """Give all editors a model that none of them has touched."""
        self._clean, self._tried, model = None, False, load()
        for evaluation, its in sinks.items():
            its.tell("the model was loaded anew after a leak")
            evaluation.turn_to(model)

    def _turns(
        self, sinks: Mapping[Evaluation, RowSink], clean: CleanPass
    ) -> Iterator[tuple[Evaluation, list[Record]]]:
        """Try the model, then take the editors through their plans: yield the records of each chunk."""
        self._try(sinks, clean)
        for evaluation, its in sinks.items():
            if its.suspects:  # each in a chunk of its own, so that the guilty one shows
                yield from self._carried_out(
                    clean, {evaluation: its}, steps_of(evaluation, its.suspects), size=1
                )
                clean.turn_to(-1)  # these chunks were none that others share
        yield from self._carried_out(clean, sinks)

    def _carried_out(
        self,
        clean: CleanPass,
        sinks: Mapping[Evaluation, RowSink],
        steps: Sequence[Step] | None = None,
        size: int | None = None,
    ) -> Iterator[tuple[Evaluation, list[Record]]]:
        """Carry out the editors' plans, or these steps: edit, measure and verify, chunk by chunk."""
        size = size or chunk_size(clean.model)
        works = [(e, self._work(e, its, clean)) for e, its in sinks.items()]
        plans = [chunks(steps or e.steps, size, set(its.done)) for e, its in sinks.items()]
        try:
            for same in zip_longest(*plans):  # one chunk of the plan, for each editor
                for (evaluation, work), chunk in zip(works, same, strict=True):
                    self._at_work = evaluation
                    # None of a plan that is through.
                    yield evaluation, work.records(chunk) if chunk else []
                    work.check()
        finally:
            for _, work in works:
                work.close()

    def _work(self, evaluation: Evaluation, its: RowSink, clean: CleanPass) -> Work:
        judge = evaluation.judge.value if evaluation.judge else None
        allowance = Allowance(self.policy.case_timeout)
        return Work(clean, evaluation.editor.value, evaluation.metrics, judge, allowance, its.tell)

    def _try(self, sinks: Mapping[Evaluation, RowSink], clean: CleanPass) -> None:
        """Try the model, and whether its editors' edits can be measured in the way that is asked for."""
        self._at_work = None
        if not self._tried and (case := _first_case(sinks)):
            trial.check(clean, case)
            for evaluation, its in sinks.items() if self.policy.selfcheck else ():
                self._at_work = evaluation
                trial.check_order(evaluation, its.tell)
                clean.guard.verify()
            self._tried = True
        for evaluation, its in sinks.items():
            if not set(evaluation.visits) <= its.done:
                self._at_work = evaluation
                evaluation.check_controls(clean.guard)

    def _leaked(self, sinks: Mapping[Evaluation, RowSink], leak: LeakError) -> Iterator[Turn]:
        """Yield a failure for each visit that was at work, or leave them to be run one by one."""
        if self._at_work is None:
            return
        culprit, its = self._at_work, sinks[self._at_work]
        its.event("leak", what=leak.what, cases=len(leak.visits))
        steps = steps_of(culprit, leak.visits)
        if self.policy.reload and len(steps) > 1 and all(step.fresh for step in steps):
            its.suspects = set(leak.visits)
            its.tell(
                f"{counted(len(leak.visits), 'case')} of a chunk that leaked are run one by one"
            )
            return
        message = self._named(leak).cause
        for name, state in leak.visits:
            record = failed(culprit.case(name), state, "leak", message, culprit.metrics)
            yield culprit, its.add(record)

    def _named(self, leak: LeakError) -> LeakError:
        """Return the error with the name of the editor, and of the case if it was one alone."""
        if self._at_work is None:
            return leak
        cases = {name for name, _ in leak.visits if not is_control(name)}
        where = f", at case {min(cases)}" if len(cases) == 1 else ""
        whose = leak.by or f"editor {self._at_work.label}"
        return LeakError(leak.what, leak.visits, editor=whose, where=where, remedy=leak.remedy)


def record_unusable(sinks: Mapping[Evaluation, RowSink]) -> Iterator[Turn]:
    """Yield the records of the cases that cannot be run, each with its reason."""
    for evaluation, its in sinks.items():
        for case in evaluation.cases:
            if case.problem and (case.id, 0) not in its.done:
                yield evaluation, its.add(Record.of_no_use(case.id, case.problem))


def _first_case(sinks: Mapping[Evaluation, RowSink]) -> Case | None:
    """Return a case to try the model with; None if nothing is left to be asked."""
    todo = (
        case
        for e, its in sinks.items()
        for step in e.steps
        for case in step.measure
        if (case.id, step.state) not in its.done and not is_control(case.id)
    )
    return next(todo, None)


def steps_of(evaluation: Evaluation, visits: Collection[Visit]) -> list[Step]:
    """Return the steps of the plan that some visits belong to, and those that these go on from."""
    found: list[Step] = []
    behind: list[Step] = []
    for step in evaluation.steps:
        behind = [step] if step.fresh else [*behind, step]
        if not set(visits).isdisjoint(step.visits):
            found += behind
            behind = []
    return found


def retried(evaluation: Evaluation, known: Mapping[Visit, str]) -> set[Visit]:
    """Return the visits whose status is worth another try, with all that share their edits."""
    failures = {visit for visit in evaluation.visits if known.get(visit) in RETRIED}
    names = {name for name, _ in failures}
    mode = evaluation.regime.mode
    states = {s.state for s in evaluation.steps for case in s.edit if case.id in names}
    if mode == "single" or not states:
        return failures
    visits = {visit for step in evaluation.steps for visit in step.visits}
    if mode == "batch":
        return failures | {visit for visit in visits if visit[1] in states}
    return failures | {visit for visit in visits if visit[1] >= min(states)}
