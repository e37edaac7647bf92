"""The command ``score``: the numbers of run folders again, from their answers, without a model.

Texts that wait for a judge are given to it, and what it says is added to the folder; everything
else in a folder's records stays as it was written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from edit_harness.cases import Answers, Case
from edit_harness.encoding import encode_answer
from edit_harness.errors import DataError, RunFolderError, UsageError
from edit_harness.folder.manifests import JudgeId
from edit_harness.folder.records import Record, RunFolder, Writer
from edit_harness.interfaces import Metric
from edit_harness.registry import fields
from edit_harness.registry.components import Named, described, make_judge, make_metrics
from edit_harness.registry.plugins import Plugins
from edit_harness.run.judging import check_kinds, judged_apart
from edit_harness.run.outcome import Run
from edit_harness.run.rereading import own_metrics, valued
from edit_harness.run.values import answers, values

from ..run import console
from . import vouching
from .siblings import sibling

DONE, SOME_FAILED = 0, 1
CASES = 16
"""Cases that are judged before what is said of them is written: what an interruption can lose."""
IN_USE = "wait until it has ended"


@dataclass(frozen=True, kw_only=True)
class Flags:
    """The flags of ``score``, as they were parsed."""

    runs: Sequence[str]
    metrics: Sequence[str]
    judge: str
    judge_args: Mapping[str, str]
    quiet: bool
    verbose: bool
    as_json: bool
    debug: bool


def score(plugins: Plugins, flags: Flags) -> int:
    """Score every folder, print the tables, and return the exit code."""
    runs: list[Run] = []
    codes = [DONE]
    for name in flags.runs:
        with console.tolerated(codes, len(flags.runs) > 1):
            runs.append(_score(plugins, RunFolder.at(name), flags, codes))
    if flags.quiet:
        for run in runs:
            console.note_pending(run)
    if flags.as_json:
        results = [run.results() for run in runs]
        console.out.out(json.dumps(results if len(flags.runs) > 1 else results[0], indent=1))
    else:
        for run in runs:
            console.finished(run, quiet=flags.quiet, verbose=flags.verbose, named=len(runs) > 1)
        for table in console.summary(runs) if len(runs) > 1 else ():
            console.out.print(table)
    return max(*codes, SOME_FAILED if any(not run.sound for run in runs) else DONE)


def _score(plugins: Plugins, folder: RunFolder, flags: Flags, codes: list[int]) -> Run:
    """Return the run with what is pending judged, and all its values computed anew.

    What another judge is to judge goes to a sibling folder.

    Raises `RunFolderError` for a run that is not finished: its numbers would be of some cases only,
    and in a sequence of other states of the model than they seem.
    """
    run = Run.read(folder, own_metrics(plugins, folder))
    run.check_finished()
    if (judge := _asked_judge(plugins, run, flags)) is not None:
        run = _of_judge(run, judge, flags)
    with run.folder.writing(IN_USE) as write:
        run = Run.read(run.folder, run.metrics)  # another process may have written since
        if judge is not None:
            _fill(run, judge, write)
            console.note_stopped(judge, codes)
            run = Run.read(run.folder, run.metrics)
        run.check_finished()
        again = replace(run, everything=valued(run, run.metrics))
        _compare(run, again)
        run.folder.write_results(again.results())
    if not flags.metrics:
        return again
    metrics = make_metrics(plugins, flags.metrics)
    return replace(run, metrics=metrics, everything=valued(run, metrics))


def _asked_judge(plugins: Plugins, run: Run, flags: Flags) -> Named | None:
    """Return the judge that the flags name, or else the run's own if a text waits for it.

    Settings that are not given are the run's own, if it is the same judge; but none of them is where
    the flags name a judge and say themselves which one it is, by a setting that is not practical.
    """
    given = flags.judge_args
    if not flags.judge and not (run.judge and (run.pending or given)):
        if given:
            raise UsageError("--judge-args are for a judge, and there is none", "name it: --judge")
        return None
    component = plugins.find("judge", flags.judge or (run.judge.name if run.judge else ""))
    practical = getattr(component.load(), "practical", ())
    told = flags.judge and any(name not in practical for name in given)
    same = run.judge and run.judge.name == component.name
    found = vouching.settings(run, component) if same and not told else {}
    judge = make_judge(component, {**found, **given}, run.manifest.identity.seed)
    vouching.check(judge, found.keys() - given.keys(), run)
    check_kinds(judge.value, judge.name, run.cases)
    return judge


def _of_judge(run: Run, judge: Named, flags: Flags) -> Run:
    """Return the run, or its sibling if another judge has spoken; the folder is made if need be.

    Raises `RunFolderError` if nobody asked for another judge, as after an update of its package.
    """
    now = JudgeId(**described(judge))
    if not run.judge or run.judge == now:
        if not run.pending:
            note = f"note     no text in {run.folder.path} waits for a judge"
            console.err.print(note, markup=False)
        return run
    told = f"{run.folder.path} is judged by {_short(run.judge)}"
    if not flags.judge:
        raise RunFolderError(
            f"{told}, this is {_short(now)}",
            f"install that one, or have all judged anew in a sibling folder: --judge {judge.name}",
        )
    found = sibling(run, judge, IN_USE)
    by = _short(now)
    note = f"note     {told}; the new verdicts are in {found.folder.path}, by {by}"
    console.err.print(note, markup=False)
    return found


def _fill(run: Run, judge: Named, write: Writer) -> None:
    """Give what is pending to a judge, some cases at a time, and write down what it says."""
    waiting = [record for record in run.everything if record.verdicts["pending"]]
    now = structs.replace(
        run.manifest,
        judged_by=JudgeId(**described(judge)),
        judge_settings=fields.settings(judge.value),
    )
    spoken = False
    for start in range(0, len(waiting), CASES):
        some = waiting[start : start + CASES]
        filled = _asked(run, judge, some)
        if not spoken and _pending(filled) < _pending(some):
            spoken = True
            run.folder.write_manifest(now)
        for record in filled:
            write(record)


def _asked(run: Run, judge: Named, records: Sequence[Record]) -> list[Record]:
    """Return records with what a judge says of them."""
    asked = [(run.by_id[record.case], answers(record)) for record in records]
    found = judged_apart(judge.value, asked)
    return [
        _filled(record, case, said, run.metrics)
        for record, (case, _), said in zip(records, asked, found, strict=True)
    ]


def _pending(records: Sequence[Record]) -> int:
    return sum(record.verdicts["pending"] for record in records)


def _filled(
    record: Record, case: Case, answers: Answers | DataError, metrics: Mapping[str, Metric]
) -> Record:
    """Return a record with what the judge says, or with the reason why its case is of no use."""
    if isinstance(answers, DataError):
        return Record.of_no_use(record.case, answers, record.state)
    before, after = ([encode_answer(a) for a in side] for side in answers)
    found = values(case, answers, metrics, record.status)
    return replace(record, before=before, after=after, values=found)


def _compare(stored: Run, again: Run) -> None:
    """Say how many records have other values than they were stored with."""
    pairs = zip(stored.everything, again.everything, strict=True)
    if other := sum(one.values != two.values for one, two in pairs):
        console.err.print(
            f"note     {other} records have other values than when they were run: a metric is "
            f"another one now ({stored.folder.path})",
            markup=False,
        )


def _short(judge: JudgeId) -> str:
    parts = {"fields": judge.fields, **judge.provenance}
    details = ", ".join(f"{key} {value}" for key, value in parts.items() if value)
    return f"{judge.name} {judge.version}" + (f" ({details})" if details else "")
