"""The command ``sweep``: an editor's fields on a grid, on cases that are kept from the tests.

Every point of the grid is an ordinary run, in a folder of its own, which ``run`` would make too; what
points share is the model and its clean passes. Which combinations there are is told in
`edit_harness.grids`, what is made of the numbers in `edit_harness.landscape`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from edit_harness import (
    assembly,
    console,
    durable,
    evaluation,
    fields,
    formats,
    grids,
    guard,
    heatmaps,
    records,
)
from edit_harness.assembly import Benchmark
from edit_harness.cases import Case
from edit_harness.errors import HarnessError, ResourceError, UsageError
from edit_harness.evaluation import Evaluation
from edit_harness.flags import EditingFlags
from edit_harness.grids import Axis, Point, named
from edit_harness.interfaces import Measure
from edit_harness.landscape import Landscape
from edit_harness.model import Model
from edit_harness.outcome import Run
from edit_harness.plugins import Component, Plugins, suggestion
from edit_harness.presets import configure, shape_of
from edit_harness.running import DONE, SOME_FAILED, minutes, timed
from edit_harness.tuned import Tuned, mark
from edit_harness.wording import counted

BESIDE = 8
"""Points that are in memory at once, with what their editors hold, and share clean passes."""


@dataclass(frozen=True, kw_only=True)
class Flags(EditingFlags):
    """The flags of ``sweep``, as they were parsed."""

    task: str
    task_args: Sequence[str]
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
    for name in set(todo.names) - found.measures.keys():
        todo.left_out[name] = "no case has a value of it"
    show(todo, found)
    write(todo, found)
    sound = found.best is not None and all(run.sound for _, run in runs)
    return DONE if sound else SOME_FAILED


def check(flags: Flags) -> dict[str, str]:
    """Return what is asked of each field. Raises `UsageError` for flags that do not go together."""
    if len(flags.model) != 1 or len(flags.editor) != 1:
        raise UsageError("sweep takes one model and one editor")
    asked = grids.asked(flags.grid, flags.layers, flags.tokens)
    if len(asked) > 2 and flags.pictures:
        raise UsageError(
            f"{next(iter(flags.pictures))} draws one field or two, and the grid has {len(asked)}",
            "leave it out: the table and --json have all fields",
        )
    for name in fields.parse(flags.editor_args):
        if name in asked:
            raise UsageError(f"field {name} is in the grid and in --editor-args", "say it once")
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
    _ready: list[Evaluation] = field(default_factory=list)

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
        task_args = fields.parse(flags.task_args)
        benchmark = assembly.make_benchmark(plugins, flags.task, task_args, source, flags.seed)
        cases = split(benchmark, flags.dev)
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
                made = assembly.build_component(self.editor, self._given(point), self.flags.seed)
                configure(made, shape, self.editor.name).editor.check(self.model)
        for number, point in enumerate(self.points):
            with _told(point):
                made = self._assembled(point)
            self._ready += [made] * (number < BESIDE)
        self.measures = self._ready[0].measures
        self.names, self.left_out = mapped(self.plugins, self.flags, self.measures)

    def _given(self, point: Point) -> dict[str, Any]:
        given = {**fields.parse(self.flags.editor_args), **point}
        return self.flags.tuned.over(self.editor.name, given) if self.flags.tuned else given

    def _assembled(self, point: Point) -> Evaluation:
        return evaluation.assemble(
            self.plugins,
            self.model,
            self.benchmark,
            editor=self.editor.qualified,
            editor_args={**fields.parse(self.flags.editor_args), **point},
            samples=[case.id for case in self.cases],
            seed=self.flags.seed,
            tuned=self.flags.tuned,
        )

    def runs(self) -> Iterator[tuple[Point, Run]]:
        """Yield every point with its run, `BESIDE` of them side by side; what is there is read."""
        for start in range(0, len(self.points), BESIDE):
            group = self.points[start : start + BESIDE]
            assembled = self._ready if start == 0 else [self._assembled(point) for point in group]
            self._ready = []
            if len(self.points) > BESIDE and not self.flags.quiet:
                _line("points", f"{start + 1} to {start + len(group)} of {len(self.points)}")
            yield from zip(group, self._beside(assembled), strict=True)

    def _beside(self, assembled: Sequence[Evaluation]) -> list[Run]:
        folders = {each: each.open(Path(self.flags.output_path)) for each in assembled}
        try:
            with (
                guard.measuring(),
                console.progress(assembled, quiet=self.flags.quiet) as advance,
            ):
                return evaluation.run_beside(folders, advance)
        except BaseException:
            console.err.print(
                f"kept: what there is, in {self.flags.output_path}; continue with the same command"
            )
            raise

    def announce(self) -> None:
        """Print what is run."""
        _line("model", f"{self.model.name}  {self.model.precision}  {self.model.device}")
        first = self._ready[0]
        _line("editor", f"{self.editor.name}  ({self.editor.origin})  preset: {first.preset}")
        _line("grid", f"{counted(len(self.points), 'point')}: {'; '.join(map(str, self.axes))}")
        _line("task", f"{first.task.name} {first.task.version}  mode {first.regime}")
        _line("split", self.kept)
        for name, why in self.left_out.items():
            _line("no " + name, why)

    @property
    def kept(self) -> str:
        """Which cases the fields are tried on."""
        usable = sum(not case.problem for case in self.benchmark.cases)
        count = len(self.cases)
        return (
            f"the last {counted(count, 'case')} of {usable:,}; tests may have the first "
            f"{usable - count:,}: --limit {usable - count}"
        )


def split(benchmark: Benchmark, count: int) -> list[Case]:
    """Return the last cases of a task, since a limit leaves tests the first ones.

    Raises `UsageError` if they are more than half of those that can be used.
    """
    usable = [case for case in benchmark.cases if not case.problem]
    if len(usable) < 2 * count:
        raise UsageError(
            f"task {benchmark.task.name} has {counted(len(usable), 'case')}, and --dev {count} "
            "would leave fewer than that to test",
            f"--dev {len(usable) // 2} at most" if len(usable) > 1 else "take another task",
        )
    return usable[-count:]


def mapped(
    plugins: Plugins, flags: Flags, known: Mapping[str, Measure]
) -> tuple[list[str], dict[str, str]]:
    """Return which measures the runs have of those asked for, and why they have not the others.

    Raises `UsageError` for one that no metric has, and if none is left.
    """
    names = [name for name in flags.measures if name in known]
    missing = [name for name in flags.measures if name not in known]
    metrics = {c.name: _measures(c) for c in plugins.of_kind("metric")} if missing else {}
    left_out = {}
    for name in missing:
        having = [metric for metric, measures in metrics.items() if name in measures]
        if not having:
            every = [each for measures in metrics.values() for each in measures]
            raise UsageError(f"no metric has a measure {name!r}{suggestion(name, every)}",
                             f"the task has: {', '.join(known)}")  # fmt: skip
        left_out[name] = (
            f"left out: it is of metric {having[0]}, which the task as it is set does not have; "
            f"its fields may add it: edit-harness show {flags.task}"
        )
    if not names:
        raise UsageError("the task has none of --measures", f"it has: {', '.join(known)}")
    return names, left_out


def _measures(metric: Component) -> Mapping[str, Measure]:
    try:
        return cast(Mapping[str, Measure], getattr(metric.load(), "measures", {}))
    except HarnessError:  # one that is broken has none
        return {}


def rehearse(todo: Sweep) -> None:
    """Say how much there is to do, and run a few cases of the first point to say how long it takes."""
    edit, ask = timed(todo._ready[0])
    rows = len(todo.points) * len(todo.cases)
    console.out.print(
        f"dry run  {counted(len(todo.points), 'point')}, {counted(len(todo.cases), 'case')} each\n"
        f"         {edit:.2f} s an edit, {ask:.2f} s a case that is asked, "
        f"at most about {minutes(rows * (edit + ask))} in all"
    )


def show(todo: Sweep, found: Landscape) -> None:
    """Print maps, table and what follows from them, or all of it as JSON."""
    if todo.flags.as_json:
        console.out.out(json.dumps(data(todo, found), indent=1))
        return
    out = console.out
    if len(found.axes) == 2:
        for heat in found.maps():
            out.print(heatmaps.terminal(heat, out.width))
            out.print()
    title = f"{todo.editor.name} on {counted(len(todo.cases), 'development case')}"
    for part in formats.rich([found.table(title)], out.width):
        out.print(part)
    for label, text in found.conclusions:
        out.print(formats.labelled(label, text, out.width))


def data(todo: Sweep, found: Landscape) -> dict[str, Any]:
    """Return what was found, JSON-ready."""
    return {
        "editor": todo.editor.name,
        "task": todo.flags.task,
        "model": todo.model.name,
        "cases": [case.id for case in todo.cases],
        **found.data(),
        "left_out": todo.left_out,
    }


def write(todo: Sweep, found: Landscape) -> None:
    """Write the files that are asked for. Raises `ResourceError` if one cannot be written."""
    flags = todo.flags
    if flags.html:
        lines = [f"{label}: {text}" for label, text in (("split", todo.kept), *found.conclusions)]
        title = f"{todo.editor.name} on {todo.model.name}, {flags.task}"
        page = heatmaps.page(found.maps(), title, lines)
        try:
            durable.put(Path(flags.html), page.encode())
        except OSError as error:
            raise ResourceError(
                f"{flags.html} cannot be written: {error.strerror}", "name another file: --html"
            ) from None
    if flags.png:
        heatmaps.image(found.maps(), Path(flags.png))
    written = [*flags.pictures.values()]
    if flags.save_preset and found.best:
        preset_of(todo, found).save(Path(flags.save_preset))
        written.append(flags.save_preset)
    if not flags.quiet:
        for path in written:
            _line("saved", path)
        _line("runs", f"{flags.output_path}/")
        if flags.save_preset and found.best:
            _line("next", f"edit-harness --editor {todo.editor.name} --preset {flags.save_preset}")


def preset_of(todo: Sweep, found: Landscape) -> Tuned:
    """Return the best fields as a preset: all that were given or depend on the model."""
    assert found.best is not None
    best, model = found.best, todo.model
    manifest = best.run.manifest
    usual = fields.defaults(todo.editor.load())
    given = todo._given(best.point)
    values = manifest["identity"]["editor"]["fields"].items()
    kept = {n: v for n, v in values if v is not None and (n in given or usual[n] is None)}
    name = found.score if found.score in found.measures or not found.meaned else ""
    return Tuned(
        editor=todo.editor.name,
        fields=kept,
        chosen=[axis.field for axis in todo.axes],
        rest=manifest["preset"],
        model={
            "name": model.name,
            **vars(shape_of(model.module.config, model.source.family)),
            "digest": model.digest,
        },
        task=todo.flags.task,
        cases={case.id: mark(case) for case in todo.cases},
        points=len(todo.points),
        score={"name": name or f"mean of {', '.join(found.meaned)}", **vars(best.score)},
    )


@contextmanager
def _told(point: Point) -> Iterator[None]:
    """Say at which point something is wrong."""
    try:
        yield
    except HarnessError as error:
        error.cause = f"at {named(point)}: {error.cause}"
        raise


def _line(label: str, text: str) -> None:
    console.err.print(formats.labelled(label, text, console.err.width))
