"""The loop: editors take turns on one model; each chunk is verified before its rows are written.

The editors share the model, so what one leaves in it would spoil the rows of all.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, closing, suppress
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..data import Answer, Case, Visit
from ..errors import CaseError, HarnessError, LeakError, RunFolderError
from ..folder.encoding import decode_answer
from ..folder.folder import RunFolder
from ..folder.record import OK, Record
from . import sequence
from .clean import CleanPass
from .controls import ID as CONTROL
from .controls import is_control
from .measure import Work
from .plan import Chunk, chunk_size, chunks
from .results import Results
from .rows import RunRows, settle

if TYPE_CHECKING:
    from .evaluation import Evaluation

Turn = tuple["Evaluation", Record]


class RowSink(Protocol):
    """Where the rows of one editor go: a run folder, or a worker's buffer."""

    @property
    def done(self) -> AbstractSet[Visit]:
        """The visits that need no row from here."""

    @property
    def keeps(self) -> Path | None:
        """Where the edit of a sequence is kept for a run that resumes this; None for nowhere."""

    def add(self, record: Record) -> Record:
        """Store a record, and return it as stored."""

    def tell(self, line: str) -> None:
        """Note a line for readers of the run, once."""


Turns = Callable[[Mapping["Evaluation", RunRows]], Generator[Turn, None, None]]
"""Makes the missing records, and yields them as they are written."""


class Loop:
    """Editors on a loaded model, which is tried before the first chunk."""

    def __init__(self) -> None:
        self._clean: CleanPass | None = None

    def run(
        self, sinks: Mapping[Evaluation, RowSink], *, alone: bool = False
    ) -> Generator[Turn, None, None]:
        """Yield the missing records as they are stored; ``alone`` runs each step by itself.

        Raises what `Work.records` and the hook ``edit_harness_try_model`` raise.
        """
        yield from record_unusable(sinks)
        lacking = {e: its for e, its in sinks.items() if not set(e.visits) <= its.done}
        if not lacking:
            return
        clean = self._tried(lacking)
        works = {
            e: Work(clean, e.editor.value, e.metrics, e.judge.value if e.judge else None, its.tell)
            for e, its in sinks.items()
        }
        for e, its in sinks.items():
            works[e].editing.resume(its.keeps, its.done, e.visits)
        size = chunk_size(clean.model)
        plans = [
            chunks(e.steps_of(set(e.visits) - its.done), 1, set(its.done))
            if alone
            else chunks(e.steps, size, set(its.done))
            for e, its in sinks.items()
        ]
        for same in zip_longest(*plans):  # one chunk of the plan, for each editor
            for (evaluation, its), chunk in zip(sinks.items(), same, strict=True):
                if chunk is None:  # the plan has ended
                    continue
                try:
                    made = works[evaluation].records(chunk)
                except LeakError as leak:
                    raise _named(evaluation, chunk, leak) from None
                for record in made:
                    yield evaluation, its.add(record)

    def _tried(self, lacking: Mapping[Evaluation, RowSink]) -> CleanPass:
        """Return the clean pass; the first time, try the model."""
        first = next(iter(lacking))
        clean = self._clean or CleanPass(first.model)
        clean.turn_to(-1)
        case = next((case for e in lacking for case in e.cases if not case.problem), None)
        if self._clean is None and case:
            list(first.plugins.call("edit_harness_try_model", model=clean.model, case=case))
            try:
                clean.guard.check()  # what it answers is compared before the first row is written
            except LeakError as leak:
                raise LeakError(leak.what, "a plugin's edit_harness_try_model") from None
            self._clean = clean
        return clean


def _named(evaluation: Evaluation, chunk: Chunk, leak: LeakError) -> LeakError:
    """Return the error with the editor's name, and the case's if there was only one."""
    cases = {case.id for case, _ in chunk.visits if not is_control(case.id)}
    where = f", at case {min(cases)}" if len(cases) == 1 else ""
    return LeakError(leak.what, leak.by or f"editor {evaluation.label}", where)


def record_unusable(sinks: Mapping[Evaluation, RowSink]) -> Iterator[Turn]:
    """Yield the records of cases that cannot run, each with its reason."""
    for evaluation, its in sinks.items():
        for case in evaluation.cases:
            if case.problem and (case.id, 0) not in its.done:
                yield evaluation, its.add(Record.of_no_use(case.id, case.problem))


def run_all(
    folders: Mapping[Evaluation, RunFolder],
    advance: Callable[[Evaluation, Record], object] = lambda evaluation, record: None,
    *,
    turns: Turns,
    stop: bool = False,
    retry: bool = False,
) -> list[Results]:
    """Run what the folders lack, chunk by chunk, one editor after the other on each.

    All evaluations have the same cases and the same model, and share its clean passes. ``turns`` makes the
    records, here or elsewhere: see `edit_harness.Executor`. Raises
    `CaseError` at the first failure if it is to ``stop`` there, and what ``turns`` raises.
    """
    with ExitStack() as stack:
        rows = {}
        for evaluation, folder in folders.items():
            write = stack.enter_context(folder.writing())
            # Read after locking: others may have written.
            known = {record.visit: record for record in folder.records()}
            settle(evaluation, folder, {name for name, _ in known})
            statuses = {visit: record.status for visit, record in known.items()}
            again = evaluation.retried(statuses) if retry else set()
            others = frozenset(evaluation.planned).difference(evaluation.visits)
            rows[evaluation] = RunRows(folder, write, known, again, others)
        for evaluation, its in rows.items():
            for visit in evaluation.visits:
                if visit in its.known and visit not in its.again:
                    advance(evaluation, its.known[visit])
        try:
            # Closed at once when something ends it, so that the editor at work ends too.
            with closing(turns(rows)) as fresh:
                for evaluation, record in fresh:
                    advance(evaluation, record)
                    if stop and record.status != OK and record.case != CONTROL:
                        raise CaseError(
                            f"case {record.case} failed ({record.status}): {record.message}",
                            "go on with the same command and --on-error skip",
                        )
            _check_answers(rows)
            for its in rows.values():
                sequence.clear(its.folder.path)
        except BaseException:
            with suppress(HarnessError):  # the first error is the one to tell
                _summed(rows)
            raise
        runs = _summed(rows)
        for evaluation, run in zip(rows, runs, strict=True):
            for said in evaluation.plugins.call("edit_harness_run_finished", run=run):
                lines = said if isinstance(said, list | tuple) else [said]
                run.folder.notes += map(str, lines)
        return runs


def _check_answers(rows: Mapping[Evaluation, RunRows]) -> None:
    """Raise `RunFolderError` if a plugin objects to the unedited model's answers.

    Then another model was at work, and the new rows are withdrawn.
    """
    found = [
        f"{its.folder.path}: {how}" + "; the new rows were withdrawn" * its.withdraw(how)
        for evaluation, its in rows.items()
        if (how := _objections(evaluation, its))
    ]
    if found:
        raise RunFolderError(
            found[0],
            "another model, prompt or device setting is at work: try --batch-size 1 and --device cpu",
        )


def _objections(evaluation: Evaluation, its: RunRows) -> str:
    """Return what plugins object to in the answers before the edits."""
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


def _summed(rows: Mapping[Evaluation, RunRows]) -> list[Results]:
    """Return the runs as far as they are done, and write their results."""
    runs = []
    for evaluation, its in rows.items():
        manifest, own = its.folder.planned(), [case.id for case in evaluation.own_cases]
        there = [its.known[visit] for visit in evaluation.visits if visit in its.known]
        left_out = set(manifest.cases).difference(own)
        more = [record for record in its.known.values() if record.case in left_out]
        whole = Results(
            its.folder, evaluation.metrics, manifest, [*there, *more], plugins=evaluation.plugins
        )
        its.folder.write_results(whole.results())
        runs.append(whole.of(own, there, len(evaluation.visits)) if left_out else whole)
    return runs
