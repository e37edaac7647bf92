"""The command ``reproduce``: a printed table is made again, cell by cell, and held against what was printed.

What is missing is run as by ``run``, into ordinary run folders, so that an interrupted reproduction
goes on. Which numbers are compared, and what counts as the same, stands in `edit_harness_plugins.commands.studies.reproduce.replication`
and `edit_harness_plugins.commands.studies.reproduce.tolerances`; what a pack says, in `edit_harness_plugins.commands.studies.reproduce.packs`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edit_harness.encoding import finite
from edit_harness.errors import DataError, UsageError
from edit_harness.folder.folder import check_writable
from edit_harness.loading import loading
from edit_harness.registry.components import make_executor, source_of
from edit_harness.registry.plugins import Plugins
from edit_harness.registry.presets import shape_of
from edit_harness.run.outcome import Run
from edit_harness.run.spec import ModelRef, RunSpec, Selection
from edit_harness_plugins.commands.run import console, running
from edit_harness_plugins.commands.run.flags import LoadingFlags, Options, RegimeFlags

from . import packs, verdicts
from .packs import Contents, Leg, Method
from .replication import Compared, Ordered, Replication
from .tolerances import APART, OUTSIDE, UNTOLD, WITHIN

FAILED = 6
"""The exit code if a number did not come out again."""


@dataclass(frozen=True, kw_only=True)
class Flags(LoadingFlags):
    """The flags of ``reproduce``, as they were parsed."""

    pack: str | None
    list_: bool
    limit: int | None
    model: Sequence[str]
    executor: str
    executor_args: Mapping[str, str]
    seed: int
    output_path: str
    interval: str
    quiet: bool
    as_json: bool


def reproduce(plugins: Plugins, flags: Flags) -> int:
    """Run what a pack lacks, print which numbers came out again, and return the exit code."""
    if flags.list_:
        return list_packs(plugins, flags.pack, flags.as_json)
    if not flags.pack:
        raise UsageError("which table?", "edit-harness reproduce PACK; see: --list")
    contents = packs.read(plugins, flags.pack)
    where = _chosen(plugins, contents, flags)
    contents = contents.of_models(list(where))
    check_writable(Path(flags.output_path))
    codes = [running.DONE]
    runs = _runs(plugins, contents, where, flags, codes)
    if not any(runs.values()):
        return max(codes)
    replication = Replication(contents, runs, flags.limit)
    return max(*codes, _told(replication, flags))


def list_packs(plugins: Plugins, name: str | None, as_json: bool) -> int:
    """Print what packs there are, or the one of a name, and what each cannot match."""
    names = [name] if name else [component.qualified for component in plugins.of_kind("pack")]
    found = [packs.read(plugins, each) for each in names]
    if as_json:
        console.out.out(json.dumps([verdicts.described(each) for each in found], indent=1))
        return running.DONE
    for part in verdicts.listed(found, console.out.width):
        console.out.print(part)
    return running.DONE


def _chosen(plugins: Plugins, contents: Contents, flags: Flags) -> dict[str, str]:
    """Return where each model of the table is that is asked for, by what the table calls it.

    Raises `UsageError` for a model that is not of the table.
    """
    if not flags.model:
        return {label: wanted.name for label, wanted in contents.models.items()}
    found: dict[str, str] = {}
    for given in flags.model:
        label, _, name = given.rpartition("=")
        label = label or _label(plugins, contents, name, flags)
        if label not in contents.models:
            raise UsageError(f"{contents.name} has no model {label!r}", _remedy(contents))
        if label in found:
            raise UsageError(f"{found[label]} and {name} are both {label}", "name one of them")
        found[label] = contents.models[name].name if name in contents.models else name
    return found


def _label(plugins: Plugins, contents: Contents, name: str, flags: Flags) -> str:
    """Return what the table calls a model: by its name, or by its family if it is a copy.

    Raises `UsageError` if the table has none of its family, and `DataError` if it is not there.
    """
    for label, wanted in contents.models.items():
        if name in (label, wanted.name):
            return label
    options, source = flags.model_options, source_of(plugins, name)
    try:
        config = loading.config_of(
            source.path, options.get("revision"), options["trust_remote_code"]
        )
    except DataError as error:
        cause = f"{name} is no model of {contents.name}, and {error.cause}"
        raise DataError(cause, _remedy(contents)) from error
    family = shape_of(config, source.family).family
    for label, wanted in contents.models.items():
        if family and wanted.family == family:
            return label
    raise UsageError(f"{name} is no model of {contents.name}", _remedy(contents))


def _remedy(contents: Contents) -> str:
    names = ", ".join(wanted.name for wanted in contents.models.values())
    return (
        f"its models: {names}; of a copy say which it is: -m '{next(iter(contents.models))}=FOLDER'"
    )


Found = dict[tuple[str, str], list[Run]]


def _runs(
    plugins: Plugins, contents: Contents, where: Mapping[str, str], flags: Flags, codes: list[int]
) -> Found:
    """Return the runs by model and editor as the table calls them; what failed is said, and noted."""
    several = len(where) > 1 or len(contents.legs) > 1
    found: Found = {}
    for label, name in where.items():
        for leg in contents.legs:
            for methods in _apart(contents.edited(leg, label)):
                with console.tolerated(codes, several):
                    for editor, run in _made(plugins, leg, methods, name, flags, codes):
                        found.setdefault((label, editor), []).append(run)
    if any(not run.sound for runs in found.values() for run in runs):
        codes.append(running.SOME_FAILED)
    return found


def _apart(methods: Mapping[str, Method]) -> Iterator[dict[str, Method]]:
    """Yield methods in groups in which no editor is twice, since they run side by side by its name."""
    left = dict(methods)
    while left:
        group = {method.editor: label for label, method in reversed(left.items())}
        yield {label: method for label, method in left.items() if label in group.values()}
        left = {label: m for label, m in left.items() if label not in group.values()}


def _made(
    plugins: Plugins,
    leg: Leg,
    methods: Mapping[str, Method],
    model: str,
    flags: Flags,
    codes: list[int],
) -> Iterator[tuple[str, Run]]:
    """Run editors side by side on a leg's task, and yield the runs by what the table calls the editor."""
    editors = {plugins.find("editor", m.editor): (label, m) for label, m in methods.items()}
    limits = [limit for limit in (leg.limit, flags.limit) if limit]
    ref, loading = ModelRef.split(model, flags.model_options)
    runs = [
        RunSpec(
            editor=component.qualified,
            editor_args=_texts(method.args),
            task=plugins.find("task", leg.task).qualified,
            task_args=_texts(leg.args),
            model=ref,
            metrics=leg.metrics,
            judge=leg.judge,
            seed=flags.seed,
        )
        for component, (_, method) in editors.items()
    ]
    todo = running.Todo(
        runs,
        Selection(limit=min(limits, default=None)),
        Options(output_path=flags.output_path, quiet=flags.quiet, as_json=True),
        make_executor(plugins, flags.executor, flags.executor_args),
        loading,
        RegimeFlags(edit_mode=leg.mode, edit_batch_size=leg.batch),
    )
    labels = {component.name: label for component, (label, _) in editors.items()}
    for run in running.run_model(plugins, todo, runs, codes):
        label = labels[run.manifest.identity.editor.name]
        yield label, replace(run, interval=flags.interval)


def _texts(args: Mapping[str, Any]) -> dict[str, str]:
    """Return settings as they are given at the command line."""
    return {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in args.items()
    }


def _told(replication: Replication, flags: Flags) -> int:
    """Print what came out, and return the exit code that this alone has."""
    orderings = replication.contents.compares == "orderings"
    found: Sequence[Compared | Ordered] = (
        replication.ordered() if orderings else replication.compared()
    )
    counts = Counter(each.verdict for each in found)
    if flags.as_json:
        console.out.out(json.dumps(finite(verdicts.as_data(replication, found)), indent=1))
    else:
        for part in verdicts.outcome(replication, found, console.out.width):
            console.out.print(part)
    if counts[OUTSIDE]:
        return FAILED
    if not counts[WITHIN]:
        why = UNTOLD if counts[UNTOLD] else APART
        console.err.print(f"nothing is told of {replication.contents.name}: {why}")
        return running.SOME_FAILED
    return running.DONE
