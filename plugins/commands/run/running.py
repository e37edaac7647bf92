"""The command ``run``: every combination of editors, tasks, models and seeds, and their tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from dataclasses import fields as fields_of
from functools import partial
from itertools import groupby, product
from pathlib import Path
from typing import Any

from edit_harness.errors import RunFolderError, UsageError, counted
from edit_harness.folder.folder import RunFolder
from edit_harness.interfaces import Executor
from edit_harness.model.model import Model
from edit_harness.registry import guard
from edit_harness.registry import settings as fields
from edit_harness.registry.registry import Component, Plugins
from edit_harness.registry.settings import build_component
from edit_harness.run import assembly, evaluation, loop
from edit_harness.run.assembly import Benchmark
from edit_harness.run.controls import make_controls
from edit_harness.run.evaluation import Evaluation
from edit_harness.run.results import Results
from edit_harness.run.spec import ModelRef, RunSpec, Selection
from edit_harness_plugins.command_line import called, taken
from edit_harness_plugins.loading.load import checked_source
from edit_harness_plugins.loading.placement import described
from edit_harness_plugins.reading import check_writable, statuses_of

from . import console, preset_file, receipt
from .flags import EditingFlags, Options, RegimeFlags, whole_number
from .preset_file import Tuned
from .shards import Share

COMBINED = ("editor", "editor_args", "task", "task_args", "model", "seed")
"""Fields of `RunSpec` that options give several values of, or share out."""


@dataclass(frozen=True)
class Todo:
    """Runs that are to be made, and how."""

    runs: Sequence[RunSpec]
    chosen: Selection
    options: Options
    executor: Executor
    loading: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of `edit_harness_plugins.loading.load.load` that change no number."""
    regime: RegimeFlags = field(default_factory=RegimeFlags)
    tuned: Tuned | None = None
    receipt: str = ""
    """The key of what is left of the command for the next time: see `receipt`."""

    @property
    def several(self) -> bool:
        """Whether what fails leaves others to be run."""
        return len(self.runs) > 1


def run(plugins: Plugins, given: Mapping[str, Any]) -> int:
    """Run every combination, print the tables, and return the exit code."""
    todo = parsed(plugins, given)
    options = todo.options
    check_writable(Path(options.output))
    for spec in {spec.task: spec for spec in todo.runs if not options.quiet}.values():
        if lacking := sorted(given["task_args"].keys() - spec.task_args.keys()):
            console.line("note", f"{spec.task} has no {', '.join(lacking)}: it is asked without")
    runs: list[Results] = []
    codes = [console.DONE]
    for _, of_model in groupby(todo.runs, key=lambda spec: spec.model):
        with console.tolerated(codes, todo.several):
            runs.extend(run_model(plugins, todo, list(of_model), codes))
    if lost := len(todo.runs) - len(runs):
        console.line("missing", f"{counted(lost, 'run')} of {len(todo.runs)}: see the errors above")
    return console.ended(runs, codes, several=todo.several, as_json=options.as_json)


def parsed(plugins: Plugins, given: Mapping[str, Any]) -> Todo:
    """Return what flags say, found and checked as far as it can be without a model. Raises `HarnessError`."""
    flags, options = taken(EditingFlags, given), taken(Options, given)
    runs = combined(plugins, given, flags)
    for spec in {spec.editor: spec for spec in runs}.values():
        editor = plugins.find("editor", str(spec.editor))
        known = flags.tuned.over(editor.name, spec.editor_args) if flags.tuned else spec.editor_args
        assembly.build_component(editor, known, seed=0)
    make_controls(plugins, runs[0].controls, runs[0].control_args, seed=0)
    part = given["shard"]
    chosen = Selection(given["limit"], given["samples"], Share.parse(part) if part else None)
    executor = build_component(plugins.find("executor", options.executor), options.executor_args)
    _, loading = ModelRef.split("", flags.model_options)
    regime = taken(RegimeFlags, given)
    key = receipt.key_of(plugins, given)
    return Todo(runs, chosen, options, executor, loading, regime, flags.tuned, key)


def combined(plugins: Plugins, given: Mapping[str, Any], flags: EditingFlags) -> list[RunSpec]:
    """Return the runs that options ask for, those of one model and task in a row. Raises `HarnessError`."""
    editors, tasks, _ = (
        [plugins.find(kind, name) for name in given[option]]
        for kind, option in (("editor", "editor"), ("task", "task"), ("metric", "metrics"))
    )
    editor_args = shared_settings(editors, given["editor_args"])
    task_args = shared_settings(tasks, given["task_args"])
    seeds = [whole_number(seed, "--seed takes numbers, by comma") for seed in given["seed"]]
    models = [ModelRef.split(name, flags.model_options)[0] for name in given["model"]]
    rest = {
        each.name: given[called(each)]
        for each in fields_of(RunSpec)
        if called(each) in given and each.name not in COMBINED
    }
    return [
        RunSpec(
            editor=editor.qualified, editor_args=editor_args[editor],
            task=task.qualified, task_args=task_args[task], model=model, seed=seed, **rest,
        )
        for model, task, seed, editor in product(models, tasks, seeds, editors)
    ]  # fmt: skip


def shared_settings(
    components: Sequence[Component], settings: Mapping[str, str]
) -> dict[Component, dict[str, str]]:
    """Give each component the settings that it has fields for; one alone gets all. Raises `UsageError`."""
    if len(components) == 1:
        return {components[0]: dict(settings)}
    known = {c: fields.field_types(c.load()) for c in components}
    if strange := [key for key in settings if not any(key in names for names in known.values())]:
        names = ", ".join(c.name for c in components)
        raise UsageError(f"none of {names} has a field {strange[0]!r}")
    return {c: {k: v for k, v in settings.items() if k in names} for c, names in known.items()}


def run_model(
    plugins: Plugins, todo: Todo, runs: Sequence[RunSpec], codes: list[int]
) -> Iterator[Results]:
    """Run what is to be run on one model; its task data are read and checked before it is loaded."""
    ref = runs[0].model
    assert ref is not None  # it is named by a flag, or by a table
    loading = {**todo.loading, **ref.options}
    code = loading.get("trust_remote_code", False)
    source = checked_source(plugins, ref.name, ref.revision, code)
    together = groupby(runs, key=lambda spec: (spec.task, spec.task_args, spec.seed))
    with guard.measuring():
        benchmarks = [
            (list(group), assembly.make_benchmark(plugins, task, args, source, seed))
            for (task, args, seed), group in together
        ]
    options = todo.options
    stop, retry = options.on_error == "stop", options.retry_failed
    regimes = [todo.regime.over(benchmark.task.value.regime) for _, benchmark in benchmarks]
    load = partial(assembly.load, plugins, ref.name, **todo.executor.loading(loading))
    with todo.executor.ready() as where:
        with guard.measuring():
            model = load()
        for (group, benchmark), regime in zip(benchmarks, regimes, strict=True):
            own = [replace(spec, regime=regime) for spec in group]
            made = assembled(plugins, model, benchmark, todo, own, codes)
            heading = [*console.heading(made, where or described(model))] if made else []
            console.header(heading if not options.quiet else ())
            with console.tolerated(codes, todo.several):
                folders = opened(made, todo, codes)
                if not folders:
                    continue
                bar = console.progress(list(folders), quiet=options.quiet)
                with kept(folders), guard.measuring(), bar as advance:
                    turns = todo.executor.turns(todo.loading)
                    finished = loop.run_all(folders, advance, turns=turns, stop=stop, retry=retry)
                for which in folders:
                    console.note_stopped(which.judge, codes)
                console.show(finished, options)
                if todo.receipt and codes == [console.DONE]:
                    receipt.keep(todo.receipt, heading, finished)
                yield from finished


def assembled(
    plugins: Plugins,
    model: Model,
    benchmark: Benchmark,
    todo: Todo,
    runs: Sequence[RunSpec],
    codes: list[int],
) -> list[Evaluation]:
    """Return an evaluation for each run that can be made."""
    found = []
    for spec in runs:
        name = plugins.find("editor", str(spec.editor)).name
        with console.tolerated(codes, todo.several, name):
            settings, source = preset_file.over(todo.tuned, name, spec.editor_args, model)
            entry = todo.tuned.entry if todo.tuned else None
            own = replace(spec, editor_args=settings, preset=source, tuned=entry)
            with guard.measuring():
                found.append(evaluation.assemble(plugins, model, benchmark, own, todo.chosen))
    return found


def opened(
    assembled: Sequence[Evaluation], todo: Todo, codes: list[int]
) -> dict[Evaluation, RunFolder]:
    """Return the folders of runs, and say what is read back from them."""
    options = todo.options
    folders: dict[Evaluation, RunFolder] = {}
    for which in assembled:
        with console.tolerated(codes, len(assembled) > 1):
            folder = which.open(Path(options.output), new=options.new)
            known = statuses_of(folder)
            failed = options.retry_failed and which.retried(known)
            if not options.quiet and known.keys() >= set(which.visits) and not failed:
                console.note_nothing(folder)
            folders[which] = folder
    return folders


@contextmanager
def kept(folders: Mapping[Evaluation, RunFolder]) -> Iterator[None]:
    """Say what is kept of runs that end in the block before they are through; what leaked is lost."""
    try:
        yield
    except RunFolderError:
        raise
    except BaseException:
        for which, folder in folders.items():
            planned = which.visits
            there = statuses_of(folder)
            kept = sum(there.get(visit, "leak") != "leak" for visit in planned)
            rest = "" if there.keys() >= set(planned) else "; continue with the same command"
            console.err.print(f"kept: {kept} of {len(planned)} cases in {folder.path}{rest}")
        raise
