"""The command ``reproduce``: makes a printed table again, cell by cell, and compares it with the print.

What is missing is run as by ``run``, into ordinary run folders, so that an interrupted reproduction
goes on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

from edit_harness.errors import PluginError, UsageError
from edit_harness.folder.folder import check_writable
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import make_executor
from edit_harness.run.results import Run
from edit_harness.run.spec import ModelRef, RunSpec, Selection
from edit_harness_plugins.commands import results
from edit_harness_plugins.commands.run import console, running
from edit_harness_plugins.commands.run.flags import Options, RegimeFlags

from ..studies import ReproduceFlags
from . import packs, show
from .packs import Contents, Leg, Method
from .verdicts import APART, OUTSIDE, UNTOLD, WITHIN, Reproduction

FAILED = 6
"""The exit code if a number did not come out again."""


def reproduce(plugins: Plugins, flags: ReproduceFlags) -> int:
    """Run what a pack lacks, print which numbers came out again, and return the exit code."""
    if not flags.pack:
        raise UsageError("which table?", "edit-harness reproduce PACK; see: edit-harness ls packs")
    contents = packs.read(plugins, flags.pack)
    where = _chosen(contents, flags)
    contents = structs.replace(contents, models={each: contents.models[each] for each in where})
    check_writable(Path(flags.output_path))
    codes = [running.DONE]
    runs = _runs(plugins, contents, where, flags, codes)
    if any(runs.values()):
        codes.append(_report(Reproduction(contents, runs, flags.limit), flags))
    return max(codes)


def _chosen(contents: Contents, flags: ReproduceFlags) -> dict[str, str]:
    """Return where each model of the table is that is asked for, by what the table calls it.

    Raises `UsageError` for a model that is not of the table.
    """
    names = {label: wanted.name for label, wanted in contents.models.items()}
    found: dict[str, str] = {}
    for given in flags.model or names:
        label, copied, name = given.rpartition("=")
        label = label or next((each for each in names if name in (each, names[each])), "")
        if label not in names:
            raise UsageError(
                f"{given} is no model of {contents.name}",
                f"its models: {', '.join(names.values())}; of a copy say which it is: "
                f"-m '{next(iter(names))}=FOLDER'",
            )
        found[label] = name if copied else names[label]
    return found


Runs = dict[tuple[str, str], list[Run]]


def _runs(
    plugins: Plugins,
    contents: Contents,
    where: Mapping[str, str],
    flags: ReproduceFlags,
    codes: list[int],
) -> Runs:
    """Return the runs by model and editor as the table calls them; what failed is said, and noted."""
    several = len(where) > 1 or len(contents.legs) > 1
    found: Runs = {}
    for label, name in where.items():
        for leg in contents.legs:
            methods = contents.edited(leg, label)
            with console.tolerated(codes, several):
                for editor, run in _made(plugins, leg, methods, name, flags, codes):
                    found.setdefault((label, editor), []).append(run)
    if any(not run.sound for runs in found.values() for run in runs):
        codes.append(running.SOME_FAILED)
    return found


def _made(
    plugins: Plugins,
    leg: Leg,
    methods: Mapping[str, Method],
    model: str,
    flags: ReproduceFlags,
    codes: list[int],
) -> Iterator[tuple[str, Run]]:
    """Run editors side by side on a leg's task, and yield the runs by what the table calls the editor."""
    ref, loading = ModelRef.split(model, flags.model_options)
    labels: dict[str, str] = {}
    runs = []
    for label, method in methods.items():
        editor = plugins.find("editor", method.editor)
        if editor.name in labels:  # by which a run is known again
            raise PluginError(
                f"{labels[editor.name]} and {label} of the pack are both editor {editor.name}",
                "its author has to put them in runs of their own: runs, editors",
            )
        labels[editor.name] = label
        runs.append(
            RunSpec(
                editor=editor.qualified,
                editor_args=_texts(method.args),
                task=plugins.find("task", leg.task).qualified,
                task_args=_texts(leg.args),
                model=ref,
                metrics=leg.metrics,
                judge=leg.judge,
                seed=flags.seed,
            )
        )
    todo = running.Todo(
        runs,
        Selection(limit=min((n for n in (leg.limit, flags.limit) if n), default=None)),
        Options(output_path=flags.output_path, quiet=flags.quiet, as_json=True),
        make_executor(plugins, flags.executor, flags.executor_args),
        loading,
        RegimeFlags(edit_mode=leg.mode, edit_batch_size=leg.batch),
    )
    for run in running.run_model(plugins, todo, runs, codes):
        yield labels[run.manifest.identity.editor.name], replace(run, interval=flags.interval)


def _texts(args: Mapping[str, Any]) -> dict[str, str]:
    """Return settings as they are given at the command line."""
    return {k: value if isinstance(value, str) else json.dumps(value) for k, value in args.items()}


def _report(report: Reproduction, flags: ReproduceFlags) -> int:
    """Print what came out, and return the exit code that this alone has."""
    found = report.compared()
    tables = [
        show.table(report.contents, model, [each for each in found if each.cell.model == model])
        for model in report.contents.models
    ]
    remarks = show.remarks(report, found)
    results.show(show.as_data(report, found), *tables, *remarks, as_json=flags.as_json)
    verdicts = {each.verdict for each in found}
    if OUTSIDE in verdicts:
        return FAILED
    if WITHIN not in verdicts:
        why = UNTOLD if UNTOLD in verdicts else APART
        console.err.print(f"nothing is told of {report.contents.name}: {why}")
        return running.SOME_FAILED
    return running.DONE
