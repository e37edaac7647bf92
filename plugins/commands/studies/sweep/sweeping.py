"""The command ``sweep``: an editor's fields on a grid, on cases that are kept from the tests.

Every point of the grid is an ordinary run, in a folder of its own, which ``run`` would make too; what
points share is the model and its clean passes. Which combinations there are is told in
`edit_harness_plugins.commands.studies.sweep.grids`, what is made of the numbers in `edit_harness_plugins.commands.studies.sweep.landscape`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from edit_harness.cases import Case
from edit_harness.errors import HarnessError, UsageError
from edit_harness.folder import records
from edit_harness.interfaces import Measure
from edit_harness.model.model import Model
from edit_harness.registry import guard
from edit_harness.registry.plugins import Component, Plugins
from edit_harness.registry.presets import configure, shape_of
from edit_harness.run import assembly, evaluation, loop
from edit_harness.run.assembly import Benchmark
from edit_harness.run.evaluation import Evaluation
from edit_harness.run.outcome import Run
from edit_harness.run.spec import RunSpec, Selection
from edit_harness.wording import counted
from edit_harness_plugins.commands.report import figures
from edit_harness_plugins.commands.run import console, preset_file
from edit_harness_plugins.commands.run.flags import EditingFlags
from edit_harness_plugins.commands.run.running import DONE, SOME_FAILED, minutes, timed

from . import grids, swept
from .grids import Axis, Point, named
from .landscape import USUAL, Landscape, mapped

BESIDE = 8
"""Points that are in memory at once, with what their editors hold, and share clean passes."""


@dataclass(frozen=True, kw_only=True)
class Flags(EditingFlags):
    """The flags of ``sweep``, as they were parsed."""

    task: str
    task_args: Mapping[str, str]
    grid: Sequence[str]
    layers: str | None
    tokens: str | None
    dev: int
    measures: Sequence[str]
    save_preset: str | None
    html: str | None
    png: str | None
    seed: int
    output_path: str
    dry_run: bool
    quiet: bool
    as_json: bool

    @property
    def pictures(self) -> dict[str, str]:
        """The files of pictures that are asked for, by flag."""
        return {flag: name for flag, name in (("--html", self.html), ("--png", self.png)) if name}


def sweep(plugins: Plugins, flags: Flags) -> int:
    """Run every point of the grid, show what came of it, and return the exit code."""
    asked = check(flags)
    with guard.measuring():
        todo = Sweep.of(plugins, flags, asked)
    if not flags.quiet:
        todo.announce()
    if flags.dry_run:
        rehearse(todo)
        return DONE
    records.check_writable(Path(flags.output_path))
    runs = list(todo.runs())
    found = Landscape.of(todo.axes, runs, todo.names, todo.measures)
    for name in [name for name in todo.names if name not in found.measures]:
        todo.left_out[name] = "has no value in any case"
        swept.say("note", f"{name} is left out: it {todo.left_out[name]}")
    swept.show(todo, found)
    swept.write(todo, found)
    sound = found.best is not None and all(run.sound for _, run in runs)
    return DONE if sound else SOME_FAILED


def check(flags: Flags) -> dict[str, str]:
    """Return what is asked of each field. Raises `UsageError` for flags that do not go together.

    It also does for files that cannot be read or written, since nobody wants to hear it at the end.
    """
    if len(flags.model) != 1 or len(flags.editor) != 1:
        raise UsageError("sweep takes one model and one editor")
    _ = flags.tuned  # a file that is none is told first
    asked = grids.asked(flags.grid, flags.layers, flags.tokens)
    if len(asked) > 2 and flags.pictures:
        raise UsageError(
            f"{next(iter(flags.pictures))} draws one field or two, and the grid has {len(asked)}",
            "leave it out: the table and --json have all fields",
        )
    for name in flags.editor_args:
        if name in asked:
            raise UsageError(f"field {name} is in the grid and in --editor-args", "say it once")
    if flags.png:
        figures.check()
    written = {"--save-preset": flags.save_preset, **flags.pictures}
    for flag, file in written.items():
        if file and not Path(file).absolute().parent.is_dir():
            raise UsageError(f"{flag} {file} is in a folder that is not there", "make it first")
    return asked


@dataclass
class Sweep:
    """What is to be run: found and checked, every point of it."""

    plugins: Plugins
    flags: Flags
    editor: Component
    axes: Sequence[Axis]
    model: Model
    benchmark: Benchmark
    cases: Sequence[Case]
    """The development split."""
    names: Sequence[str] = ()
    """The measures that are mapped."""
    measures: Mapping[str, Measure] = field(default_factory=dict)
    """All that the runs have."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Measures that are asked for and not there, with the reason."""
    ready: list[Evaluation] = field(default_factory=list)
    """The points that run first, put together."""

    @classmethod
    def of(cls, plugins: Plugins, flags: Flags, asked: Mapping[str, str]) -> Sweep:
        """Find and check all that flags name; ``asked`` is what `check` returns.

        Raises `HarnessError` for whatever would fail later, such as a layer without statistics.
        """
        editor = plugins.find("editor", flags.editor[0])
        grids.check_fields(plugins, editor, list(asked))
        options, name = flags.model_options, flags.model[0]
        source = assembly.checked_source(
            plugins, name, options.get("revision"), options["trust_remote_code"]
        )
        task_args = flags.task_args
        benchmark = assembly.make_benchmark(plugins, flags.task, task_args, source, flags.seed)
        cases = benchmark.last(flags.dev)
        model = assembly.load(plugins, name, **options)
        axes = grids.axes(editor, asked, len(model.architecture.blocks))
        made = cls(plugins, flags, editor, axes, model, benchmark, cases)
        made._check()
        return made

    @cached_property
    def points(self) -> list[Point]:
        """All points of the grid, in its order."""
        return grids.points(self.axes)

    def _check(self) -> None:
        """Put every point together, quick checks of all of them first; keep those that run first."""
        shape = shape_of(self.model.module.config, self.model.source.family)
        for point in self.points:
            with _told(point):
                made = assembly.build_component(self.editor, self.given(point), self.flags.seed)
                configure(made, shape, self.editor.name).editor.check(self.model)
        for number, point in enumerate(self.points):
            with _told(point):
                made = self._assembled(point)
            self.ready += [made] * (number < BESIDE)
        self.measures = self.ready[0].measures
        self.names, self.left_out = mapped(
            self.plugins, self.flags.measures, self.measures, self.flags.task
        )

    def given(self, point: Point) -> dict[str, Any]:
        """Return all settings that hold at a point, those of ``--preset`` among them."""
        given = {**self.flags.editor_args, **point}
        return self.flags.tuned.over(self.editor.name, given) if self.flags.tuned else given

    def _assembled(self, point: Point) -> Evaluation:
        tuned, given = self.flags.tuned, {**self.flags.editor_args, **point}
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

    def runs(self) -> Iterator[tuple[Point, Run]]:
        """Yield every point with its run, `BESIDE` of them side by side; what is there is read."""
        for start in range(0, len(self.points), BESIDE):
            group = self.points[start : start + BESIDE]
            assembled = self.ready if start == 0 else [self._assembled(point) for point in group]
            self.ready = []
            if len(self.points) > BESIDE and not self.flags.quiet:
                swept.say("points", f"{start + 1} to {start + len(group)} of {len(self.points)}")
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

    def announce(self) -> None:
        """Print what is run."""
        swept.say("model", f"{self.model.name}  {self.model.precision}  {self.model.device}")
        first = self.ready[0]
        swept.say("editor", f"{self.editor.name}  ({self.editor.origin})  preset: {first.preset}")
        swept.say("grid", f"{counted(len(self.points), 'point')}: {'; '.join(map(str, self.axes))}")
        swept.say("task", f"{first.task.name} {first.task.version}  mode {first.regime}")
        swept.say("split", self.kept)
        for name, why in self.left_out.items():
            swept.say("note", f"{name} is left out: it {why}")
        if not self.flags.measures and not set(self.names) & set(USUAL):
            swept.say("note", f"the task has none of {', '.join(USUAL)}: {', '.join(self.names)}")

    @property
    def kept(self) -> str:
        """Which cases the fields are tried on."""
        return (
            f"the last {counted(len(self.cases), 'case')} of {len(self.benchmark.cases):,}; "
            f"the first {self.before:,} are left to test: --limit {self.before}"
        )

    @property
    def before(self) -> int:
        """How many cases come before those that the fields are tried on."""
        return [case.id for case in self.benchmark.cases].index(self.cases[0].id)


def rehearse(todo: Sweep) -> None:
    """Say how much there is to do, and run a few cases of the first point to say how long it takes."""
    edit, ask = timed(todo.ready[0])
    rows = len(todo.points) * len(todo.cases)
    console.out.print(
        f"dry run  {counted(len(todo.points), 'point')}, {counted(len(todo.cases), 'case')} each\n"
        f"         {edit:.2f} s an edit, {ask:.2f} s a case that is asked, "
        f"at most about {minutes(rows * (edit + ask))} in all"
    )


@contextmanager
def _told(point: Point) -> Iterator[None]:
    """Say at which point something is wrong."""
    try:
        yield
    except HarnessError as error:
        error.cause = f"at {named(point)}: {error.cause}"
        raise
