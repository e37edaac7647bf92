"""The loop: edit a chunk of cases, ask every probe before and after, measure.

A chunk is a fixed part of the plan, so that a run that goes on after an interruption computes the
same batches. One case that fails does not take the others of its chunk with it. No row leaves here
before it is sure that the model is as it was: bit for bit, and in what it answers to fixed texts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..data import Case, Examined, Visit
from ..edits import UNEDITED, Edit
from ..errors import LeakError, ResourceError
from ..folder.record import Record
from ..interfaces import Editor, Judge, Metric
from ..model.model import Model
from ..registry.allowance import Allowance
from .asking import Asker, failed
from .before import Before
from .control import PREFIX, is_control
from .failures import MANY, DeviceLostError
from .making import Edited, Maker, Tell
from .plan import Step

CHUNKS = ((20_000_000, 64), (200_000_000, 16))
"""Edits that share forward passes, for models of less than so many parameters.

They are also what an interruption can lose: some seconds of work on a CPU.
"""
LARGE_CHUNK, GPU_CHUNK = 4, 16
"""The same for larger models, on a CPU and elsewhere."""


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
    allowance: Allowance | None = None,
    tell: Tell = lambda line: None,
) -> Iterator[list[Record]]:
    """Yield the records of each chunk, without those whose visits are in ``done``.

    Editors that go through the same steps side by side share ``before``. A case that fails gets a
    status and a message; the others go on. ``tell`` is told what readers should know, maybe twice.
    Raises `DataError` if the unedited model answers with NaN, `LeakError` if the editor changes it,
    and, after the rows of what was at work, `ResourceError` if a device fails or memory does not
    hold several cases in a row.
    """
    size = chunk or chunk_of(model)
    time = allowance or Allowance()
    maker = Maker(model, editor, time, tell)
    asker = Asker(before, editor, metrics, judge, maker.ledger, time, tell)
    loop = _Loop(maker, asker, set(done)).run(list(grouped(steps, size)), size)
    try:
        yield from _timed(loop, time)
    finally:
        for setback in (maker.setback, asker.setback):
            setback.tell(tell)


def _timed(loop: Iterator[list[Record]], time: Allowance) -> Iterator[list[Record]]:
    """Pass records on, note what they took, and end where memory holds too little."""
    in_a_row = 0
    for records in loop:
        yield records
        for record in records:
            if is_control(record.case):
                continue
            time.took(sum(record.seconds.values()))
            in_a_row = in_a_row + 1 if record.status == "oom" else 0
            if in_a_row == MANY:
                raise ResourceError(
                    f"memory did not suffice for {MANY} cases in a row, the last of them {record.case}",
                    "free memory, or: --batch-size 1, --dtype bfloat16; then --retry-failed",
                )


@dataclass(frozen=True)
class _Piece:
    """Cases that are asked at once, each with the number of its step in a group."""

    todo: Sequence[tuple[Case, int]]
    missing: Sequence[int]
    """The places of those whose rows are wanted; the others are asked for equal batches."""


@dataclass
class _Loop:
    """Takes one editor through the groups of a plan."""

    maker: Maker
    asker: Asker
    done: Collection[Visit]

    def run(self, groups: Sequence[Sequence[Step]], size: int) -> Iterator[list[Record]]:
        """Yield the records of each piece of each group, none if there is nothing to do."""
        last, number = UNEDITED, 0
        for group, needed in zip(groups, _needed(groups, self.done), strict=True):
            pieces = list(self._pieces(group, size))
            waiting = [(p.todo[n][0], group[p.todo[n][1]].state) for p in pieces for n in p.missing]
            try:
                edited = self._edit(group, last) if needed else []
                last = edited[-1].edit if edited else last
                for piece in pieces:
                    yield self._measure(piece, edited, number) if piece.missing else []
                    number += 1
                    waiting = waiting[len(piece.missing) :]
            except DeviceLostError as error:
                others = f" (one of {len(waiting)} that were at work)" if len(waiting) > 1 else ""
                yield [
                    failed(case, state, "device_error", f"{error}{others}", self.asker.metrics)
                    for case, state in waiting
                ]
                raise ResourceError(
                    f"the device failed: {error}",
                    "start again with --retry-failed, on another device if it stays so",
                ) from error
            except LeakError as leak:
                visits = [(case.id, state) for case, state in waiting]
                raise LeakError(leak.what, visits, by=leak.by) from None

    def _pieces(self, group: Sequence[Step], size: int) -> Iterator[_Piece]:
        todo = [(case, i) for i, step in enumerate(group) for case in step.measure]
        asked = [each for each in todo if not isinstance(each[0], Examined)]
        pieces = [asked[start : start + size] for start in range(0, len(asked), size)]
        # What is examined shares no forward pass.
        for piece in [*pieces, *([each] for each in todo if isinstance(each[0], Examined))]:
            visits = [(case.id, group[i].state) for case, i in piece]
            yield _Piece(piece, [n for n, visit in enumerate(visits) if visit not in self.done])

    def _edit(self, group: Sequence[Step], last: Edit) -> list[Edited]:
        edited = self.maker.edit(group, last)
        self.asker.before.witness.check()
        return edited

    def _measure(self, piece: _Piece, edited: Sequence[Edited], number: int) -> list[Record]:
        before = self.asker.before
        before.turn_to(number)
        measured = self.asker.ask([(case, edited[i]) for case, i in piece.todo])
        try:
            before.witness.verify()
        except LeakError as leak:
            raise LeakError(leak.what, by=_examiner(piece, edited)) from None
        return self.asker.records([measured[n] for n in piece.missing])


def _examiner(piece: _Piece, edited: Sequence[Edited]) -> str:
    """Say whose code ran while a piece was asked, if a control's did: that is asked by itself."""
    case, place = piece.todo[0]
    if not isinstance(case, Examined):
        return ""
    patch = ", or the patch of its editor," if edited[place].edit.patch else ""
    return f"control {case.id.removeprefix(PREFIX)}{patch}"


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


def chunk_sizes(model: Model) -> tuple[int, int]:
    """Return how many edits share forward passes on a CPU, and elsewhere."""
    small = [(chunk, chunk) for most, chunk in CHUNKS if model.size < most]
    return (*small, (LARGE_CHUNK, GPU_CHUNK))[0]


def chunk_of(model: Model) -> int:
    """Return the same of a model where it is."""
    return chunk_sizes(model)[model.device.type != "cpu"]


def grouped(steps: Iterable[Step], size: int) -> Iterator[list[Step]]:
    """Yield the chunks of a plan: steps that are edited together, of so many cases or just above.

    The last may have fewer.
    """
    group: list[Step] = []
    for step in steps:
        if group and step.again != group[-1].again:
            yield group
            group = []
        group.append(step)
        if sum(len(step.edit) for step in group) >= size:
            yield group
            group = []
    if group:
        yield group
