"""One chunk of a plan: find its edits, ask its cases before and after, make their rows.

Cases are asked together, and one by one where that fails, so that a failure stays with its case. No row
is made before the model is verified.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from ..data import Answer, Answers, Case, Examined, is_finite
from ..edits import Edit
from ..errors import DataError, LeakError, ResourceError
from ..folder.encoding import encode_answer, unchanged
from ..folder.record import OK, Record
from ..interfaces import Editor, Judge, Metric
from ..registry import guard
from ..registry.guard import PASSING
from . import failures
from .clean import CleanPass
from .controls import PREFIX
from .editing import Editing, Tell, put_back
from .estimates import values
from .failures import DeviceLostError
from .judging import judged_apart
from .plan import Chunk, Step

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Answered:
    """The answers of one edited model to one case."""

    case: Case
    step: Step
    before: Sequence[Answer] = ()
    after: Sequence[Answer] = ()
    seconds: float = 0.0
    error: BaseException | None = None


@dataclass
class Work:
    """One editor at work on the chunks of a plan; the editors of a run share ``clean``."""

    clean: CleanPass
    editor: Editor
    metrics: Mapping[str, Metric]
    judge: Judge | None = None
    tell: Tell = lambda line: None
    """Takes lines for readers of the run; a line may come twice."""
    _edits: Sequence[Edit] = ()
    """The edits of the current group of steps."""

    def __post_init__(self) -> None:
        self.editing = Editing(self.clean.model, self.editor, self.tell)

    def records(self, chunk: Chunk) -> list[Record]:
        """Return the wanted records of a chunk: edit, measure, verify.

        A case that fails gets a status and a message. Raises `LeakError` if the model changed,
        `ResourceError` if the device failed, and `DataError` if the unedited model answers with NaN.
        """
        asked: Sequence[tuple[Case, Step, Edit]] = ()
        try:
            if chunk.edits:
                self._edits = self.editing.edits(chunk.steps)
                self.clean.guard.check()
            if not chunk.missing:
                return []
            self.clean.turn_to(chunk.number)
            todo = [(case, chunk.steps[i], self._edits[i]) for case, i in chunk.todo]
            measured, asked = self._ask(todo), todo
            self.clean.guard.verify()
        except DeviceLostError as error:
            raise ResourceError(
                f"the device failed: {error}",
                "start the same command again, on another device if it stays so",
            ) from error
        except LeakError as leak:
            raise LeakError(leak.what, _examiner(asked)) from None
        return self._rows([measured[n] for n in chunk.missing])

    def _ask(self, todo: Sequence[tuple[Case, Step, Edit]]) -> list[Answered]:
        """Ask together; where that fails, one by one to find the case that fails.

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
                found = [self._alone(*each) for each in todo]
        if spoilt := [name for name in changed if name in guard.NUMERIC]:
            raise LeakError(f"{spoilt[0]}, while it was asked")
        if model.halved > halved:
            told = f"batches are of {model.batch_tokens} tokens from now on"
            self.tell(f"memory did not suffice: {told}")
        return found

    def _together(self, todo: Sequence[tuple[Case, Step, Edit]]) -> list[Answered]:
        start = perf_counter()
        cases = list({case.id: case for case, *_ in todo}.values())
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
        """Return the unedited model's answers; none if it cannot be asked either."""
        try:
            return self.clean.answers(case)
        except PASSING:
            raise
        except BaseException as error:
            failures.check_device(error)
            LOG.debug("asking the unedited model failed", exc_info=True)
            return ()

    def _edit_error(self, case: Case, step: Step) -> BaseException | None:
        """Return why the edit failed that a case is measured under, if it did."""
        (edited,) = step.edit if step.again else (case,)
        unfinished = self.editing.unfinished.get((case.id, step.state))
        return unfinished or self.editing.errors.get(edited.id)

    def _rows(self, measured: Sequence[Answered]) -> list[Record]:
        """Turn answers into rows, with verdicts on texts.

        Raises `DataError` if the unedited model answers with NaN.
        """
        for each in measured:
            if not all(map(is_finite, each.before)):
                raise DataError(
                    f"the unedited model answers case {each.case.id} with NaN or infinity",
                    "check the weights, or load it with --dtype float32",
                )
        with put_back(self.tell, "a metric or a judge"):
            asked = [(each.case, (each.before, each.after)) for each in measured]
            return [
                Record.of_no_use(each.case.id, answers, each.step.state)
                if isinstance(answers, DataError)
                else self._record(each, answers)
                for each, answers in zip(measured, judged_apart(self.judge, asked), strict=True)
            ]

    def _record(self, measured: Answered, answers: Answers) -> Record:
        case, (before, after) = measured.case, answers
        status, message = self._status(measured)
        if status == "too_long" and case.probes and not before:  # of the unedited model, too
            return Record.of_no_use(case.id, message, measured.step.state)
        ours = status == OK and not isinstance(case, Examined)
        return Record(
            case=case.id,
            status=status,
            values=values(case, answers, self.metrics, status),
            state=measured.step.state,
            before=[encode_answer(answer) for answer in before],
            after=[encode_answer(answer) for answer in after],
            edit=dict(self.editing.info.get(case.id, {})),
            noop=ours and unchanged(measured.before, measured.after),
            seconds={
                "edit": self.editing.seconds.get(case.id, 0.0),
                "evaluate": measured.seconds,
            },
            message=message,
        )

    def _status(self, measured: Answered) -> tuple[str, str]:
        error = measured.error
        if error is not None:
            edit = error is self._edit_error(measured.case, measured.step)
            return failures.status(error, self.editor, edit=edit)
        if not all(map(is_finite, measured.after)):
            return "nonfinite", "the edited model answers with NaN or infinity"
        return OK, ""


def _examiner(asked: Sequence[tuple[Case, Step, Edit]]) -> str:
    """Name the control whose own code ran while cases were asked; empty if none did."""
    if not asked or not isinstance(asked[0][0], Examined):
        return ""
    case, _, edit = asked[0]
    patch = ", or the patch of its editor," if edit.patch else ""
    return f"control {case.id.removeprefix(PREFIX)}{patch}"
