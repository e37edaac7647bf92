"""What a sweep leaves: maps and a table on the terminal, pictures, and the best fields as a preset.

What the numbers say is told in `edit_harness_plugins.commands.studies.sweep.landscape`; here it gets out.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edit_harness import durable
from edit_harness.errors import ResourceError
from edit_harness.registry import settings as fields
from edit_harness.registry.settings import shape_of
from edit_harness.run.tuning import mark
from edit_harness.wording import counted
from edit_harness_plugins.commands.report import formats, heatmaps
from edit_harness_plugins.commands.run import console
from edit_harness_plugins.commands.run.preset_file import Tuned

from .landscape import Landscape

if TYPE_CHECKING:
    from .sweeping import Sweep


def say(label: str, text: str) -> None:
    """Print one labelled line on stderr."""
    console.err.print(formats.labelled(label, text, console.err.width))


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
    """Write the files that are asked for, and say where all is.

    Raises `ResourceError` if one cannot be written.
    """
    flags = todo.flags
    written = list(_written(todo, found))
    if flags.quiet:
        return
    for path in written:
        say("saved", path)
    say("runs", f"{flags.output_path}/")
    if flags.save_preset in written:
        console.err.print(f"next     {tested(todo)}", markup=False, highlight=False, soft_wrap=True)


def tested(todo: Sweep) -> str:
    """Return the command that tests the preset on the cases that it was not chosen by."""
    flags = todo.flags
    given: list[tuple[str, str | None]] = [
        ("--editor", todo.editor.name),
        ("--preset", flags.save_preset),
        ("--task", flags.task),
        *(("--task-args", f"{key}={value}") for key, value in flags.task_args.items()),
        ("--model", flags.model[0]),
        *(("--model-args", f"{key}={value}") for key, value in flags.model_args.items()),
        ("--limit", str(todo.before)),
    ]
    return shlex.join(["edit-harness", *(part for pair in given for part in pair if part)])


def _written(todo: Sweep, found: Landscape) -> Iterator[str]:
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
        yield flags.html
    if flags.png:
        heatmaps.image(found.maps(), Path(flags.png))
        yield flags.png
    if flags.save_preset and found.best:
        preset_of(todo, found).save(Path(flags.save_preset))
        yield flags.save_preset


def preset_of(todo: Sweep, found: Landscape) -> Tuned:
    """Return the best fields as a preset: all that were given or depend on the model."""
    assert found.best is not None
    best, model = found.best, todo.model
    manifest = best.run.manifest
    usual = fields.defaults(todo.editor.load())
    given = todo.given(best.point)
    values = manifest.identity.editor.fields.items()
    kept = {n: v for n, v in values if v is not None and (n in given or usual[n] is None)}
    return Tuned(
        editor=todo.editor.name,
        fields=kept,
        chosen=[axis.field for axis in todo.axes],
        rest=manifest.preset,
        model={
            "name": model.name,
            **vars(shape_of(model.module.config, model.source.family)),
            "digest": model.digest,
        },
        task=todo.flags.task,
        cases={case.id: mark(case) for case in todo.cases},
        points=len(todo.points),
        score={"name": found.score, **vars(best.score)},
    )
