"""The command ``sweep``: an editor's fields on a grid, on cases that are kept from the tests.

Every point of the grid is an ordinary run, in a folder of its own, which ``run`` would make too; what
points share is the model and its clean passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from edit_harness.data import Case
from edit_harness.errors import HarnessError, UsageError, counted
from edit_harness.registry import guard
from edit_harness.registry import settings as fields
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import shape_of
from edit_harness.run import assembly, evaluation, loop
from edit_harness.run.assembly import Benchmark
from edit_harness.run.estimates import measures_of
from edit_harness.run.evaluation import Evaluation
from edit_harness.run.results import Results
from edit_harness.run.spec import RunSpec, Selection
from edit_harness_plugins.commands.report import heatmaps
from edit_harness_plugins.commands.report.facts import sound
from edit_harness_plugins.commands.results import out, show
from edit_harness_plugins.commands.run import console, local, preset_file, running
from edit_harness_plugins.commands.run.editing import check_single
from edit_harness_plugins.commands.run.preset_file import Score, Tuned, TunedModel
from edit_harness_plugins.composition import mark
from edit_harness_plugins.loading.load import checked_source
from edit_harness_plugins.reading import check_writable

from ..studies import SweepFlags
from . import points
from .points import Point, Scored, SweepResults, mapped

BESIDE = 8
"""Points that are in memory at once, with what their editors hold, and share clean passes."""


class Sweep:
    """A grid on a model and a task's last cases, which the flags name; ``asked`` is of `points.asked`."""

    def __init__(self, plugins: Plugins, flags: SweepFlags, asked: Mapping[str, str]) -> None:
        self.plugins, self.flags = plugins, flags
        self.editor = plugins.find("editor", flags.editor[0])
        fields.typed(self.editor.load(), dict.fromkeys(asked), f"editor {self.editor.name}")
        options, name = flags.model_options, flags.model[0]
        source = checked_source(
            plugins, name, options.get("revision"), options["trust_remote_code"]
        )
        args, seed = flags.task_args, flags.seed
        self.benchmark = assembly.make_benchmark(plugins, flags.task, args, source, seed)
        self.cases = last(self.benchmark, flags.dev)
        self.model = assembly.load(plugins, name, **options)
        self.axes = points.axes(self.editor, asked, len(self.model.architecture.blocks))
        self.points = points.points(self.axes)
        ids = [case.id for case in self.benchmark.cases]
        before = ids.index(self.cases[0].id)
        self.split = (
            f"the last {counted(len(self.cases), 'case')} of {len(ids):,}; "
            f"the first {before:,} are left to test: --limit {before}"
        )

    def assembled(self, point: Point) -> Evaluation:
        """Return the run of a point, checked. Raises `HarnessError` that names the point."""
        tuned, given = self.flags.tuned, {**self.flags.editor_args, **point}
        try:
            settings, source = preset_file.over(tuned, self.editor.name, given, self.model)
            spec = RunSpec(
                editor=self.editor.qualified,
                editor_args=settings,
                task=self.flags.task,
                task_args=self.flags.task_args,
                seed=self.flags.seed,
                preset=source,
                tuned=tuned.entry if tuned else None,
            )
            chosen = Selection(samples=tuple(case.id for case in self.cases))
            return evaluation.assemble(self.plugins, self.model, self.benchmark, spec, chosen)
        except HarnessError as error:
            error.cause = f"at {points.named(point)}: {error.cause}"
            raise

    def runs(self) -> Iterator[tuple[Point, Results]]:
        """Yield every point with its run, `BESIDE` of them side by side."""
        for start in range(0, len(self.points), BESIDE):
            group = self.points[start : start + BESIDE]
            folders = {e: e.open(Path(self.flags.output)) for e in map(self.assembled, group)}
            with (
                running.kept(folders),
                guard.measuring(),
                console.progress(list(folders), quiet=self.flags.quiet) as advance,
            ):
                runs = loop.run_all(folders, advance, turns=local.turns)
            yield from zip(group, runs, strict=True)


def sweep(plugins: Plugins, flags: SweepFlags) -> int:
    """Run every point of the grid, show what came of it, and return the exit code."""
    asked = check(flags)
    with guard.measuring():
        todo = Sweep(plugins, flags, asked)
        # A layer without statistics is told now, not after an hour.
        *_, made = map(todo.assembled, todo.points)
    measures = measures_of(made.metrics)
    names = mapped(flags.measures, measures)
    if not flags.quiet:
        console.line("model", f"{todo.model.name}  {todo.model.precision}  {todo.model.device}")
        console.line("editor", f"{todo.editor.name}  ({todo.editor.origin})  preset: {made.preset}")
        grid = "; ".join(
            f"{f} {', '.join(map(preset_file.typed, v))}" for f, v in todo.axes.items()
        )
        console.line("grid", f"{counted(len(todo.points), 'point')}: {grid}")
        console.line("task", f"{made.task.name} {made.task.version}  mode {made.regime}")
        console.line("split", todo.split)
    check_writable(Path(flags.output))
    found = SweepResults.of(todo.axes, list(todo.runs()), names, measures)
    finish(todo, found)
    good = found.best and all(sound(point.run) for point in found.points)
    return console.DONE if good else console.SOME_FAILED


def check(flags: SweepFlags) -> dict[str, str]:
    """Return what is asked of each field. Raises `UsageError` for flags that do not go together."""
    check_single(flags, "sweep")
    _ = flags.tuned  # an error in the preset is told first
    asked = points.asked(flags.grid, flags.layers, flags.tokens)
    for flag, file in (("--html", flags.html), ("--png", flags.png)):
        if file and len(asked) > 2:
            raise UsageError(
                f"{flag} draws one field or two, and the grid has {len(asked)}",
                "leave it out: the table and --json have all fields",
            )
    if twice := asked.keys() & flags.editor_args.keys():
        raise UsageError(f"field {min(twice)} is in the grid and in --editor-args", "say it once")
    if flags.png:
        heatmaps.check(flags.png)
    return asked


def finish(todo: Sweep, found: SweepResults) -> None:
    """Print maps and a table, or JSON, and write the files that are asked for. Raises `ResourceError`."""
    flags, editor = todo.flags, todo.editor.name
    names = {"editor": editor, "task": flags.task, "model": todo.model.name}
    data = {**names, "cases": [case.id for case in todo.cases], **found.data()}
    heats = found.maps()
    maps = [part for heat in heats for part in (heatmaps.terminal(heat, out.width), "")]
    table = found.table(f"{editor} on {counted(len(todo.cases), 'development case')}")
    shown = maps if len(found.axes) == 2 else []
    show(data, *shown, table, *found.conclusions, as_json=flags.as_json)
    title = f"{editor} on {todo.model.name}, {flags.task}"
    lines = [("split", todo.split), *found.conclusions]
    written = heatmaps.write(flags.html, flags.png, heats, title, lines)
    if flags.save_preset and found.best:
        preset_of(todo, found, found.best).save(Path(flags.save_preset).expanduser())
        written.append(flags.save_preset)
    if not flags.quiet:
        for path in written:
            console.line("saved", path)
        console.line("runs", f"{flags.output}/")


def preset_of(todo: Sweep, found: SweepResults, best: Scored) -> Tuned:
    """Return the best fields as a preset: all that were given or depend on the model."""
    model, manifest, tuned = todo.model, best.run.manifest, todo.flags.tuned
    given = {*todo.flags.editor_args, *best.point, *(tuned.fields if tuned else ())}
    usual = fields.defaults(todo.editor.load())
    values = manifest.identity.editor.fields.items()
    shape = shape_of(model.module.config, model.source.family)
    return Tuned(
        editor=todo.editor.name,
        fields={n: v for n, v in values if v is not None and (n in given or usual[n] is None)},
        chosen=list(todo.axes),
        rest=manifest.preset,
        model=TunedModel(name=model.name, digest=model.digest, **vars(shape)),
        task=todo.flags.task,
        cases={case.id: mark(case) for case in todo.cases},
        points=len(todo.points),
        score=Score(found.score, **vars(best.score)),
    )


def last(benchmark: Benchmark, count: int) -> list[Case]:
    """Return the last usable cases, to choose fields by. Raises `UsageError` for more than half of all."""
    usable = [case for case in benchmark.cases if not case.problem]
    if len(usable) < 2 * count:
        raise UsageError(
            f"task {benchmark.task.name} has {counted(len(usable), 'case')}, and --dev {count} "
            "would leave fewer than that to test",
            f"--dev {len(usable) // 2} at most" if len(usable) > 1 else "take another task",
        )
    return usable[-count:]
