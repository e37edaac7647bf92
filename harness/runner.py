"""The loop: edit a chunk of cases, ask every probe before and after, measure.

A chunk is a fixed part of the plan, so that a run that goes on after an interruption computes the
same batches. One case that fails does not take the others of its chunk with it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from edit_harness.cases import Answer, Case, Distribution, Divergence, Scores
from edit_harness.digests import checksums
from edit_harness.edits import UNEDITED, Edit
from edit_harness.errors import DataError, PluginError
from edit_harness.interfaces import Editor, Metric
from edit_harness.model import Model
from edit_harness.plan import Step
from edit_harness.records import OK, Record, encode_answer
from edit_harness.tokens import TooLongError

LOG = logging.getLogger(__name__)
CHUNK, LARGE_CHUNK = 4, 16
"""Edits that share forward passes, which is also what an interruption can lose."""
SMALL = 200_000_000
"""Parameters below which a CPU does a large chunk in seconds."""


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
    """Yield a record for each measured case whose id is not in ``done``.

    A case that fails gets a status and a message; the others go on. Raises `DataError` if the
    unedited model answers with NaN.
    """
    last, clean = UNEDITED, checksums(model.module)
    for group in _chunks(steps, chunk or _chunk_of(model)):
        wanted = {case.id for step in group for case in step.measure}.difference(done)
        if not wanted and all(step.fresh for step in group):
            continue
        edited = _edit(model, editor, group, last)
        last = edited[-1].edit
        if changed := [
            name for name, bits in checksums(model.module).items() if bits != clean[name]
        ]:
            raise PluginError(
                f"the editor changed the model itself: {changed[0]} is not as it was",
                "an edit is returned as data; nothing of this chunk was kept",
            )
        for measured in _measure(model, edited):
            if measured.case.id in wanted:
                yield record(measured, metrics)


def _chunk_of(model: Model) -> int:
    small = sum(p.numel() for p in model.module.parameters()) < SMALL
    return LARGE_CHUNK if small or model.device.type != "cpu" else CHUNK


def _chunks(steps: Iterable[Step], size: int) -> Iterator[list[Step]]:
    group: list[Step] = []
    for step in steps:
        group.append(step)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def _edit(model: Model, editor: Editor, group: Sequence[Step], last: Edit) -> list[Edited]:
    """Edit together what is independent; where that fails, one by one to see which it was."""
    if all(step.fresh for step in group):
        start = perf_counter()
        try:
            edits = editor.edit_each(model, [step.requests for step in group])
            _check(edits, len(group))
        except (Exception, SystemExit):
            LOG.debug("editing %d steps together failed", len(group), exc_info=True)
        else:
            seconds = (perf_counter() - start) / len(group)
            return [Edited(s, e, seconds) for s, e in zip(group, edits, strict=True)]
    edited = []
    for step in group:
        edited.append(_edit_one(model, editor, step, last))
        last = edited[-1].edit
    return edited


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


def _measure(model: Model, edited: Sequence[Edited]) -> Iterator[Measured]:
    """Ask together; where that fails, case by case to see which it was."""
    todo = [(case, e) for e in edited for case in e.step.measure]
    try:
        yield from _ask(model, todo)
        return
    except (TooLongError, PluginError):
        LOG.debug("asking %d cases together failed", len(todo), exc_info=True)
    for item in todo:
        try:
            yield from _ask(model, [item])
        except (TooLongError, PluginError) as error:
            yield Measured(*item, error=error)


def _ask(model: Model, todo: Sequence[tuple[Case, Edited]]) -> list[Measured]:
    start = perf_counter()
    questions = [
        (edit, probe.query)
        for case, edited in todo
        for edit in (UNEDITED, edited.edit)
        for probe in case.probes
    ]
    answers = iter(model.answer(questions))
    seconds = perf_counter() - start
    found = []
    for case, edited in todo:
        before = [next(answers) for _ in case.probes]
        after = [next(answers) for _ in case.probes]
        found.append(Measured(case, edited, before, after, seconds / len(todo), edited.error))
    return found


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
    """Return what a metric says of a case. Raises `PluginError` that names it if it fails."""
    case, before, after = measured.case, measured.before, measured.after
    try:
        values = metric.measure(case, before, after) if valid else metric.failed(case, before)
        return {str(key): float(value) for key, value in values.items()}
    except Exception as error:
        raise PluginError(
            f"metric {name} failed on case {case.id}: {type(error).__name__}: {error}",
            "leave it out with --metrics, or ask its author",
        ) from error


def _status(measured: Measured) -> tuple[str, str]:
    error = measured.error
    if isinstance(error, TooLongError):
        return "too_long", error.cause
    if error is not None:
        stage = "edit_failed" if error is measured.edited.error else "error"
        return stage, f"{type(error).__name__}: {error}"
    if not all(map(is_finite, measured.after)):
        return "nonfinite", "the edited model answers with NaN or infinity"
    return OK, ""


def is_finite(answer: Answer) -> bool:
    """Tell whether all numbers of an answer are finite."""
    if isinstance(answer, Scores):
        return all(math.isfinite(value) for part in answer.logprobs for value in part)
    if isinstance(answer, Divergence):
        return math.isfinite(answer.forward) and math.isfinite(answer.reverse)
    return not isinstance(answer, Distribution) or math.isfinite(answer.log_partition)
