"""What is done with a chunk of a plan: edits are found, cases are asked before and after, rows are made.

Many cases go together; where that fails they are asked one by one, so that a failure stays with its
case. No row is made before it is sure that the model is as it was.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from time import perf_counter

from ..data import Answer, Answers, Case, Divergence, Examined, Scores, is_finite
from ..edits import UNEDITED, Edit
from ..errors import DataError, HarnessError, LeakError, ResourceError
from ..folder.encoding import encode_answer, unchanged
from ..folder.record import OK, Record
from ..interfaces import Editor, Judge, Metric
from ..model.model import Model
from ..registry import guard
from ..registry.allowance import Allowance
from ..registry.guard import PASSING
from . import failures
from .clean import CleanPass
from .controls import PREFIX, is_control
from .editing import Editing, Setback, Tell, put_back
from .estimates import values
from .failures import DeviceLostError
from .judging import judged_apart
from .plan import Chunk, Step, chunk_size, chunks

LOG = logging.getLogger(__name__)
MANY = 3
"""So many cases in a row that memory does not hold end a run."""
ROUNDING = 1e-6
"""What a log-probability may be above 0, and a divergence below it, in nats."""


def run(
    model: Model,
    editor: Editor,
    steps: Iterable[Step],
    metrics: Mapping[str, Metric],
    *,
    judge: Judge | None = None,
    size: int | None = None,
) -> Iterator[Record]:
    """Yield a record for each case that the steps measure. Raises what `Work.records` raises."""
    work = Work(CleanPass(model), editor, metrics, judge)
    for chunk in chunks(steps, size or chunk_size(model)):
        yield from work.records(chunk)
        work.check()


@dataclass(frozen=True)
class Answered:
    """The answers of one case to one edited model."""

    case: Case
    step: Step
    before: Sequence[Answer] = ()
    after: Sequence[Answer] = ()
    seconds: float = 0.0
    error: BaseException | None = None
    note: str = ""
    """What its row should say though nothing failed."""


@dataclass
class Work:
    """One editor at work on the chunks of a plan; editors beside each other share ``clean``."""

    clean: CleanPass
    editor: Editor
    metrics: Mapping[str, Metric]
    judge: Judge | None = None
    allowance: Allowance = field(default_factory=Allowance)
    tell: Tell = lambda line: None
    """Is told what readers of the run should know, maybe twice."""
    _setback: Setback = field(default_factory=lambda: Setback("asking", "asked one by one"))
    _edits: Sequence[Edit] = ()
    """Those of the group of steps at work."""
    _last: Edit = UNEDITED
    _oom_in_a_row: int = 0
    _ended: ResourceError | None = None

    def __post_init__(self) -> None:
        self._editing = Editing(self.clean.model, self.editor, self.allowance, self.tell)

    def records(self, chunk: Chunk) -> list[Record]:
        """Return the records of a chunk that are wanted: edit, measure, verify.

        A case that fails gets a status and a message. Raises `LeakError` if the model is not as it was,
        and `DataError` if the unedited model answers with NaN. Once the records are written, `check` is
        to be called.
        """
        asked: Sequence[tuple[Case, Step, Edit]] = ()
        try:
            if chunk.edits:
                self._edits = self._editing.edits(chunk.steps, self._last)
                self._last = self._edits[-1]
                self.clean.guard.check()
            if not chunk.missing:
                return []
            self.clean.turn_to(chunk.number)
            todo = [(case, chunk.steps[i], self._edits[i]) for case, i in chunk.todo]
            measured, asked = self._ask(todo), todo
            self.clean.guard.verify()
        except DeviceLostError as error:
            return self._lost(chunk, error)
        except LeakError as leak:
            visits = [(case.id, state) for case, state in chunk.waiting]
            raise LeakError(leak.what, visits, by=_examiner(asked)) from None
        return self._rows([measured[n] for n in chunk.missing])

    def check(self) -> None:
        """Raise `ResourceError` if a device failed, or memory did not hold several cases in a row."""
        if self._ended:
            raise self._ended

    def close(self) -> None:
        """Tell what failed together and was done in another way."""
        for setback in (self._editing.setback, self._setback):
            setback.tell(self.tell)

    def _lost(self, chunk: Chunk, error: DeviceLostError) -> list[Record]:
        """Return failures of all that was at work when the device failed."""
        count = len(chunk.waiting)
        others = f" (one of {count} that were at work)" if count > 1 else ""
        self._ended = ResourceError(
            f"the device failed: {error}",
            "start again with --retry-failed, on another device if it stays so",
        )
        self._ended.__cause__ = error
        return [
            failed(case, state, "device_error", f"{error}{others}", self.metrics)
            for case, state in chunk.waiting
        ]

    def _ask(self, todo: Sequence[tuple[Case, Step, Edit]]) -> list[Answered]:
        """Ask together; where that fails, case by case to see which it was.

        Raises `DeviceLostError`, and `LeakError` if an edit's own code changed what numbers depend on.
        """
        model = self.clean.model
        halved = model.halved
        with put_back(self.tell, "the editor's code", " where it was asked") as changed:
            try:
                found = self._together(todo)
            except PASSING:
                raise
            except BaseException as error:
                failures.check_device(error)
                LOG.debug("asking %d cases together failed", len(todo), exc_info=True)
                if len(todo) > 1:
                    self._setback.add(len(todo), error, self.editor)
                found = [self._alone(*each) for each in todo]
        if spoilt := [name for name in changed if name in guard.NUMERIC]:
            raise LeakError(f"{spoilt[0]}, while it was asked")
        if not (times := model.halved - halved):
            return found
        self.tell(f"memory did not suffice: batches are of {model.batch_tokens} tokens from now on")
        note = f"its batch was halved for want of memory, {times} times with those beside it"
        return [replace(each, note=note) for each in found]

    def _together(self, todo: Sequence[tuple[Case, Step, Edit]]) -> list[Answered]:
        start = perf_counter()
        cases = list({case.id: case for case, *_ in todo}.values())
        with self._time_for(cases, len(todo)):
            answers = self.clean.ask(cases, [(case, edit) for case, _, edit in todo])
        seconds = (perf_counter() - start) / max(len(todo), 1)
        return [
            Answered(case, step, *pair, seconds, self._edit_error(case, step))
            for (case, step, _), pair in zip(todo, answers, strict=True)
        ]

    def _alone(self, case: Case, step: Step, edit: Edit) -> Answered:
        try:
            return self._together([(case, step, edit)])[0]
        except PASSING:
            raise
        except BaseException as error:  # an adaptor or a patch is the editor's own code
            failures.check_device(error)
            return Answered(case, step, self._unedited(case), error=error)

    def _unedited(self, case: Case) -> Sequence[Answer]:
        """Return what the unedited model answers; nothing if it cannot be asked either."""
        try:
            with self._time_for([case], 1):
                return self.clean.answers(case)
        except PASSING:
            raise
        except BaseException as error:
            failures.check_device(error)
            LOG.debug("asking the unedited model failed", exc_info=True)
            return ()

    def _time_for(self, cases: Sequence[Case], times: int) -> AbstractContextManager[None]:
        """Limit the time of cases; a benchmark that is run as a control takes what it takes."""
        examined = any(isinstance(case, Examined) for case in cases)
        return nullcontext() if examined else self.allowance.spent_on(times)

    def _edit_error(self, case: Case, step: Step) -> BaseException | None:
        """Return why the edit of a case failed, or the one that was made for a control."""
        (edited,) = step.edit if step.again else (case,)
        return self._editing.errors.get(edited.id)

    def _rows(self, measured: Sequence[Answered]) -> list[Record]:
        """Turn answers into lines of the run folder, the texts among them judged.

        Raises `DataError` if the unedited model answers with NaN, which is nobody's to judge, and
        `HarnessError` for answers that no model gives.
        """
        for each in measured:
            if not all(map(is_finite, each.before)):
                raise DataError(
                    f"the unedited model answers case {each.case.id} with NaN or infinity",
                    "check the weights, or load it with --dtype float32",
                )
            check_possible(each.case, [*each.before, *each.after])
        with put_back(self.tell, "a metric or a judge"):
            asked = [(each.case, (each.before, each.after)) for each in measured]
            records = [
                Record.of_no_use(each.case.id, answers, each.step.state)
                if isinstance(answers, DataError)
                else self._record(each, answers)
                for each, answers in zip(measured, judged_apart(self.judge, asked), strict=True)
            ]
        for record in records:
            self._took(record)
        return records

    def _record(self, measured: Answered, answers: Answers) -> Record:
        case, (before, after) = measured.case, answers
        status, message = self._status(measured)
        ours = status == OK and not isinstance(case, Examined)
        return Record(
            case=case.id,
            status=status,
            values=values(case, answers, self.metrics, status),
            state=measured.step.state,
            before=[encode_answer(answer) for answer in before],
            after=[encode_answer(answer) for answer in after],
            edit=dict(self._editing.info.get(case.id, {})),
            noop=ours and unchanged(measured.before, measured.after),
            seconds={
                "edit": self._editing.seconds.get(case.id, 0.0),
                "evaluate": measured.seconds,
            },
            message=message or measured.note,
        )

    def _status(self, measured: Answered) -> tuple[str, str]:
        error = measured.error
        if error is not None:
            edit = error is self._edit_error(measured.case, measured.step)
            return failures.status(error, self.editor, edit=edit)
        if not all(map(is_finite, measured.after)):
            return "nonfinite", "the edited model answers with NaN or infinity"
        return OK, ""

    def _took(self, record: Record) -> None:
        """Note what a case took, and whether memory holds too little."""
        if is_control(record.case) or self._ended:
            return
        self.allowance.took(sum(record.seconds.values()))
        self._oom_in_a_row = self._oom_in_a_row + 1 if record.status == "oom" else 0
        if self._oom_in_a_row == MANY:
            self._ended = ResourceError(
                f"memory did not suffice for {MANY} cases in a row, the last of them {record.case}",
                "free memory, or: --batch-size 1, --dtype bfloat16; then --retry-failed",
            )


def _examiner(asked: Sequence[tuple[Case, Step, Edit]]) -> str:
    """Say whose code ran while cases were asked, if a control's did: that is asked by itself."""
    if not asked or not isinstance(asked[0][0], Examined):
        return ""
    case, _, edit = asked[0]
    patch = ", or the patch of its editor," if edit.patch else ""
    return f"control {case.id.removeprefix(PREFIX)}{patch}"


def failed(
    case: Case, state: int, status: str, message: str, metrics: Mapping[str, Metric]
) -> Record:
    """Return the record of a visit that was not asked, or whose answers count no more."""
    given = values(case, ((), ()), metrics, status)
    return Record(case.id, status, given, state=state, message=message)


def check_possible(case: Case, answers: Sequence[Answer]) -> None:
    """Raise `HarnessError` for a log-probability above 0 or a divergence below: our own mistake."""
    for answer in answers:
        if isinstance(answer, Scores):
            wrong = any(value > ROUNDING for part in answer.logprobs for value in part)
        else:
            wrong = isinstance(answer, Divergence) and (
                min(answer.forward, answer.reverse) < -ROUNDING
            )
        if wrong:
            raise HarnessError(
                f"case {case.id} was answered with what no probability is: {answer!r:.200}",
                "this is a mistake of the harness: please report it",
            )
