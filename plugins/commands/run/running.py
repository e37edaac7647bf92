"""The command ``run``: every combination of editors, tasks, models and seeds, and their tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean

from edit_harness.errors import RunFolderError, UsageError
from edit_harness.folder import records
from edit_harness.folder.records import Record, RunFolder
from edit_harness.interfaces import Executor, Regime
from edit_harness.model.model import Model
from edit_harness.registry import fields, guard
from edit_harness.registry.components import make_executor
from edit_harness.registry.plugins import Component, Plugins
from edit_harness.run import assembly, evaluation
from edit_harness.run.assembly import Benchmark
from edit_harness.run.beside import Care
from edit_harness.run.controls import make_controls
from edit_harness.run.evaluation import Evaluation, Turns
from edit_harness.run.failures import RETRIED
from edit_harness.run.outcome import Run
from edit_harness.run.shares import Share
from edit_harness.run.spec import Chosen, ModelRef, RunSpec, Selection

from . import console, preset_file
from .flags import EditingFlags, regime, whole_number

DONE, SOME_FAILED = 0, 1
TIMED = 4
"""Cases that a dry run really runs to tell how long all take."""


@dataclass(frozen=True, kw_only=True)
class Flags(EditingFlags):
    """The flags of ``run``, as they were parsed."""

    task: Sequence[str]
    task_args: Sequence[str]
    metrics: Sequence[str]
    edit_mode: str | None
    edit_batch_size: str | None
    eval_at: Sequence[str]
    edit_conflicts: str
    judge: str
    judge_args: Sequence[str]
    limit: int | None
    samples: Sequence[str]
    seed: Sequence[str]
    shard: str | None
    control: Sequence[str]
    control_args: Sequence[str]
    executor: str
    executor_args: Sequence[str]
    output_path: str
    on_error: str
    retry_failed: bool
    case_timeout: float | None
    reload_on_leak: bool
    selfcheck: bool
    new: bool
    dry_run: bool
    quiet: bool
    verbose: bool
    as_json: bool

    def care(self, load: Callable[[], Model]) -> Care:
        """Return what is done about what goes wrong; ``load`` loads the model anew."""
        return Care(
            stop=self.on_error == "stop",
            retry=self.retry_failed,
            case_timeout=self.case_timeout,
            reload=load if self.reload_on_leak else None,
            selfcheck=self.selfcheck,
        )


def run(plugins: Plugins, flags: Flags) -> int:
    """Run every combination, print the tables, and return the exit code."""
    todo = Todo.of(plugins, flags)
    records.check_writable(Path(flags.output_path))
    runs: list[Run] = []
    codes = [DONE]
    for name in flags.model:
        with console.tolerated(codes, todo.several):
            runs.extend(run_model(plugins, flags, todo, name, codes))
    if flags.as_json and not flags.dry_run:
        results = [r.results() for r in runs]
        console.out.out(json.dumps(results if todo.several else results[0], indent=1))
    elif len(runs) > 1:
        for table in console.summary(runs):
            console.out.print(table)
    return max(*codes, SOME_FAILED if any(not r.sound for r in runs) else DONE)


@dataclass(frozen=True)
class Todo:
    """What is combined: found and checked as far as it can be without a model."""

    editors: Mapping[Component, Mapping[str, str]]
    """Editors with their settings."""
    tasks: Mapping[Component, Mapping[str, str]]
    seeds: Sequence[int]
    executor: Executor
    share: Share | None
    several: bool
    """Whether there is more than one combination, models included."""

    @classmethod
    def of(cls, plugins: Plugins, flags: Flags) -> Todo:
        """Find the plugins that the flags name. Raises `HarnessError`."""
        editors = [plugins.find("editor", name) for name in flags.editor]
        tasks = [plugins.find("task", name) for name in flags.task]
        for name in flags.metrics:
            plugins.find("metric", name)
        editor_args = shared_settings(editors, fields.parse(flags.editor_args))
        task_args = shared_settings(tasks, fields.parse(flags.task_args))
        for editor, settings in editor_args.items():
            known = flags.tuned.over(editor.name, settings) if flags.tuned else settings
            assembly.build_component(editor, known, seed=0)
        make_controls(plugins, flags.control, fields.parse(flags.control_args), seed=0)
        seeds = [whole_number(seed, "--seed takes numbers, by comma") for seed in flags.seed]
        share = Share.parse(flags.shard) if flags.shard else None
        executor = make_executor(plugins, flags.executor, fields.parse(flags.executor_args))
        count = len(editors) * len(tasks) * len(seeds) * len(flags.model)
        return cls(editor_args, task_args, seeds, executor, share, several=count > 1)


def run_model(
    plugins: Plugins, flags: Flags, todo: Todo, name: str, codes: list[int]
) -> Iterator[Run]:
    """Run everything on one model; its task data are read and checked before it is loaded."""
    options = flags.model_options
    source = assembly.checked_source(
        plugins, name, options.get("revision"), options["trust_remote_code"]
    )
    with guard.measuring():
        benchmarks = [
            (seed, task, assembly.make_benchmark(plugins, task.qualified, settings, source, seed))
            for (task, settings), seed in product(todo.tasks.items(), todo.seeds)
        ]
    given = flags.edit_mode, flags.edit_batch_size, flags.eval_at, flags.edit_conflicts
    regimes = {b.task.name: regime(b.task.value.regime, *given) for *_, b in benchmarks}
    ref, carried = ModelRef.split(name, options)
    # A rehearsal is run here, whoever would run the rest.
    loading = options if flags.dry_run else todo.executor.loading(options)
    load = partial(assembly.load, plugins, name, **loading)
    with nullcontext("") if flags.dry_run else todo.executor.ready() as where:
        with guard.measuring():
            model = load()
        for seed, task, benchmark in benchmarks:
            spec = specified(flags, task, todo.tasks[task], ref, seed)
            spec = replace(spec, regime=regimes[benchmark.task.name])
            made = assembled(plugins, model, benchmark, flags, todo, spec, codes)
            if made and not flags.quiet:
                console.header(made, where)
            turns, here = todo.executor.turns(carried), not todo.executor.elsewhere
            with console.tolerated(codes, todo.several):
                yield from run_beside(made, flags, codes, load, turns, here=here)


def specified(
    flags: Flags, task: Component, settings: Mapping[str, str], model: ModelRef, seed: int
) -> RunSpec:
    """Return what the flags say of a run, but for its editor."""
    return RunSpec.of(
        "",
        task.qualified,
        task_args=settings,
        metrics=flags.metrics,
        judge=flags.judge,
        judge_args=fields.parse(flags.judge_args),
        controls=flags.control,
        control_args=fields.parse(flags.control_args),
        model=model,
        seed=seed,
        tuned=flags.tuned.entry if flags.tuned else None,
    )


def assembled(
    plugins: Plugins,
    model: Model,
    benchmark: Benchmark,
    flags: Flags,
    todo: Todo,
    spec: RunSpec,
    codes: list[int],
) -> list[Evaluation]:
    """Return an evaluation for each editor.

    In a rehearsal there is none: each is rehearsed at once.
    """
    found = []
    chosen = Selection(flags.limit, tuple(flags.samples), todo.share)
    for editor, given in todo.editors.items():
        with console.tolerated(codes, todo.several):
            settings, source = preset_file.over(flags.tuned, editor.name, given, model)
            own = replace(spec, editor=Chosen(editor.qualified, settings), preset=source)
            with guard.measuring():
                made = evaluation.assemble(plugins, model, benchmark, own, chosen)
            if flags.dry_run:
                rehearse(made)
            else:
                found.append(made)
    return found


def run_beside(
    assembled: Sequence[Evaluation],
    flags: Flags,
    codes: list[int],
    load: Callable[[], Model],
    turns: Turns,
    *,
    here: bool,
) -> list[Run]:
    """Run editors on the same cases, with progress and tables; ``load`` loads their model.

    ``turns`` makes the records, ``here`` in this process or elsewhere.
    """
    folders: dict[Evaluation, RunFolder] = {}
    for which in assembled:
        with console.tolerated(codes, len(assembled) > 1):
            if here:  # workers try it themselves, on their devices
                which.check_controls()
            folder = which.open(Path(flags.output_path), new=flags.new)
            if not flags.quiet and which.lacks_nothing(folder, retry=flags.retry_failed):
                statuses = Counter(record.status for record in folder.records())
                again = {s: number for s, number in statuses.items() if s in RETRIED}
                console.note_read_back(folder, Counter(again))
            folders[which] = folder
    if not folders:
        return []
    try:
        with (
            guard.measuring(),
            console.progress(list(folders), quiet=flags.quiet) as advance,
        ):
            finished = evaluation.run_beside(folders, advance, flags.care(load), turns)
    except RunFolderError:
        raise
    except BaseException:
        for which, folder in folders.items():
            console.note_kept(which, folder, RETRIED)
        raise
    for which in folders:
        console.note_stopped(which.judge, codes)
    for run in finished:
        if not flags.quiet:
            for note in run.folder.notes:
                console.err.print(f"note     {note}", markup=False)
        else:
            console.note_pending(run)
        if not flags.as_json:
            console.finished(run, quiet=flags.quiet, verbose=flags.verbose, named=len(finished) > 1)
    return finished


def rehearse(assembled: Evaluation) -> None:
    """Say how much there is to do, and run a few cases to say how long it takes.

    They are edited one by one: requests of a batch that are found together take less.
    """
    console.header([assembled])
    cases = assembled.own_cases
    edit, ask = timed(assembled)
    visits = set(assembled.visits)
    measured = [(c, (c.id, step.state)) for step in assembled.steps for c in step.measure]
    probes = sum(len(case.probes) for case, visit in measured if visit in visits)
    weights = assembled.model.size * assembled.model.dtype.itemsize
    console.out.print(
        f"dry run  {len(cases):,} cases, asked {len(visits):,} times, {probes:,} probes before and after\n"
        f"         weights {weights / 1e6:,.0f} MB\n"
        f"         {edit:.2f} s an edit, {ask:.2f} s a case that is asked, "
        f"about {minutes(edit * len(cases) + ask * len(visits))} in all"
    )


def timed(assembled: Evaluation) -> tuple[float, float]:
    """Return the seconds that an edit takes, and asking a case before and after, by running a few."""
    from edit_harness.run import plan, runner

    some = [case for case in assembled.cases if not case.problem][:TIMED]
    single = list(plan.steps(some, Regime(in_turn=assembled.regime.in_turn)))
    made: list[Record] = []
    for _ in range(2):  # the first time a model is tried out
        made = list(runner.run(assembled.model, assembled.editor.value, single, assembled.metrics))
    edit, ask = (fmean([r.seconds[part] for r in made] or [0.0]) for part in ("edit", "evaluate"))
    return edit, ask


def minutes(seconds: float) -> str:
    """Return a duration as a person says it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def shared_settings(
    components: Sequence[Component], settings: Mapping[str, str]
) -> dict[Component, dict[str, str]]:
    """Give each component the settings that it has fields for; one alone must know them all.

    Raises `UsageError` for a setting that none of several has.
    """
    if len(components) == 1:
        return {components[0]: dict(settings)}
    known = {c: fields.field_types(c.load()) for c in components}
    for key in settings:
        if not any(key in names for names in known.values()):
            names = ", ".join(c.name for c in components)
            raise UsageError(f"none of {names} has a field {key!r}")
    return {c: {k: v for k, v in settings.items() if k in names} for c, names in known.items()}
