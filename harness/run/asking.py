"""Cases asked under their edits, and what is made of the answers: the rows of the run folder.

Where asking together fails, cases are asked one by one, so that a failure stays with its case.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from time import perf_counter

from ..data import Answer, Answers, Case, Divergence, Examined, Scores, is_finite
from ..errors import DataError, HarnessError, LeakError
from ..folder.answers import unchanged
from ..folder.encoding import encode_answer
from ..folder.record import OK, Record
from ..interfaces import Editor, Judge, Metric
from ..registry import guard as process
from ..registry.allowance import Allowance
from ..registry.guard import PASSING
from . import failures
from .before import Before
from .judging import judged_apart
from .making import Edited, Ledger, Setback, Tell
from .outcome import values

LOG = logging.getLogger(__name__)
ROUNDING = 1e-6
"""What a log-probability may be above 0, and a divergence below it, in nats."""


@dataclass(frozen=True)
class Measured:
    """The answers of one case to one edited model."""

    case: Case
    edited: Edited
    before: Sequence[Answer] = ()
    after: Sequence[Answer] = ()
    seconds: float = 0.0
    error: BaseException | None = None
    note: str = ""
    """What its row should say though nothing failed."""


@dataclass
class Asker:
    """Who asks an unedited and many edited models, in the name of one editor."""

    before: Before
    editor: Editor
    metrics: Mapping[str, Metric]
    judge: Judge | None
    ledger: Ledger
    allowance: Allowance
    tell: Tell
    setback: Setback = field(default_factory=lambda: Setback("asking", "asked one by one"))
    _changed: list[str] = field(default_factory=list)

    def ask(self, todo: Sequence[tuple[Case, Edited]]) -> list[Measured]:
        """Ask together; where that fails, case by case to see which it was.

        Raises `DeviceLostError` if the device fails, and `LeakError` if an edit's own code changed
        what numbers depend on in the process.
        """
        model = self.before.model
        halved = model.halved
        self._changed.clear()
        with process.restored(self._note):
            found = self._together(todo)
        if spoilt := [name for name in self._changed if name in process.NUMERIC]:
            raise LeakError(f"{spoilt[0]}, while it was asked")
        if not (times := model.halved - halved):
            return found
        self.tell(f"memory did not suffice: batches are of {model.batch_tokens} tokens from now on")
        note = f"its batch was halved for want of memory, {times} times with those beside it"
        return [replace(m, note=note) for m in found]

    def _note(self, changed: Sequence[str]) -> None:
        self._changed += changed
        for name in changed:
            self.tell(f"the editor's code changed {name} where it was asked, which was put back")

    def _together(self, todo: Sequence[tuple[Case, Edited]]) -> list[Measured]:
        try:
            return self._ask(todo)
        except PASSING:
            raise
        except BaseException as error:
            failures.check_device(error)
            LOG.debug("asking %d cases together failed", len(todo), exc_info=True)
            if len(todo) > 1:
                self.setback.add(len(todo), error, self.editor)
        return [self._alone(case, edited) for case, edited in todo]

    def _alone(self, case: Case, edited: Edited) -> Measured:
        try:
            (found,) = self._ask([(case, edited)])
        except PASSING:
            raise
        except BaseException as error:  # an adaptor or a patch is the editor's own code
            failures.check_device(error)
            return Measured(case, edited, self._unedited(case), error=error)
        return found

    def _unedited(self, case: Case) -> Sequence[Answer]:
        """Return what the unedited model answers; nothing if it cannot be asked either."""
        try:
            with self._spent_on([case], 1):
                return self.before.clean(case)
        except PASSING:
            raise
        except BaseException as error:
            failures.check_device(error)
            LOG.debug("asking the unedited model failed", exc_info=True)
            return ()

    def _ask(self, todo: Sequence[tuple[Case, Edited]]) -> list[Measured]:
        start = perf_counter()
        cases = {case.id: case for case, _ in todo}
        edited = [(case, edited.edit) for case, edited in todo]
        with self._spent_on(list(cases.values()), len(todo)):
            answers = self.before.ask(list(cases.values()), edited)
        seconds = (perf_counter() - start) / max(len(todo), 1)
        return [
            Measured(case, edited, *pair, seconds, self._failed_edit(case, edited))
            for (case, edited), pair in zip(todo, answers, strict=True)
        ]

    def _spent_on(self, cases: Sequence[Case], times: int) -> AbstractContextManager[None]:
        """Limit the time of cases; a benchmark that is run as a control takes what it takes."""
        examined = any(isinstance(case, Examined) for case in cases)
        return nullcontext() if examined else self.allowance.spent_on(times)

    def _failed_edit(self, case: Case, edited: Edited) -> BaseException | None:
        """Return why the edit of a case failed, or the one that was made for a control."""
        (edit,) = edited.step.edit if edited.step.again else (case,)
        return self.ledger.errors.get(edit.id)

    def records(self, measured: Sequence[Measured]) -> list[Record]:
        """Turn answers into lines of the run folder, the texts among them judged.

        Raises `DataError` if the unedited model answers with NaN, which is nobody's to judge, and
        `HarnessError` for answers that no model gives.
        """
        for m in measured:
            if m.before and not all(map(is_finite, m.before)):
                raise DataError(
                    f"the unedited model answers case {m.case.id} with NaN or infinity",
                    "check the weights, or load it with --dtype float32",
                )
            check_possible(m.case, [*m.before, *m.after])
        with process.restored(self._of_metrics):
            found = judged_apart(self.judge, [(m.case, (m.before, m.after)) for m in measured])
            return [
                Record.of_no_use(m.case.id, answers, m.edited.step.state)
                if isinstance(answers, DataError)
                else self._record(m, answers)
                for m, answers in zip(measured, found, strict=True)
            ]

    def _of_metrics(self, changed: Sequence[str]) -> None:
        for name in changed:
            self.tell(f"a metric or a judge changed {name}, which was put back")

    def _record(self, measured: Measured, answers: Answers) -> Record:
        case, edited = measured.case, measured.edited
        status, message = self._status(measured)
        before, after = answers
        seconds = {
            "edit": self.ledger.seconds.get(case.id, 0.0),
            "evaluate": measured.seconds,
        }
        return Record(
            case=case.id,
            status=status,
            values=values(case, answers, self.metrics, status),
            state=edited.step.state,
            before=[encode_answer(answer) for answer in before],
            after=[encode_answer(answer) for answer in after],
            edit=dict(self.ledger.edits.get(case.id, {})),
            noop=status == OK
            and not isinstance(case, Examined)
            and unchanged(measured.before, measured.after),
            seconds=seconds,
            message=message or measured.note,
        )

    def _status(self, measured: Measured) -> tuple[str, str]:
        error = measured.error
        if error is not None:
            edit = error is self._failed_edit(measured.case, measured.edited)
            return failures.status(error, self.editor, edit=edit)
        if not all(map(is_finite, measured.after)):
            return "nonfinite", "the edited model answers with NaN or infinity"
        return OK, ""


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
