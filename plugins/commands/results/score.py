"""The command ``score``: the numbers of run folders again, without a model, and verdicts on texts that wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click
from msgspec import structs

from edit_harness.data import Answers, Case
from edit_harness.errors import DataError, RunFolderError, UsageError
from edit_harness.folder.encoding import encode_answer
from edit_harness.folder.folder import RunFolder
from edit_harness.folder.manifest import JudgeId
from edit_harness.folder.record import Record, Writer
from edit_harness.interfaces import Metric
from edit_harness.registry import settings as fields
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import Named, described, make_metrics, make_named
from edit_harness.run.estimates import values
from edit_harness.run.judging import NO_JUDGE, check_kinds, judged_apart
from edit_harness.run.results import Results
from edit_harness.run.spec import RunSpec
from edit_harness_plugins.command_line import SETTINGS, as_json, command, many, takes, with_plugins
from edit_harness_plugins.inputs import elsewhere
from edit_harness_plugins.reading import answers, check_finished, own_metrics, revalued

from ..run import console
from .repair import repair as mend

CASES = 16
"""Cases that are judged before what is said of them is written: what an interruption can lose."""
IN_USE = "wait until it has ended"


@command(context_settings=SETTINGS)
@click.argument("runs", nargs=-1, required=True, metavar="RUN…")
@many("--metrics", metavar="NAME", help="Instead of the run's own.")
@click.option("--judge", metavar="NAME", default="",
              help="Who judges what waits; another than the run's goes to a sibling folder.")  # fmt: skip
@takes(RunSpec, only=["judge_args"])
@click.option("--repair", is_flag=True,
              help="Move damaged lines aside first; the run's own command then makes them again.")  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Only the result.")
@click.option("-v", "--verbose", is_flag=True, help="Every measure in the table.")
@as_json
@with_plugins
def score(
    plugins: Plugins,
    runs: Sequence[str],
    metrics: Sequence[str],
    judge: str,
    judge_args: Mapping[str, str],
    repair: bool,
    quiet: bool,
    verbose: bool,
    as_json: bool,
) -> int:
    """Compute the numbers of run folders again, without a model; fill in verdicts."""
    several, codes = len(runs) > 1, [console.DONE]
    scored: list[Results] = []
    for name in runs:
        with console.tolerated(codes, several):
            if repair:
                mend(name)
            again = rescored(plugins, RunFolder.at(name), judge, judge_args, codes)
            if metrics:
                named = make_metrics(plugins, metrics)
                again = replace(again, metrics=named, everything=revalued(again, named))
            scored.append(again)
    for run in scored:
        if quiet:
            console.note_pending(run)
        if not as_json:
            console.finished(run, quiet=quiet, verbose=verbose, named=len(scored) > 1)
    return console.ended(scored, codes, several=several, as_json=as_json)


def rescored(
    plugins: Plugins, folder: RunFolder, name: str, given: Mapping[str, str], codes: list[int]
) -> Results:
    """Return the run with what is pending judged, and all its values computed anew and written.

    Raises `RunFolderError` for a run that is not finished: its numbers would be of some cases only,
    and in a sequence of other states of the model than they seem.
    """
    run = Results.read(folder, own_metrics(plugins, folder))
    check_finished(run)
    if judge := asked_judge(plugins, run, name, given):
        run = of_judge(run, judge, asked=bool(name))
    with run.folder.writing(IN_USE) as write:
        run = Results.read(run.folder, run.metrics)  # another process may have written since
        if judge:
            fill(run, judge, write)
            console.note_stopped(judge, codes)
            run = Results.read(run.folder, run.metrics)
        check_finished(run)
        again = replace(run, everything=revalued(run, run.metrics))
        pairs = zip(run.everything, again.everything, strict=True)
        if other := sum(one.values != two.values for one, two in pairs):
            note(
                f"{other} records have other values than when they were run: a metric is another "
                f"one now ({run.folder.path})"
            )
        run.folder.write_results(again.results())
    return again


def asked_judge(
    plugins: Plugins, run: Results, name: str, given: Mapping[str, str]
) -> Named | None:
    """Return the judge of that name, or else the run's own if a text waits for it.

    Settings that are not given are the run's own, if it is the same judge; but none of them is where
    the user names a judge and says which one it is, by a setting that is not practical.
    """
    if not name and not (run.manifest.judge and (run.pending or given)):
        if given:
            raise UsageError("--judge-args are for a judge, and there is none", "name it: --judge")
        return None
    component = plugins.find(
        "judge", name or (run.manifest.judge.name if run.manifest.judge else "")
    )
    practical = getattr(component.load(), "practical", ())
    found: dict[str, Any] = {}
    if (
        run.manifest.judge
        and run.manifest.judge.name == component.name
        and not (name and given.keys() - {*practical})
    ):
        found = {**run.manifest.judge.fields, **(run.manifest.judge_settings or {})}
    judge = make_named(component, {**found, **given}, run.manifest.identity.seed)
    # A folder may be a stranger's. Where texts and a key are sent, which files are read and which model is
    # loaded is taken from it only as far as the judge says that nothing leaves for elsewhere by it.
    its, usual = fields.settings(judge.value), fields.defaults(type(judge.value))
    outward = judge.value.outward
    if outward is None:
        outward = [field for field, value in its.items() if elsewhere(str(value))]
    for field in outward:
        if field in found.keys() - given.keys() and its.get(field) != usual.get(field):
            raise UsageError(
                f"{run.folder.path} has judge {judge.name} with {field}={its.get(field)!r:.200}, and "
                "a folder alone does not decide that",
                f"if you know where that leads, say it again: --judge-args {field}=…",
            )
    check_kinds(judge.value, judge.name, run.cases)
    return judge


def of_judge(run: Results, judge: Named, *, asked: bool) -> Results:
    """Return the run, or its re-judged copy if another judge has spoken; the folder is made if need be.

    Raises `RunFolderError` if nobody ``asked`` for another judge, as after an update of its package.
    """
    now = JudgeId(**described(judge))
    if not run.manifest.judge or run.manifest.judge == now:
        if not run.pending:
            note(f"no text in {run.folder.path} waits for a judge")
        return run
    told = f"{run.folder.path} is judged by {short(run.manifest.judge)}"
    if not asked:
        raise RunFolderError(
            f"{told}, this is {short(now)}",
            f"install that one, or have all judged anew in a sibling folder: --judge {judge.name}",
        )
    copy = rejudged_copy(run, judge, now)
    note(f"{told}; the new verdicts are in {copy.folder.path}, by {short(now)}")
    return copy


def rejudged_copy(run: Results, judge: Named, now: JudgeId) -> Results:
    """Return the run as another judge judges it, in a folder beside it, named after both.

    What the folder has of the same texts stays, with its verdicts; what has come since is added.
    """
    identity = structs.replace(run.manifest.identity, judge=now)
    path = run.folder.path
    path = path if path.name not in ("", "..") else path.resolve()
    folder = RunFolder.open(path.parent, f"{path.name}-{judge.name}", identity, new=False)
    with folder.writing(IN_USE) as write:
        known = folder.manifest()
        there = {record.visit: unjudged(record) for record in folder.records()}
        for record in map(unjudged, run.everything):
            old = there.get(record.visit)
            if old is None:
                write(record)
            elif (old.before, old.after) != (record.before, record.after):
                write(structs.replace(record, attempt=max(record.attempt, old.attempt + 1)))
        folder.write_cases(run.cases)
        by = known.judged_by if known else None
        folder.write_manifest(with_judge(run, judge, by, identity=identity))
    return Results.read(folder, run.metrics)


def unjudged(record: Record) -> Record:
    """Return a record whose texts wait for a judge."""
    waiting = {"status": NO_JUDGE.status, "note": NO_JUDGE.note}

    def cleared(answer: Any) -> Any:
        has = isinstance(answer, Mapping) and answer.get("verdict")
        return {**answer, "verdict": waiting} if has else answer

    before, after = (list(map(cleared, side)) for side in (record.before, record.after))
    return structs.replace(record, before=before, after=after)


def with_judge(run: Results, judge: Named, by: JudgeId | None, **changed: Any) -> Any:
    """Return a run's manifest with the settings of its judge, and who has spoken so far."""
    settings = fields.settings(judge.value)
    return structs.replace(run.manifest, judged_by=by, judge_settings=settings, **changed)


def fill(run: Results, judge: Named, write: Writer) -> None:
    """Give what is pending to a judge, some cases at a time, and write down what it says."""
    waiting = [record for record in run.everything if record.verdicts["pending"]]
    spoken = False
    for start in range(0, len(waiting), CASES):
        some = waiting[start : start + CASES]
        asked = [(run.by_id[record.case], answers(record)) for record in some]
        filled = [
            judged(record, case, said, run.metrics)
            for record, (case, _), said in zip(
                some, asked, judged_apart(judge.value, asked), strict=True
            )
        ]
        before, after = (sum(r.verdicts["pending"] for r in each) for each in (some, filled))
        if not spoken and after < before:
            spoken = True
            run.folder.write_manifest(with_judge(run, judge, JudgeId(**described(judge))))
        for record in filled:
            write(record)


def judged(
    record: Record, case: Case, answers: Answers | DataError, metrics: Mapping[str, Metric]
) -> Record:
    """Return a record with what the judge says, or with the reason why its case is of no use."""
    if isinstance(answers, DataError):
        return Record.of_no_use(record.case, answers, record.state)
    before, after = ([encode_answer(a) for a in side] for side in answers)
    found = values(case, answers, metrics, record.status)
    return structs.replace(record, before=before, after=after, values=found)


def note(text: str) -> None:
    """Say something besides the result."""
    console.err.print(f"note     {text}")


def short(judge: JudgeId) -> str:
    """Return who a judge is, in a line."""
    parts = {"fields": judge.fields, **judge.provenance}
    details = ", ".join(f"{key} {value}" for key, value in parts.items() if value)
    return f"{judge.name} {judge.version}" + (f" ({details})" if details else "")
