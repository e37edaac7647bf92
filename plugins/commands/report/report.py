"""The command ``report``: the numbers of runs as tables, for a paper, as a page or as figures.

Nothing is run: values are computed anew from what the folders have, which stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edit_harness.errors import ResourceError, UsageError
from edit_harness.files import put
from edit_harness.registry.registry import Plugins
from edit_harness.run.results import Run, reread
from edit_harness.shell.terminal import Terminal

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
    file = flags.out if flags.out != STDOUT else None
    if form == HTML and flags.layout == "runs":
        from . import page

        text = page.explore(runs, " | ".join(dict.fromkeys(run.label for run in runs)))
    elif form == TABLE and not file:
        text = ""
        for part in formats.rich(_grids(runs, form, flags), out.width):
            out.print(part)
    else:
        text = formats.FORMATS[form](_grids(runs, form, flags))
    if file:
        _write(Path(file).expanduser(), text)
        _say("saved", file)
    else:
        out.out(text, end="")
    if flags.figures:
        drawn, missing = figures.draw(runs, Path(flags.figures).expanduser())
        for label, found in (("saved", drawn), ("missing", missing)):
            for line in found:
                _say(label, line)
    return 0


def _say(label: str, text: object) -> None:
    err.print(f"{label:<9}{text}", markup=False, soft_wrap=True)


def _distinct(names: Sequence[str]) -> list[str]:
    """Return the names of folders, each folder once; say so of those that are named again."""
    found: dict[Path, str] = {}
    for name in names:
        if (path := Path(name).expanduser().resolve()) in found:
            _say("note", f"{name} is named twice")
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


def _grids(runs: Sequence[Run], form: str, flags: Flags) -> list[Grid]:
    """Return the tables of numbers, and behind them what the numbers are of."""
    if flags.layout == "paper":
        grids, missing = printed(runs)
        for line in missing:
            _say("missing", line)
    else:
        grids = layouts.of_runs(runs, verbose=flags.verbose)
    grids += [*layouts.besides(runs), layouts.sources(runs)]
    if form != TABLE or flags.verbose:
        grids.append(layouts.protocols(runs, flags.verbose))
    return grids


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all; a link, a pipe and a device stay what they are.

    Raises `ResourceError`.
    """
    data = text.encode("utf-8", "replace")
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            path.write_bytes(data)
        else:
            put(path, data)
    except OSError as error:
        raise ResourceError(
            f"{path} cannot be written: {error.strerror}", "name another place: --out FILE"
        ) from None
