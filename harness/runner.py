"""The loop: edit a chunk of cases, ask every probe before and after, measure.

A chunk is a fixed part of the plan, so that a run that goes on after an interruption computes the
same batches. One case that fails does not take the others of its chunk with it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import torch

from edit_harness.before import Before
from edit_harness.blame import PASSING, said
from edit_harness.cases import Answer, Answers, Case, Visit, is_finite
from edit_harness.digests import state
from edit_harness.edits import UNEDITED, Edit
from edit_harness.encoding import encode_answer
from edit_harness.errors import DataError, LeakError
from edit_harness.interfaces import Editor, Judge, Metric
from edit_harness.judging import judged_apart
from edit_harness.model import Model
from edit_harness.outcome import values
from edit_harness.plan import Step
from edit_harness.records import OK, Record
from edit_harness.tokens import TooLongError

LOG = logging.getLogger(__name__)
CHUNKS = ((20_000_000, 64), (200_000_000, 16))
"""Edits that share forward passes, for models of less than so many parameters.

They are also what an interruption can lose: some seconds of work on a CPU.
"""
LARGE_CHUNK, GPU_CHUNK = 4, 16
"""The same for larger models, on a CPU and elsewhere."""


@dataclass(frozen=True)
class Edited:
    """A step, and the edit that the model holds after it."""

    step: Step
    edit: Edit


@dataclass
class Ledger:
    """What became of the edit of each case, by its id; a case is edited once in a run."""

    seconds: dict[str, float] = field(default_factory=dict)
    errors: dict[str, BaseException] = field(default_factory=dict)
    edits: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """The editor's diagnostics."""

    def book(
        self, step: Step, seconds: float, edit: Edit, error: BaseException | None = None
    ) -> None:
        """Note what a step took, in equal parts, what the editor says of it, and that it failed."""
        for case in step.edit:
            self.edits[case.id] = edit.info
            self.seconds[case.id] = self.seconds.get(case.id, 0.0) + seconds / len(step.edit)
            if error is not None:
                self.errors.setdefault(case.id, error)


@dataclass(frozen=True)
class Measured:
    """The answers of one case to one edited model."""

    case: Case
    edited: Edited
    before: Sequence[Answer] = ()
    after: Sequence[Answer] = ()
    seconds: float = 0.0
    error: BaseException | None = None


def run(
    model: Model,
    editor: Editor,
    steps: Iterable[Step],
    metrics: Mapping[str, Metric],
    *,
    judge: Judge | None = None,
    done: Collection[Visit] = (),
    chunk: int | None = None,
) -> Iterator[Record]:
    """Yield a record for each measured case whose visit is not in ``done``; see `chunks`."""
    before = Before(model)
    for records in chunks(
        model, editor, steps, metrics, before, judge=judge, done=done, chunk=chunk
    ):
        yield from records


def chunks(
    model: Model,
    editor: Editor,
    steps: Iterable[Step],
    metrics: Mapping[str, Metric],
    before: Before,
    *,
    judge: Judge | None = None,
    done: Collection[Visit] = (),
    chunk: int | None = None,
) -> Iterator[list[Record]]:
    """Yield the records of each chunk, without those whose visits are in ``done``.

    Editors that go through the same steps side by side share ``before``. A case that fails gets a
    status and a message; the others go on. Raises `DataError` if the unedited model answers with
    NaN, `LeakError` if the editor changes it.
    """
    size = chunk or _chunk_of(model)
    groups = list(_grouped(steps, size))
    ledger = Ledger()
    last = UNEDITED
    number = 0
    for group, needed in zip(groups, _needed(groups, set(done)), strict=True):
        todo = [(case, i) for i, step in enumerate(group) for case in step.measure]
        edited: list[Edited] = []
        if needed:
            edited = _edit(model, editor, group, last, ledger)
            last = edited[-1].edit
            _check_clean(model, before)
        for start in range(0, len(todo), size):
            piece = todo[start : start + size]
            missing = [n for n, (c, i) in enumerate(piece) if (c.id, group[i].state) not in done]
            records = []
            if missing:
                before.turn_to(number)
                measured = _measure(before, [(case, edited[i]) for case, i in piece], ledger)
                _check_clean(model, before)
                records = _records([measured[n] for n in missing], editor, metrics, judge, ledger)
            number += 1
            yield records


def _needed(groups: Sequence[Sequence[Step]], done: Collection[Visit]) -> list[bool]:
    """Tell of each group whether its edits are needed: by itself, or as part of a sequence."""
    needed: list[bool] = []
    later = False
    for i, group in reversed(list(enumerate(groups))):
        goes_on = i + 1 < len(groups) and not groups[i + 1][0].fresh
        wanted = any(visit not in done for step in group for visit in step.visits)
        later = wanted or (goes_on and later)
        needed.append(later)
    return needed[::-1]


def _check_clean(model: Model, before: Before) -> None:
    """Raise `LeakError` if the model is not as it was before the first edit of any editor."""
    now = state(model.module)
    if changed := [name for name, found in now.items() if found != before.untouched.get(name)]:
        raise LeakError(
            f"the editor changed the model itself: {changed[0]} is not as it was",
            "an edit is returned as data; nothing of this chunk was kept",
        )


def _chunk_of(model: Model) -> int:
    size = sum(p.numel() for p in model.module.parameters())
    smallest = GPU_CHUNK if model.device.type != "cpu" else LARGE_CHUNK
    return next((chunk for most, chunk in CHUNKS if size < most), smallest)


def _grouped(steps: Iterable[Step], size: int) -> Iterator[list[Step]]:
    """Yield groups of steps that are edited together, of at least so many cases but for the last."""
    group: list[Step] = []
    for step in steps:
        group.append(step)
        if sum(len(step.edit) for step in group) >= size:
            yield group
            group = []
    if group:
        yield group


def _edit(
    model: Model, editor: Editor, group: Sequence[Step], last: Edit, ledger: Ledger
) -> list[Edited]:
    """Edit together what is independent, and the rest step by step; ``last`` is the edit before."""
    fresh = iter(_edit_each(model, editor, [step for step in group if step.fresh], ledger))
    edited = []
    for step in group:
        last = next(fresh) if step.fresh else _edit_one(model, editor, step, last, ledger)
        edited.append(Edited(step, last))
    return edited


def _edit_each(model: Model, editor: Editor, group: Sequence[Step], ledger: Ledger) -> list[Edit]:
    """Return independent edits; where editing together fails, in halves to see which it was."""
    if len(group) < 2:
        return [_edit_one(model, editor, step, UNEDITED, ledger) for step in group]
    start = perf_counter()
    try:
        edits = editor.edit_each(model, [step.requests for step in group])
        _check(edits, len(group))
    except PASSING:
        raise
    except BaseException:
        LOG.debug("editing %d steps together failed", len(group), exc_info=True)
    else:
        seconds = (perf_counter() - start) / len(group)
        for step, edit in zip(group, edits, strict=True):
            ledger.book(step, seconds, edit)
        return edits
    half = len(group) // 2  # which also halves the memory that it takes
    return [
        *_edit_each(model, editor, group[:half], ledger),
        *_edit_each(model, editor, group[half:], ledger),
    ]


def _check(edits: Sequence[Edit], count: int) -> None:
    """Raise `TypeError` if an editor returned something else than so many edits."""
    wrong = [type(edit).__name__ for edit in edits if not isinstance(edit, Edit)]
    if wrong or len(edits) != count:
        raise TypeError(f"the editor returned {wrong[0] if wrong else len(edits)}, not an Edit")


def _edit_one(model: Model, editor: Editor, step: Step, last: Edit, ledger: Ledger) -> Edit:
    """Return one edit; if it fails, a sequence goes on from the edit before."""
    start = perf_counter()
    try:
        if step.fresh:
            edit = editor.edit(model, step.requests)
        else:
            edit = editor.extend(model, last, step.requests)
        _check([edit], 1)
    except PASSING:
        raise
    except BaseException as error:
        LOG.debug("an edit failed", exc_info=True)
        ledger.book(step, perf_counter() - start, UNEDITED, error)
        return UNEDITED if step.fresh else last
    ledger.book(step, perf_counter() - start, edit)
    return edit


def _measure(before: Before, todo: Sequence[tuple[Case, Edited]], ledger: Ledger) -> list[Measured]:
    """Ask together; where that fails, case by case to see which it was."""
    try:
        return _ask(before, todo, ledger)
    except PASSING:
        raise
    except BaseException:
        LOG.debug("asking %d cases together failed", len(todo), exc_info=True)
    found = []
    for case, edited in todo:
        try:
            found += _ask(before, [(case, edited)], ledger)
        except PASSING:
            raise
        except BaseException as error:  # an adaptor or a patch is the editor's own code
            found.append(Measured(case, edited, _unedited(before, case), error=error))
    return found


def _unedited(before: Before, case: Case) -> Sequence[Answer]:
    """Return what the unedited model answers; nothing if it cannot be asked either."""
    try:
        return before.clean(case)
    except PASSING:
        raise
    except BaseException:
        LOG.debug("asking the unedited model failed", exc_info=True)
        return ()


def _ask(before: Before, todo: Sequence[tuple[Case, Edited]], ledger: Ledger) -> list[Measured]:
    start = perf_counter()
    cases = {case.id: case for case, _ in todo}
    answers = before.ask(list(cases.values()), [(case, edited.edit) for case, edited in todo])
    seconds = (perf_counter() - start) / max(len(todo), 1)
    return [
        Measured(case, edited, *pair, seconds, ledger.errors.get(case.id))
        for (case, edited), pair in zip(todo, answers, strict=True)
    ]


def _records(
    measured: Sequence[Measured],
    editor: Editor,
    metrics: Mapping[str, Metric],
    judge: Judge | None,
    ledger: Ledger,
) -> list[Record]:
    """Turn answers into lines of the run folder, the texts among them judged.

    Raises `DataError` if the unedited model answers with NaN, which is nobody's to judge.
    """
    for m in measured:
        if m.before and not all(map(is_finite, m.before)):
            raise DataError(
                f"the unedited model answers case {m.case.id} with NaN or infinity",
                "check the weights, or load it with --dtype float32",
            )
    found = judged_apart(judge, [(m.case, (m.before, m.after)) for m in measured])
    return [
        Record.of_no_use(m.case.id, answers, m.edited.step.state)
        if isinstance(answers, DataError)
        else _record(m, answers, editor, metrics, ledger)
        for m, answers in zip(measured, found, strict=True)
    ]


def _record(
    measured: Measured,
    answers: Answers,
    editor: Editor,
    metrics: Mapping[str, Metric],
    ledger: Ledger,
) -> Record:
    case, edited = measured.case, measured.edited
    status, message = _status(measured, editor, ledger)
    before, after = answers
    given, got = (list(map(encode_answer, m)) for m in (measured.before, measured.after))
    return Record(
        case=case.id,
        status=status,
        values=values(case, answers, metrics, status),
        state=edited.step.state,
        before=[encode_answer(answer) for answer in before],
        after=[encode_answer(answer) for answer in after],
        edit=dict(ledger.edits.get(case.id, {})),
        noop=status == OK and given == got,
        seconds={"edit": ledger.seconds.get(case.id, 0.0), "evaluate": measured.seconds},
        message=message,
    )


def _status(measured: Measured, editor: Editor, ledger: Ledger) -> tuple[str, str]:
    error = measured.error
    if isinstance(error, TooLongError):
        return "too_long", error.cause
    if isinstance(error, torch.OutOfMemoryError):
        return "oom", "the device's memory is too small for it, even alone"
    if error is not None:
        stage = "edit_failed" if error is ledger.errors.get(measured.case.id) else "error"
        return stage, said(error, editor)
    if not all(map(is_finite, measured.after)):
        return "nonfinite", "the edited model answers with NaN or infinity"
    return OK, ""
