"""The command ``report``: the numbers of runs as tables, for a paper or as a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from edit_harness.errors import UsageError
from edit_harness.registry.registry import Plugins
from edit_harness_plugins import intervals, terminal
from edit_harness_plugins.command_line import command, many, with_plugins
from edit_harness_plugins.reading import reread

from . import contrast, formats, heatmaps, layouts, page, written
from .typesetting import printed


@command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN…")
@click.option("--format", "form", type=click.Choice(["table", "markdown", "latex", "csv", "html"]),
              help="By default as the name of --output ends, or a table.")  # fmt: skip
@click.option("-o", "--output", "out", metavar="FILE", help="Instead of printing it.")
@click.option("--layout", type=click.Choice(["runs", "paper"]), default="runs", show_default=True,
              help="One table of all runs, or the tables that papers print, and WILD's figure.")  # fmt: skip
@intervals.option
@many("--metrics", metavar="NAME", help="Instead of each run's own.")
@click.option("-v", "--verbose", is_flag=True, help="Every measure.")
@with_plugins
def report(
    plugins: Plugins,
    runs: Sequence[str],
    form: str | None,
    out: str | None,
    metrics: Sequence[str],
    **given: Any,
) -> None:
    """Write the numbers of runs down: as a table, for a paper, or as a page to explore."""
    drawn = out if not form and out and Path(out).suffix.lower() in heatmaps.IMAGES else ""
    form = "table" if drawn else _format(form, out)
    names = {Path(name).expanduser().resolve(): name for name in reversed(runs)}
    read = [
        replace(reread(plugins, name, metrics), estimated_by=intervals.KINDS[given["interval"]])
        for name in reversed(names.values())
    ]
    text = ""
    if form == "html" and given["layout"] == "runs":
        text = page.explore(read, " | ".join(dict.fromkeys(run.label for run in read)))
    else:
        if given["layout"] == "paper":
            grids, missing = printed(read)
            for line in [] if drawn else missing:
                terminal.err.print(f"missing  {line}", soft_wrap=True)
        else:
            grids = layouts.of_runs(read, verbose=given["verbose"])
        grids += [*layouts.besides(read), layouts.sources(read)]
        if drawn:
            contrast.write(grids, drawn)
        elif form == "table" and not out:
            terminal.out.print(*formats.rich(grids, terminal.out.width), sep="\n")
        else:
            text = formats.FORMATS[form](grids)
    if out and not drawn:
        # A link, a pipe and a device stay what they are.
        with written(out, "name another place: --output FILE"):
            Path(out).expanduser().write_bytes(text.encode("utf-8", "replace"))
    if not out:
        terminal.out.out(text, end="")
    else:
        terminal.err.print(f"saved    {out}", soft_wrap=True)


def _format(form: str | None, out: str | None) -> str:
    if form or not out:
        return form or "table"
    suffix = Path(out).suffix.lower()
    if suffix not in formats.NAMES:
        raise UsageError(
            f"the name {out} tells no format",
            f"end it with {', '.join(formats.NAMES)}, or use --format",
        )
    return formats.NAMES[suffix]
