"""The loop: edit a chunk of cases, ask every probe before and after, measure.

A chunk is a fixed part of the plan, so that a run that goes on after an interruption computes the
same batches. One case that fails does not take the others of its chunk with it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import torch

from edit_harness.before import Before
from edit_harness.cases import Answer, Case, is_finite
from edit_harness.digests import state
from edit_harness.edits import UNEDITED, Edit
from edit_harness.errors import DataError, LeakError, PluginError
from edit_harness.interfaces import Editor, Metric
from edit_harness.model import Model
from edit_harness.plan import Step
from edit_harness.records import OK, Record, encode_answer
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
    """A step and what became of its edit."""

    step: Step
    edit: Edit = field(default_factory=Edit)
    seconds: float = 0.0
    error: BaseException | None = None


@dataclass(frozen=True)
class Measured:
    """The answers of one case."""

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
    done: Collection[str] = (),
    chunk: int | None = None,
) -> Iterator[Record]:
    """Yield a record for each measured case whose id is not in ``done``; see `chunks`."""
    for records in chunks(model, editor, steps, metrics, Before(model), done=done, chunk=chunk):
        yield from records


def chunks(
    model: Model,
    editor: Editor,
    steps: Iterable[Step],
    metrics: Mapping[str, Metric],
    before: Before,
    *,
    done: Collection[str] = (),
    chunk: int | None = None,
) -> Iterator[list[Record]]:
    """Yield the records of each chunk, without those of cases whose ids are in ``done``.

    Editors that go through the same steps side by side share ``before``. A case that fails gets a
    status and a message; the others go on. Raises `DataError` if the unedited model answers with
    NaN, `LeakError` if the editor changes it.
    """
    last = UNEDITED
    groups = list(_grouped(steps, chunk or _chunk_of(model)))
    for number, (group, following) in enumerate(zip(groups, [*groups[1:], []], strict=True)):
        wanted = {case.id for step in group for case in step.measure}.difference(done)
        if not wanted and all(step.fresh for step in (*group, *following[:1])):
            yield []
            continue
        edited = _edit(model, editor, group, last)
        last = edited[-1].edit
        _check_clean(model, before)
        before.turn_to(number)
        measured = _measure(before, edited)
        _check_clean(model, before)
        yield [record(m, metrics) for m in measured if m.case.id in wanted]


def _check_clean(model: Model, before: Before) -> None:
    """Raise `LeakError` if the model is not as it was before the first edit of any editor."""
    now = state(model.module)
    if changed := [name for name, found in now.items() if found != before.clean.get(name)]:
        raise LeakError(
            f"the editor changed the model itself: {changed[0]} is not as it was",
            "an edit is returned as data; nothing of this chunk was kept",
        )


def _chunk_of(model: Model) -> int:
    size = sum(p.numel() for p in model.module.parameters())
    smallest = GPU_CHUNK if model.device.type != "cpu" else LARGE_CHUNK
    return next((chunk for most, chunk in CHUNKS if size < most), smallest)


def _grouped(steps: Iterable[Step], size: int) -> Iterator[list[Step]]:
    group: list[Step] = []
    for step in steps:
        group.append(step)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def _edit(model: Model, editor: Editor, group: Sequence[Step], last: Edit) -> list[Edited]:
    """Edit together what is independent; where that fails, in halves to see which it was."""
    if all(step.fresh for step in group):
        return _edit_each(model, editor, group)
    edited = []
    for step in group:
        edited.append(_edit_one(model, editor, step, last))
        last = edited[-1].edit
    return edited


def _edit_each(model: Model, editor: Editor, group: Sequence[Step]) -> list[Edited]:
    if len(group) == 1:
        return [_edit_one(model, editor, group[0], UNEDITED)]
    start = perf_counter()
    try:
        edits = editor.edit_each(model, [step.requests for step in group])
        _check(edits, len(group))
    except (Exception, SystemExit):
        LOG.debug("editing %d steps together failed", len(group), exc_info=True)
    else:
        seconds = (perf_counter() - start) / len(group)
        return [Edited(s, e, seconds) for s, e in zip(group, edits, strict=True)]
    half = len(group) // 2  # which also halves the memory that it takes
    return _edit_each(model, editor, group[:half]) + _edit_each(model, editor, group[half:])


def _check(edits: Sequence[Edit], count: int) -> None:
    """Raise `TypeError` if an editor returned something else than so many edits."""
    wrong = [type(edit).__name__ for edit in edits if not isinstance(edit, Edit)]
    if wrong or len(edits) != count:
        raise TypeError(f"the editor returned {wrong[0] if wrong else len(edits)}, not an Edit")


def _edit_one(model: Model, editor: Editor, step: Step, last: Edit) -> Edited:
    """Make one edit; if it fails, a sequence goes on from the edit before."""
    start = perf_counter()
    try:
        if step.fresh:
            edit = editor.edit(model, step.requests)
        else:
            edit = editor.extend(model, last, step.requests)
        _check([edit], 1)
    except (Exception, SystemExit) as error:
        LOG.debug("an edit failed", exc_info=True)
        return Edited(step, UNEDITED if step.fresh else last, perf_counter() - start, error)
    return Edited(step, edit, perf_counter() - start)


def _measure(before: Before, edited: Sequence[Edited]) -> list[Measured]:
    """Ask together; where that fails, case by case to see which it was."""
    todo = [(case, e) for e in edited for case in e.step.measure]
    try:
        return _ask(before, todo)
    except Exception:
        LOG.debug("asking %d cases together failed", len(todo), exc_info=True)
    found = []
    for item in todo:
        try:
            found += _ask(before, [item])
        except Exception as error:  # an adaptor or a patch is the editor's own code
            found.append(Measured(*item, error=error))
    return found


def _ask(before: Before, todo: Sequence[tuple[Case, Edited]]) -> list[Measured]:
    start = perf_counter()
    cases = {case.id: case for case, _ in todo}
    answers = before.ask(list(cases.values()), [(case, edited.edit) for case, edited in todo])
    seconds = (perf_counter() - start) / max(len(todo), 1)
    return [
        Measured(case, edited, *pair, seconds, edited.error)
        for (case, edited), pair in zip(todo, answers, strict=True)
    ]


def record(measured: Measured, metrics: Mapping[str, Metric]) -> Record:
    """Turn the answers of one case into its line of the run folder."""
    case, before, after = measured.case, measured.before, measured.after
    if before and not all(map(is_finite, before)):
        raise DataError(
            f"the unedited model answers case {case.id} with NaN or infinity",
            "check the weights, or load it with --dtype float32",
        )
    status, message = _status(measured)
    values = {name: _values(name, m, measured, status == OK) for name, m in metrics.items()}
    raw_before, raw_after = (list(map(encode_answer, answers)) for answers in (before, after))
    return Record(
        case=case.id,
        status=status,
        values=values,
        before=raw_before,
        after=raw_after,
        edit=dict(measured.edited.edit.info),
        noop=status == OK and raw_before == raw_after,
        seconds={"edit": measured.edited.seconds, "evaluate": measured.seconds},
        message=message,
    )


def _values(name: str, metric: Metric, measured: Measured, valid: bool) -> dict[str, float]:
    """Return what a metric says of a case. Raises `PluginError` that names it if it fails.

    `DataError` stays what it is: the metric misses a file.
    """
    case, before, after = measured.case, measured.before, measured.after
    try:
        values = metric.measure(case, before, after) if valid else metric.failed(case, before)
        return {str(key): float(value) for key, value in values.items()}
    except DataError:
        raise
    except Exception as error:
        raise PluginError(
            f"metric {name} failed on case {case.id}: {type(error).__name__}: {error}",
            "leave it out with --metrics, or ask its author",
        ) from error


def _status(measured: Measured) -> tuple[str, str]:
    error = measured.error
    if isinstance(error, TooLongError):
        return "too_long", error.cause
    if isinstance(error, torch.OutOfMemoryError):
        return "oom", "the device's memory is too small for it, even alone"
    if error is not None:
        stage = "edit_failed" if error is measured.edited.error else "error"
        return stage, f"{type(error).__name__}: {error}"
    if not all(map(is_finite, measured.after)):
        return "nonfinite", "the edited model answers with NaN or infinity"
    return OK, ""
