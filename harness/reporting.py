"""The command ``report``: the numbers of runs as tables, for a paper, as a page or as figures.

Nothing is run: values are computed anew from what the folders have, which stay as they are.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edit_harness import console, figures, formats, layouts
from edit_harness.errors import ResourceError, UsageError
from edit_harness.formats import Grid
from edit_harness.outcome import Run
from edit_harness.plugins import Plugins
from edit_harness.rereading import reread
from edit_harness.typesetting import printed

TABLE, HTML = "table", "html"


@dataclass(frozen=True, kw_only=True)
class Flags:
    """The flags of ``report``, as they were parsed."""

    runs: Sequence[str]
    form: str | None
    out: str | None
    layout: str
    figures: str | None
    metrics: Sequence[str]
    verbose: bool
    debug: bool


def report(plugins: Plugins, flags: Flags) -> int:
    """Write the runs down, and return the exit code."""
    form = _format(flags.form, flags.out)
    if flags.figures:
        figures.check()
    runs = [reread(plugins, name, flags.metrics) for name in flags.runs]
    paged = form == HTML and flags.layout == "runs"
    grids = [] if paged else _grids(runs, form, flags)
    if flags.out:
        text = _page(runs) if paged else formats.FORMATS[form](grids)
        _write(Path(flags.out).expanduser(), text)
        console.err.print(f"saved    {flags.out}", markup=False, soft_wrap=True)
    elif form == TABLE:
        for part in formats.rich(grids, console.out.width):
            console.out.print(part)
    else:
        console.out.out(_page(runs) if paged else formats.FORMATS[form](grids), end="")
    if flags.figures:
        _draw(runs, Path(flags.figures).expanduser())
    return 0


def _format(form: str | None, out: str | None) -> str:
    """Return the format that was named, or that a file's name ends with, or a table."""
    if form or not out:
        return form or TABLE
    suffix = Path(out).suffix.lower()
    if suffix not in formats.NAMES:
        raise UsageError(
            f"the name {out} tells no format",
            f"end it with {', '.join(formats.NAMES)}, or use --format",
        )
    return formats.NAMES[suffix]


def _page(runs: Sequence[Run]) -> str:
    from edit_harness import pages

    return pages.explore(runs, " | ".join(dict.fromkeys(run.label for run in runs)))


def _grids(runs: Sequence[Run], form: str, flags: Flags) -> list[Grid]:
    """Return the tables of numbers, and behind them what the numbers are of."""
    grids = (
        _paper(runs)
        if flags.layout == "paper"
        else list(layouts.of_runs(runs, verbose=flags.verbose))
    )
    grids.append(layouts.sources(runs))
    if form != TABLE or flags.verbose:
        names = [line.name for run in runs for line in layouts.shown(run, flags.verbose)]
        grids.append(layouts.protocols(runs, names))
    return grids


def _paper(runs: Sequence[Run]) -> list[Grid]:
    """Return the papers' tables, and say which are left out."""
    grids, missing = printed(runs)
    for line in missing:
        console.err.print(f"missing  {line}", markup=False)
    return grids


def _write(path: Path, text: str) -> None:
    """Put a file into place, whole or not at all. Raises `ResourceError`."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(partial, "w", encoding="utf-8", errors="replace", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise ResourceError(
            f"{path} cannot be written: {error.strerror}", "name another place: --out FILE"
        ) from None


def _draw(runs: Sequence[Run], folder: Path) -> None:
    drawn, missing = figures.draw(runs, folder)
    for path in drawn:
        console.err.print(f"saved    {path}", markup=False, soft_wrap=True)
    for line in missing:
        console.err.print(f"missing  {line}", markup=False)
