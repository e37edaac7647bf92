"""Run folders before and after a run: can one be written, is it finished, what do metrics measure anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import cast

from msgspec import structs

from edit_harness.data import Answers, Visit
from edit_harness.errors import PluginError, RunFolderError, counted
from edit_harness.folder.encoding import decode_answer
from edit_harness.folder.folder import RunFolder, written
from edit_harness.folder.record import INVALID, Record
from edit_harness.hookspecs import DISTRIBUTION
from edit_harness.interfaces import Metric
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import make_metrics
from edit_harness.run.controls import is_control
from edit_harness.run.estimates import values
from edit_harness.run.results import Results


def reread(plugins: Plugins, name: str, metrics: Sequence[str] = ()) -> Results:
    """Return the finished run in a folder with values measured anew, by these metrics or its own.

    Raises `UsageError` if there is no run, `RunFolderError` if it is damaged or not finished, and
    `PluginError` for a metric that is not installed or fails.
    """
    folder = RunFolder.at(name)
    found = make_metrics(plugins, metrics) if metrics else own_metrics(plugins, folder)
    run = Results.read(folder, found)
    check_finished(run)
    return replace(run, everything=revalued(run, found))


def check_writable(parent: Path) -> None:
    """Raise `ResourceError` if no run folder can be made there."""
    with written(parent):
        parent.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=parent).close()


def statuses_of(folder: RunFolder) -> dict[Visit, str]:
    """Return the statuses of a folder's records by their visits; see `RunFolder.records`."""
    found = folder.records()
    visits = zip(found.cases, found.states.tolist(), strict=True)
    return dict(zip(visits, found.statuses, strict=True))


def check_finished(run: Results) -> None:
    """Raise `RunFolderError` if answers are missing, as of a run that was interrupted."""
    if missing := run.missing:
        raise RunFolderError(
            f"{run.folder.path} is not finished: {counted(missing, 'record')} missing",
            "finish it with the command that began it, which runs only these",
        )


def revalued(run: Results, metrics: Mapping[str, Metric]) -> list[Record]:
    """Return the records with new values of the metrics; controls have none."""
    return [
        r
        if is_control(r.case) or r.status == INVALID
        else structs.replace(r, values=values(run.by_id[r.case], answers(r), metrics, r.status))
        for r in run.everything
    ]


def own_metrics(plugins: Plugins, folder: RunFolder) -> dict[str, Metric]:
    """Return the run's own metrics, in its order.

    Raises `RunFolderError` if it names none, and `PluginError`, with the packages that the run was made with,
    for one that is not installed.
    """
    manifest = folder.planned()
    try:
        return make_metrics(plugins, manifest.metrics)
    except PluginError as error:
        others = [
            f"{part['name']} {part['version']} ({part['source']})"
            for part in manifest.distributions
            if part["name"] != DISTRIBUTION
        ]
        remedy = f"the run was made with {', '.join(others)}" if others else error.remedy
        raise PluginError(error.cause, remedy) from error


def answers(record: Record) -> Answers:
    """Return the answers of a record; None for a distribution, which is never stored."""
    before, after = ([decode_answer(a) for a in side] for side in (record.before, record.after))
    return cast(Answers, (before, after))
