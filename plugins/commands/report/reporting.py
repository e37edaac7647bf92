"""The command ``report``: the numbers of runs as tables, for a paper, as a page or as figures.

Nothing is run: values are computed anew from what the folders have, which stay as they are.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edit_harness.errors import ResourceError, UsageError
from edit_harness.registry.registry import Plugins
from edit_harness.run.outcome import Run
from edit_harness.run.rereading import reread
from edit_harness.terminal import Terminal

from . import figures, formats, layouts
from .formats import Grid
from .typesetting import printed

TABLE, HTML = "table", "html"
STDOUT = "-"
"""The name of a file that means to print."""
out = Terminal(soft_wrap=False)
err = Terminal(stderr=True)


@dataclass(frozen=True, kw_only=True)
class Flags:
    """The flags of ``report``, as they were parsed."""

    runs: Sequence[str]
    form: str | None
    out: str | None
    layout: str
    interval: str
    figures: str | None
    metrics: Sequence[str]
    verbose: bool
    debug: bool


def report(plugins: Plugins, flags: Flags) -> int:
    """Write the runs down, and return the exit code."""
    form = _format(flags.form, flags.out)
    if flags.figures:
        figures.check()
    named = _distinct(flags.runs)
    runs = [replace(reread(plugins, n, flags.metrics), interval=flags.interval) for n in named]
    paged = form == HTML and flags.layout == "runs"
    grids = [] if paged else _grids(runs, form, flags)
    if flags.out and flags.out != STDOUT:
        text = _page(runs) if paged else formats.FORMATS[form](grids)
        _write(Path(flags.out).expanduser(), text)
        err.print(f"saved    {flags.out}", markup=False, soft_wrap=True)
    elif form == TABLE:
        for part in formats.rich(grids, out.width):
            out.print(part)
    else:
        out.out(_page(runs) if paged else formats.FORMATS[form](grids), end="")
    if flags.figures:
        _draw(runs, Path(flags.figures).expanduser())
    return 0


def _distinct(names: Sequence[str]) -> list[str]:
    """Return the names of folders, each folder once; say so of those that are named again."""
    found: dict[Path, str] = {}
    for name in names:
        if (path := Path(name).expanduser().resolve()) in found:
            err.print(f"note     {name} is named twice", markup=False, soft_wrap=True)
        found.setdefault(path, name)
    return list(found.values())


def _format(form: str | None, out: str | None) -> str:
    """Return the format that was named, or that a file's name ends with, or a table."""
    if form or not out or out == STDOUT:
        return form or TABLE
    suffix = Path(out).suffix.lower()
    if suffix not in formats.NAMES:
        raise UsageError(
            f"the name {out} tells no format",
            f"end it with {', '.join(formats.NAMES)}, or use --format",
        )
    return formats.NAMES[suffix]


def _page(runs: Sequence[Run]) -> str:
    from . import explorer as pages

    return pages.explore(runs, " | ".join(dict.fromkeys(run.label for run in runs)))


def _grids(runs: Sequence[Run], form: str, flags: Flags) -> list[Grid]:
    """Return the tables of numbers, and behind them what the numbers are of."""
    grids = (
        _paper(runs)
        if flags.layout == "paper"
        else list(layouts.of_runs(runs, verbose=flags.verbose))
    )
    grids += [*layouts.besides(runs), layouts.sources(runs)]
    if form != TABLE or flags.verbose:
        names = [line.name for run in runs for line in layouts.shown(run, flags.verbose)]
        grids.append(layouts.protocols(runs, names))
    return grids


def _paper(runs: Sequence[Run]) -> list[Grid]:
    """Return the papers' tables, and say which are left out."""
    grids, missing = printed(runs)
    for line in missing:
        err.print(f"missing  {line}", markup=False)
    return grids


def _write(path: Path, text: str) -> None:
    """Write a file: whole or not at all if it is new or a regular one, else through what is there.

    A link, a pipe and a device stay what they are. Raises `ResourceError`.
    """
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            _fill(path, text)
        else:
            _put(path, text)
    except OSError as error:
        raise ResourceError(
            f"{path} cannot be written: {error.strerror}", "name another place: --out FILE"
        ) from None


def _put(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        _fill(partial, text, sync=True)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _fill(path: Path, text: str, *, sync: bool = False) -> None:
    with open(path, "w", encoding="utf-8", errors="replace", newline="") as file:
        file.write(text)
        file.flush()
        if sync:
            os.fsync(file.fileno())


def _draw(runs: Sequence[Run], folder: Path) -> None:
    drawn, missing = figures.draw(runs, folder)
    for path in drawn:
        err.print(f"saved    {path}", markup=False, soft_wrap=True)
    for line in missing:
        err.print(f"missing  {line}", markup=False)
