"""Editors that take turns on one model, and their rows: each chunk is verified before it is written.

The editors share the model, so what one of them leaves in it would spoil the rows of all; whose turn
it was is to blame. What a leak is, is told by `edit_harness.run.witness`; the order of cases, and that
nothing unverified comes here, is `edit_harness.run.runner`'s matter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import structs

from ..data import Case, Visit
from ..errors import LeakError, RunFolderError, counted
from ..files import cache_folder
from ..folder.folder import RunFolder
from ..folder.manifest import Asked, Segment, extended, software
from ..folder.record import OK, Record
from ..model.model import Model
from ..registry.allowance import Allowance
from . import runner, selfcheck, selftest
from .asking import failed
from .before import Before
from .control import is_control
from .failures import RETRIED
from .plan import Step

if TYPE_CHECKING:
    from ..folder.record import Writer
    from .evaluation import Evaluation

Turn = tuple["Evaluation", Record]
ASKED_AGAIN, SAME = 5, 1e-4
"""Finished cases that are asked again with other software, and nats by which they may differ."""


@dataclass(frozen=True)
class Care:
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


class Keeping(Protocol):
    """What keeps the rows of one editor: a run folder's, or what sends them to the one who has it."""

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


@dataclass
class Rows:
    """The rows of one run: those of before, and those that are written now."""

    folder: RunFolder
    write: Writer
    known: dict[Visit, Record]
    again: AbstractSet[Visit] = frozenset()
    """Those that are there and tried once more."""
    others: AbstractSet[Visit] = frozenset()
    """Those of the plan that are made elsewhere: other shards have them, or other workers."""
    suspects: AbstractSet[Visit] = frozenset()
    """Those of a chunk that leaked, of which nobody knows yet which it was."""
    _told: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._first = self.write.seq

    @property
    def done(self) -> set[Visit]:
        """The visits that need nothing more here."""
        return (self.known.keys() - self.again) | self.others

    def add(self, record: Record) -> Record:
        """Write a record, and return it as it was written: with the number of its try."""
        before = self.known.get(record.visit)
        record = replace(record, attempt=before.attempt + 1) if before else record
        self.write(record)
        self.known[record.visit] = record
        self.again = self.again - {record.visit}
        self.suspects = self.suspects - {record.visit}
        return record

    def withdraw(self, why: str) -> bool:
        """Let no row count that this process wrote, and tell whether there is any."""
        written = self.write.seq > self._first
        self.write.withdraw(self._first, why)
        self.known = {record.visit: record for record in self.folder.records()}
        return written

    def begin(self, evaluation: Evaluation, environment: Mapping[str, str]) -> Overlap | None:
        """Note what rows are made with from now on.

        Where that is not what the last ones were made with, and their numbers may depend on it, return
        finished cases to ask again before any row is written: then `Overlap.end` notes it.
        """
        if set(evaluation.visits) <= self.done:
            return None
        known = self.folder.planned().segments
        segments = extended(known, self._first, environment)
        if self._first and segments[-1].first == self._first:
            before = segments[-2].environment
            if changed := software(before, environment):
                return Overlap(self, evaluation, changed, segments)
        self.made_with(segments)
        return None

    def made_with(self, segments: Sequence[Segment]) -> None:
        """Write down what all rows are made with."""
        self.folder.write_manifest(structs.replace(self.folder.planned(), segments=segments))

    def tell(self, line: str) -> None:
        """Note something about the run, once."""
        if line not in self._told:
            self._told.add(line)
            self.folder.notes.append(line)
            self.event("note", text=line)

    def event(self, kind: str, **details: Any) -> None:
        """Note in the folder that something happened."""
        self.folder.event(kind, **details)


@dataclass(eq=False)
class Overlap:
    """Finished cases that are asked again with other software: they are compared, and not written."""

    rows: Rows
    evaluation: Evaluation
    changed: Sequence[str]
    """In what the software differs."""
    segments: Sequence[Segment]
    """What all rows are made with from then on."""
    suspects: AbstractSet[Visit] = frozenset()
    apart: float = 0.0
    """By how many nats the answers differ at most."""

    def __post_init__(self) -> None:
        finished = (
            visit
            for visit in self.evaluation.visits
            if (record := self.rows.known.get(visit)) and record.status == OK
        )
        cases = (visit for visit in finished if not is_control(visit[0]))
        self.wanted = set(islice(cases, ASKED_AGAIN))
        self.count = len(self.wanted)

    @property
    def done(self) -> AbstractSet[Visit]:
        """The visits that are not asked again, or were."""
        return set(self.evaluation.visits) - self.wanted

    def add(self, record: Record) -> Record:
        """Compare a record with the one that is known, and return that."""
        known = self.rows.known[record.visit]
        self.apart = max(self.apart, selfcheck.apart(known, record))
        self.wanted.discard(record.visit)
        return known

    def tell(self, line: str) -> None:
        """Note something about the run, once."""
        self.rows.tell(line)

    def event(self, kind: str, **details: Any) -> None:
        """Note in the folder that something happened."""
        self.rows.event(kind, **details)

    def end(self) -> None:
        """Note what the next rows are made with. Raises `RunFolderError` if the answers are others."""
        if not self.apart <= SAME:
            raise RunFolderError(
                f"{self.rows.folder.path} would go on with {'; '.join(self.changed)}: "
                f"{counted(self.count, 'finished case')} asked again differ by up to "
                f"{self.apart:.2g} nats, and {SAME:g} are allowed",
                "go on with what it was made with, or run it anew: --new",
            )
        *earlier, now = self.segments
        asked = Asked(cases=self.count, apart=self.apart)
        self.rows.made_with([*earlier, structs.replace(now, asked=asked)])


def turns(rows: Mapping[Evaluation, Rows], care: Care) -> Generator[Turn]:
    """Yield the records that are still to be made, as they are written, the editors in turn.

    Raises what `Bench.turns` and `Overlap.end` raise.
    """
    overlaps = {e: over for e, its in rows.items() if (over := its.begin(e, e.environment))}
    for _ in Bench(replace(care, reload=None, selfcheck=False)).turns(overlaps):
        pass
    for overlap in overlaps.values():
        overlap.end()
    yield from Bench(care).turns(rows)


def of_no_use(rows: Mapping[Evaluation, Keeping]) -> Iterator[Turn]:
    """Yield the records of the cases that cannot be run, each with its reason."""
    for evaluation, its in rows.items():
        for case in evaluation.cases:
            if case.problem and (case.id, 0) not in its.done:
                yield evaluation, its.add(Record.of_no_use(case.id, case.problem))


@dataclass
class Bench:
    """A loaded model that editors take turns on: tried once, however often they come back to it."""

    care: Care
    tried: bool = False
    """Whether the model that is loaded now has passed its trial."""
    _before: Before | None = None
    _first: Before | None = None

    def turns(self, rows: Mapping[Evaluation, Keeping]) -> Generator[Turn]:
        """Yield the records that are still to be made, as they are kept, the editors in turn.

        Raises `LeakError` if the model did not stay as it was and cannot be loaded anew, and what
        `runner.chunks` and `selftest.check` raise.
        """
        while any(not set(e.visits) <= r.done for e, r in rows.items()):
            session = Session(rows, self, self._ready(next(iter(rows)).model))
            try:
                yield from session.turns()
            except LeakError as leak:
                yield from session.leaked(leak)
                if not (self.care.reload and leak.visits):
                    raise session.named(leak) from None
                self._before, self.tried = None, False
                _load_anew(rows, self.care.reload)

    def _ready(self, model: Model) -> Before:
        """Return what the unedited model is asked with, at the beginning of its chunks."""
        if self._before is None:
            self._before = Before(model, cache_folder() / "answers")
            if self._first:
                self._first.witness.resembles(self._before.witness)
            self._first = self._first or self._before
        self._before.turn_to(-1)
        return self._before


def _load_anew(rows: Mapping[Evaluation, Keeping], load: Callable[[], Model]) -> None:
    """Give all editors a model that none of them has touched."""
    model = load()
    for evaluation, its in rows.items():
        its.tell("the model was loaded anew after a leak")
        evaluation.turn_to(model)


@dataclass
class Session:
    """Editors on one loaded model, until they are done or something leaks."""

    rows: Mapping[Evaluation, Keeping]
    bench: Bench
    before: Before
    _at_work: Evaluation | None = None
    """Whose leak it is if there is one: all is verified before the next one's turn."""

    def turns(self) -> Iterator[Turn]:
        """Yield the records, chunk by chunk."""
        yield from of_no_use(self.rows)
        if not self.bench.tried and (case := self._trial()):
            selftest.check(self.before, case)
            self._selfcheck()
            self.bench.tried = True
        self._examinable()
        for evaluation, its in self.rows.items():
            yield from self._one_by_one(evaluation, its)
        streams = {e: self._stream(e, its, e.steps) for e, its in self.rows.items()}
        while streams:
            for evaluation in list(streams):
                yield from self._next(evaluation, streams)

    def _selfcheck(self) -> None:
        for evaluation, its in self.rows.items() if self.bench.care.selfcheck else ():
            self._at_work = evaluation
            selfcheck.check(evaluation, its.tell)
            self.before.witness.verify()

    def _examinable(self) -> None:
        """Try whether controls with code of their own can be put to an editor's edits."""
        for evaluation, its in self.rows.items():
            if not set(evaluation.visits) <= its.done:
                self._at_work = evaluation
                evaluation.check_controls(self.before.witness)

    def _trial(self) -> Case | None:
        """Return a case to try the model with; None if nothing is left to be asked."""
        todo = (
            case
            for e, its in self.rows.items()
            for step in e.steps
            for case in step.measure
            if (case.id, step.state) not in its.done and not is_control(case.id)
        )
        return next(todo, None)

    def _one_by_one(self, evaluation: Evaluation, its: Keeping) -> Iterator[Turn]:
        """Yield the records of suspects, each in a chunk of its own, so that the guilty show."""
        if its.suspects:
            alone = _steps_of(evaluation, its.suspects)
            streams = {evaluation: self._stream(evaluation, its, alone, chunk=1)}
            while streams:
                yield from self._next(evaluation, streams)
            self.before.turn_to(-1)  # its chunks were none that others share

    def _stream(
        self, evaluation: Evaluation, its: Keeping, steps: Sequence[Step], chunk: int | None = None
    ) -> Iterator[list[Record]]:
        return runner.chunks(
            evaluation.model,
            evaluation.editor.value,
            steps,
            evaluation.metrics,
            self.before,
            judge=evaluation.judge.value if evaluation.judge else None,
            done=its.done,
            chunk=chunk,
            allowance=Allowance(self.bench.care.case_timeout),
            tell=its.tell,
        )

    def _next(
        self, evaluation: Evaluation, streams: dict[Evaluation, Iterator[list[Record]]]
    ) -> Iterator[Turn]:
        """Let one editor do its next chunk."""
        self._at_work = evaluation
        records = next(streams[evaluation], None)
        if records is None:
            del streams[evaluation]
            return
        for record in records:
            yield evaluation, self.rows[evaluation].add(record)

    def leaked(self, leak: LeakError) -> Iterator[Turn]:
        """Yield a failure for each visit that was at work, or leave them to be run one by one."""
        culprit = self._at_work
        if culprit is None:
            return
        its = self.rows[culprit]
        its.event("leak", what=leak.what, cases=len(leak.visits))
        steps = _steps_of(culprit, leak.visits)
        if self.bench.care.reload and len(steps) > 1 and all(step.fresh for step in steps):
            its.suspects = set(leak.visits)
            its.tell(
                f"{counted(len(leak.visits), 'case')} of a chunk that leaked are run one by one"
            )
            return
        message = self.named(leak).cause
        for name, state in leak.visits:
            record = failed(culprit.case(name), state, "leak", message, culprit.metrics)
            yield culprit, its.add(record)

    def named(self, leak: LeakError) -> LeakError:
        """Return the error with the name of the editor, and of the case if it was one alone."""
        if self._at_work is None:
            return leak
        cases = {name for name, _ in leak.visits if not is_control(name)}
        where = f", at case {min(cases)}" if len(cases) == 1 else ""
        whose = leak.by or f"editor {self._at_work.label}"
        return LeakError(leak.what, leak.visits, editor=whose, where=where, remedy=leak.remedy)


def _steps_of(evaluation: Evaluation, visits: Collection[Visit]) -> list[Step]:
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
