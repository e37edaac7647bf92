"""The command ``sweep``: an editor's fields on a grid, on cases that are kept from the tests.

Every point of the grid is an ordinary run, in a folder of its own, which ``run`` would make too; what
points share is the model and its clean passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from edit_harness.data import Case
from edit_harness.errors import HarnessError, UsageError, counted
from edit_harness.folder.folder import check_writable
from edit_harness.registry import guard
from edit_harness.registry import settings as fields
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import shape_of
from edit_harness.run import assembly, evaluation, loop
from edit_harness.run.assembly import Benchmark
from edit_harness.run.evaluation import Evaluation
from edit_harness.run.results import Run
from edit_harness.run.rows import mark
from edit_harness.run.spec import RunSpec, Selection
from edit_harness_plugins.commands.report import figures, formats, heatmaps
from edit_harness_plugins.commands.results import out, show
from edit_harness_plugins.commands.run import console, preset_file
from edit_harness_plugins.commands.run.preset_file import Score, Tuned, TunedModel
from edit_harness_plugins.commands.run.running import DONE, SOME_FAILED

from ..studies import SweepFlags
from . import grid
from .grid import Point
from .scores import USUAL, Scored, SweepResults, mapped

BESIDE = 8
"""Points that are in memory at once, with what their editors hold, and share clean passes."""


class Sweep:
    """A grid on a model and a task's last cases, which the flags name; ``asked`` is of `grid.asked`."""

    def __init__(self, plugins: Plugins, flags: SweepFlags, asked: Mapping[str, str]) -> None:
        self.plugins, self.flags = plugins, flags
        self.editor = plugins.find("editor", flags.editor[0])
        grid.check_fields(self.editor, list(asked))
        options, name = flags.model_options, flags.model[0]
        source = assembly.checked_source(
            plugins, name, options.get("revision"), options["trust_remote_code"]
        )
        args, seed = flags.task_args, flags.seed
        self.benchmark = assembly.make_benchmark(plugins, flags.task, args, source, seed)
        self.cases = last(self.benchmark, flags.dev)
        self.model = assembly.load(plugins, name, **options)
        self.axes = grid.axes(self.editor, asked, len(self.model.architecture.blocks))
        self.points = grid.points(self.axes)
        every = [case.id for case in self.benchmark.cases]
        self.before = every.index(self.cases[0].id)
        """How many cases come before those that the fields are tried on."""
        self.split = (
            f"the last {counted(len(self.cases), 'case')} of {len(every):,}; "
            f"the first {self.before:,} are left to test: --limit {self.before}"
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
            error.cause = f"at {grid.named(point)}: {error.cause}"
            raise

    def first(self) -> list[Evaluation]:
        """Return the runs of the first points, once those of all could be assembled."""
        ready = [self.assembled(point) for point in self.points[:BESIDE]]
        for point in self.points[BESIDE:]:
            self.assembled(point)  # a layer without statistics is told now, not after an hour
        return ready

    def runs(self, ready: list[Evaluation]) -> Iterator[tuple[Point, Run]]:
        """Yield every point with its run, `BESIDE` of them side by side; ``ready`` run first."""
        for start in range(0, len(self.points), BESIDE):
            group = self.points[start : start + BESIDE]
            if len(self.points) > BESIDE and not self.flags.quiet:
                say("points", f"{start + 1} to {start + len(group)} of {len(self.points)}")
            assembled = ready[:] or [self.assembled(point) for point in group]
            ready.clear()  # what their editors hold is not kept until the end
            yield from zip(group, self._beside(assembled), strict=True)

    def _beside(self, assembled: Sequence[Evaluation]) -> list[Run]:
        folders = {each: each.open(Path(self.flags.output_path)) for each in assembled}
        try:
            with (
                guard.measuring(),
                console.progress(assembled, quiet=self.flags.quiet) as advance,
            ):
                return loop.run_all(folders, advance)
        except BaseException:
            console.err.print(
                f"kept: what there is, in {self.flags.output_path}; continue with the same command"
            )
            raise


def sweep(plugins: Plugins, flags: SweepFlags) -> int:
    """Run every point of the grid, show what came of it, and return the exit code."""
    asked = check(flags)
    with guard.measuring():
        todo = Sweep(plugins, flags, asked)
        ready = todo.first()
    known = ready[0].measures
    names = mapped(flags.measures, known)
    if not flags.quiet:
        announce(todo, ready[0], names)
    check_writable(Path(flags.output_path))
    runs = list(todo.runs(ready))
    found = SweepResults.of(todo.axes, runs, names, known)
    left_out = {n: "has no value in any case" for n in names if n not in found.measures}
    for name, why in left_out.items():
        say("note", f"{name} is left out: it {why}")
    print_results(todo, found, left_out)
    write(todo, found)
    return DONE if found.best and all(run.sound for _, run in runs) else SOME_FAILED


def check(flags: SweepFlags) -> dict[str, str]:
    """Return what is asked of each field. Raises `UsageError` for flags that do not go together.

    It also does for files that cannot be read or written, since nobody wants to hear it at the end.
    """
    if len(flags.model) != 1 or len(flags.editor) != 1:
        raise UsageError("sweep takes one model and one editor")
    _ = flags.tuned  # an error in the preset is told first
    asked = grid.asked(flags.grid, flags.layers, flags.tokens)
    for flag, file in (("--html", flags.html), ("--png", flags.png)):
        if file and len(asked) > 2:
            raise UsageError(
                f"{flag} draws one field or two, and the grid has {len(asked)}",
                "leave it out: the table and --json have all fields",
            )
    if twice := asked.keys() & flags.editor_args.keys():
        raise UsageError(f"field {min(twice)} is in the grid and in --editor-args", "say it once")
    if flags.png:
        figures.check()
    files = {"--save-preset": flags.save_preset, "--html": flags.html, "--png": flags.png}
    for flag, file in files.items():
        if file and not Path(file).expanduser().absolute().parent.is_dir():
            raise UsageError(f"{flag} {file} is in a folder that is not there", "make it first")
    return asked


def announce(todo: Sweep, first: Evaluation, names: Sequence[str]) -> None:
    """Print what is run on stderr."""
    say("model", f"{todo.model.name}  {todo.model.precision}  {todo.model.device}")
    say("editor", f"{todo.editor.name}  ({todo.editor.origin})  preset: {first.preset}")
    say("grid", f"{counted(len(todo.points), 'point')}: {'; '.join(map(str, todo.axes))}")
    say("task", f"{first.task.name} {first.task.version}  mode {first.regime}")
    say("split", todo.split)
    if not todo.flags.measures and not set(names) & set(USUAL):
        say("note", f"the task has none of {', '.join(USUAL)}: {', '.join(names)}")


def say(label: str, text: str) -> None:
    """Print one labelled line on stderr."""
    console.err.print(formats.labelled(label, text, console.err.width))


def print_results(todo: Sweep, found: SweepResults, left_out: Mapping[str, str]) -> None:
    """Print maps, table and what follows from them, or all of it as JSON."""
    data = {
        "editor": todo.editor.name,
        "task": todo.flags.task,
        "model": todo.model.name,
        "cases": [case.id for case in todo.cases],
        **found.data(),
        "left_out": left_out,
    }
    heats = found.maps() if len(found.axes) == 2 else []
    maps = [part for heat in heats for part in (heatmaps.terminal(heat, out.width), "")]
    title = f"{todo.editor.name} on {counted(len(todo.cases), 'development case')}"
    show(data, *maps, found.table(title), *found.conclusions, as_json=todo.flags.as_json)


def write(todo: Sweep, found: SweepResults) -> None:
    """Write the files that are asked for, and say where all is. Raises `ResourceError`."""
    flags = todo.flags
    title = f"{todo.editor.name} on {todo.model.name}, {flags.task}"
    lines = [("split", todo.split), *found.conclusions]
    written = heatmaps.write(flags.html, flags.png, found.maps(), title, lines)
    if flags.save_preset and found.best:
        preset_of(todo, found, found.best).save(Path(flags.save_preset).expanduser())
        written.append(flags.save_preset)
    if flags.quiet:
        return
    for path in written:
        say("saved", path)
    say("runs", f"{flags.output_path}/")


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
        chosen=[axis.field for axis in todo.axes],
        rest=manifest.preset,
        model=TunedModel(name=model.name, digest=model.digest, **vars(shape)),
        task=todo.flags.task,
        cases={case.id: mark(case) for case in todo.cases},
        points=len(todo.points),
        score=Score(found.score, **vars(best.score)),
    )


def last(benchmark: Benchmark, count: int) -> list[Case]:
    """Return the last cases that can be used, to choose fields by: a limit takes the first.

    Raises `UsageError` if they are more than half of all, so that too few are left to test.
    """
    usable = [case for case in benchmark.cases if not case.problem]
    if len(usable) < 2 * count:
        raise UsageError(
            f"task {benchmark.task.name} has {counted(len(usable), 'case')}, and --dev {count} "
            "would leave fewer than that to test",
            f"--dev {len(usable) // 2} at most" if len(usable) > 1 else "take another task",
        )
    return usable[-count:]
