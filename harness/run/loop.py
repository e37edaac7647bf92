"""The loop: editors take turns on one model, a chunk each, and each chunk is verified before it is written.

The editors share the model, so what one of them leaves in it would spoil the rows of all; whose turn
it was is to blame.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Protocol

from ..data import Answer, Case, Visit
from ..errors import CaseError, HarnessError, LeakError, RunFolderError, counted
from ..files import cache_folder
from ..folder.encoding import decode_answer
from ..folder.folder import RunFolder, check_complete
from ..folder.record import OK, Record
from ..interfaces import Executor
from ..model.model import Model
from ..registry.allowance import Allowance
from . import trial
from .clean import CleanPass
from .controls import ID as CONTROL
from .controls import is_control
from .measure import Work, failed
from .plan import Chunk, Step, chunk_size, chunks
from .results import Run
from .rows import RunRows, settle

if TYPE_CHECKING:
    from .evaluation import Evaluation

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


def turns(rows: Mapping[Evaluation, RunRows], policy: FailurePolicy) -> Generator[Turn]:
    """Yield the records that are still to be made, as they are written, the editors in turn.

    Raises what `Loop.run` raises.
    """
    for evaluation, its in rows.items():
        its.begin(evaluation, evaluation.environment)
    return Loop(policy).run(rows)


Turns = Callable[[Mapping["Evaluation", RunRows], FailurePolicy], Generator[Turn, None, None]]
"""Makes the records that are missing, and yields them as they are written."""
NO_POLICY = FailurePolicy()


class Local(Executor):
    """Runs the cases in this process."""

    def turns(self, loading: Mapping[str, Any]) -> Turns:
        """Return the route of one process."""
        return turns


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
                self._try(sinks, clean)
                # Suspects are each in a chunk of its own, so that the guilty one shows.
                suspected = [e for e, its in sinks.items() if its.suspects]
                alone = [({e: sinks[e]}, e.steps_of(sinks[e].suspects), 1) for e in suspected]
                whole = (sinks, None, chunk_size(clean.model))
                for some, steps, size in (*alone, whole):
                    # Closed at once where something ends it, so that works tell what they have to.
                    with closing(self._turns(clean, some, steps, size)) as turns:
                        for evaluation, work, chunk in turns:
                            for record in work.records(chunk):
                                yield evaluation, sinks[evaluation].add(record)
                            work.check()
                    clean.turn_to(-1)  # chunks of another size are not those that come next
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
        self,
        clean: CleanPass,
        sinks: Mapping[Evaluation, RowSink],
        steps: Sequence[Step] | None,
        size: int,
    ) -> Generator[tuple[Evaluation, Work, Chunk]]:
        """Yield what is to be carried out of the editors' plans, or of these steps: a chunk each, in turn."""
        works = [(e, self._work(e, its, clean)) for e, its in sinks.items()]
        plans = [
            chunks(e.steps if steps is None else steps, size, set(its.done))
            for e, its in sinks.items()
        ]
        try:
            for same in zip_longest(*plans):  # one chunk of the plan, for each editor
                for (evaluation, work), chunk in zip(works, same, strict=True):
                    self._at_work = evaluation
                    if chunk:  # None of a plan that is through
                        yield evaluation, work, chunk
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
        steps = culprit.steps_of(leak.visits)
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


def run_all(
    folders: Mapping[Evaluation, RunFolder],
    advance: Callable[[Evaluation, Record], object] = lambda evaluation, record: None,
    policy: FailurePolicy = NO_POLICY,
    turns: Turns = turns,
) -> list[Run]:
    """Run what the folders lack, chunk by chunk, one editor after the other on each.

    The evaluations are of the same cases of the same model, whose clean passes they share. ``turns``
    makes the records, here or elsewhere: see `edit_harness_plugins.commands.distributed`. Raises
    `CaseError` at the first failure if the policy is to stop there, and what ``turns`` raises.
    """
    with ExitStack() as stack:
        rows = {}
        for evaluation, folder in folders.items():
            write = stack.enter_context(folder.writing())  # nothing that was read before holds
            known = {record.visit: record for record in folder.records()}
            settle(evaluation, folder, {name for name, _ in known})
            statuses = {visit: record.status for visit, record in known.items()}
            again = evaluation.retried(statuses) if policy.retry else set()
            rows[evaluation] = RunRows(folder, write, known, again, evaluation.others)
        for evaluation, its in rows.items():
            for visit in evaluation.visits:
                if visit in its.known and visit not in its.again:
                    advance(evaluation, its.known[visit])
        try:
            # Closed when something ends it, so that an editor at work ends now, and not some time later.
            with closing(turns(rows, policy)) as fresh:
                for evaluation, record in fresh:
                    advance(evaluation, record)
                    if policy.stop and record.status != OK and record.case != CONTROL:
                        raise CaseError(
                            f"case {record.case} failed ({record.status}): {record.message}",
                            "go on with the same command and --on-error skip",
                        )
            _compare_before(rows)
        except BaseException:
            with suppress(HarnessError):  # what is told is why it ended
                _summed(rows)
            raise
        for evaluation, its in rows.items():
            check_complete(evaluation.visits, its.known)
        runs = _summed(rows)
        for evaluation, run in zip(rows, runs, strict=True):
            for said in evaluation.plugins.call("edit_harness_run_finished", run=run):
                lines = said if isinstance(said, list | tuple) else [said]
                run.folder.notes += map(str, lines)
        return runs


def _compare_before(rows: Mapping[Evaluation, RunRows]) -> None:
    """Raise `RunFolderError` if the unedited model did not answer as is published of it.

    Then no row that was written now counts any more: another model was at work.
    """
    found = [
        f"{its.folder.path}: {how}" + "; the new rows were withdrawn" * its.withdraw(how)
        for evaluation, its in rows.items()
        if (how := _mismatch(evaluation, its))
    ]
    if found:
        raise RunFolderError(
            found[0],
            "another model, prompt or device setting is at work: try --batch-size 1 and --device cpu",
        )


def _mismatch(evaluation: Evaluation, its: RunRows) -> str:
    """Say how the answers before the edits of the planned cases are not what plugins know of them."""
    planned = {case.id: case for case in evaluation.cases}

    def answered() -> Iterator[tuple[Case, list[Answer | None]]]:
        for (name, _), record in its.known.items():
            if name in planned:
                yield planned[name], [decode_answer(answer) for answer in record.before]

    found = evaluation.plugins.call(
        "edit_harness_check_answers",
        source=evaluation.model.source,
        identity=evaluation.identity,
        answered=answered,
    )
    return "; ".join(str(objection) for objection in found if objection)


def _summed(rows: Mapping[Evaluation, RunRows]) -> list[Run]:
    """Return the runs, as far as they have come, and write down the results of all that they have."""
    runs = []
    for evaluation, its in rows.items():
        manifest, own = its.folder.planned(), [case.id for case in evaluation.own_cases]
        there = [its.known[visit] for visit in evaluation.visits if visit in its.known]
        left_out = set(manifest.cases).difference(own)
        more = [record for record in its.known.values() if record.case in left_out]
        whole = Run(its.folder, evaluation.metrics, manifest, [*there, *more])
        its.folder.write_results(whole.results())
        runs.append(whole.of(own, there, len(evaluation.visits)) if left_out else whole)
    return runs
