"""The flags of the command ``report``, which writes the numbers of runs down."""

from __future__ import annotations

from typing import Any

import click

from edit_harness.options import debug, interval, many, with_plugins
from edit_harness.registry.plugins import Plugins


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN…")
@click.option("--format", "form", type=click.Choice(["table", "markdown", "latex", "csv", "html"]),
              help="By default as the name of --out ends, or a table.")  # fmt: skip
@click.option("--out", metavar="FILE", help="Instead of printing it; - prints.")
@click.option("--layout", type=click.Choice(["runs", "paper"]), default="runs", show_default=True,
              help="One table of all runs, or the tables that papers print.")  # fmt: skip
@interval
@click.option("--figures", metavar="DIR", help="Draw the papers' figures there, as SVG and PNG.")
@many("--metrics", metavar="NAME", help="Instead of each run's own.")
@click.option("-v", "--verbose", is_flag=True, help="Every measure.")
@debug
@with_plugins
def report(plugins: Plugins, **flags: Any) -> int:
    """Write the numbers of runs down: as a table, for a paper, or as a page to explore."""
    from ..report import report as made

    return made.report(plugins, made.Flags(**flags))
