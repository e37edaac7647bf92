"""The command ``score``: the numbers of run folders again, from their answers, without a model.

Texts that wait for a judge are given to it, and what it says is added to the folder; everything
else in a folder's records stays as it was written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from edit_harness import console, control
from edit_harness.cases import Answers, Case
from edit_harness.components import described, make_judge
from edit_harness.encoding import decode_answer, encode_answer, finite
from edit_harness.errors import DataError, RunFolderError
from edit_harness.interfaces import Metric
from edit_harness.judging import judged_apart
from edit_harness.outcome import Run, values
from edit_harness.plugins import Plugins
from edit_harness.records import INVALID, Record, RunFolder

DONE, SOME_FAILED = 0, 1


@dataclass(frozen=True, kw_only=True)
class Flags:
    """The flags of ``score``, as they were parsed."""

    runs: Sequence[str]
    metrics: Sequence[str]
    judge: str
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
            runs.append(_score(plugins, RunFolder.at(name), flags))
    if flags.as_json:
        results = [run.results() for run in runs]
        console.out.out(json.dumps(results if len(flags.runs) > 1 else results[0], indent=1))
    else:
        for run in runs:
            console.finished(run, quiet=flags.quiet, verbose=flags.verbose, named=len(runs) > 1)
        for table in console.summary(runs) if len(runs) > 1 else ():
            console.out.print(table)
    return max(*codes, SOME_FAILED if any(run.failures or run.pending for run in runs) else DONE)


def _score(plugins: Plugins, folder: RunFolder, flags: Flags) -> Run:
    """Return the run with what is pending judged, and all its values computed anew.

    Raises `RunFolderError` for a run that is not finished: its numbers would be of some cases only,
    and in a sequence of other states of the model than they seem.
    """
    run = Run.read(folder, _metrics(plugins, _own(folder)))
    if missing := run.missing:
        raise RunFolderError(
            f"{folder.path} is not finished: {missing} answers are missing",
            "finish it with the command that began it",
        )
    judge = flags.judge or (run.judge["name"] if run.judge else "")
    if run.pending and judge:
        _fill(plugins, run, judge)
        run = Run.read(folder, run.metrics)
    elif flags.judge:
        console.err.print(f"note     no text in {folder.path} waits for a judge", markup=False)
    again = replace(run, everything=_valued(run, run.metrics))
    _compare(run, again)
    folder.write_results(again.results())
    if not flags.metrics:
        return again
    metrics = _metrics(plugins, flags.metrics)
    return replace(run, metrics=metrics, everything=_valued(run, metrics))


def _own(folder: RunFolder) -> list[str]:
    """Return the names of the run's own metrics, in its order. Raises `RunFolderError`."""
    if (own := folder.manifest().get("metrics")) is None:
        raise RunFolderError(f"{folder.path} was made by an older version", "run it anew: --new")
    return list(own)


def _metrics(plugins: Plugins, names: Sequence[str]) -> dict[str, Metric]:
    return {name: plugins.find("metric", name).load()() for name in names}


def _valued(run: Run, metrics: Mapping[str, Metric]) -> list[Record]:
    """Return the records with the values that metrics give them; the control's have none."""
    by_id = {case.id: case for case in run.cases}
    return [
        r
        if r.case == control.ID or r.status == INVALID
        else replace(r, values=finite(values(by_id[r.case], _answers(r), metrics, r.status)))
        for r in run.everything
    ]


def _fill(plugins: Plugins, run: Run, name: str) -> None:
    """Give what is pending to a judge, and write down what it says.

    Raises `RunFolderError` if another judge has spoken already.
    """
    component = plugins.find("judge", name)
    judge = make_judge(component, run.manifest["identity"]["seed"])
    if run.judge and run.judge != described(judge):
        raise RunFolderError(
            f"{run.folder.path} is judged by {_short(run.judge)}, "
            f"this is {_short(described(judge))}",
            "one run has one judge: install that one, or run anew with this one",
        )
    by_id = {case.id: case for case in run.cases}
    waiting = [record for record in run.everything if record.verdicts["pending"]]
    with run.folder.writing() as write:
        asked = [(by_id[record.case], _answers(record)) for record in waiting]
        filled = [
            _filled(record, case, answers, run.metrics)
            for record, (case, _), answers in zip(
                waiting, asked, judged_apart(judge.value, asked), strict=True
            )
        ]
        if sum(r.verdicts["pending"] for r in filled) < run.pending:
            run.folder.write_manifest({**run.manifest, "judged_by": described(judge)})
        for record in filled:
            write(record)


def _filled(
    record: Record, case: Case, answers: Answers | DataError, metrics: Mapping[str, Metric]
) -> Record:
    """Return a record with what the judge says, or with the reason why its case is of no use."""
    if isinstance(answers, DataError):
        return Record.of_no_use(record.case, answers, record.state)
    before, after = ([encode_answer(a) for a in side] for side in answers)
    found = values(case, answers, metrics, record.status)
    return replace(record, before=before, after=after, values=found)


def _answers(record: Record) -> Answers:
    # Of a distribution, which is never stored, there is None.
    before, after = ([decode_answer(a) for a in side] for side in (record.before, record.after))
    return cast(Answers, (before, after))


def _compare(stored: Run, again: Run) -> None:
    """Say how many records have other values than they were stored with."""
    pairs = zip(stored.everything, again.everything, strict=True)
    if other := sum(one.values != two.values for one, two in pairs):
        console.err.print(
            f"note     {other} records have other values than when they were run: a metric is "
            f"another one now ({stored.folder.path})",
            markup=False,
        )


def _short(judge: Mapping[str, Any]) -> str:
    parts = {"fields": judge["fields"], **judge["provenance"]}
    details = ", ".join(f"{key} {value}" for key, value in parts.items() if value)
    return f"{judge['name']} {judge['version']} ({details})"
