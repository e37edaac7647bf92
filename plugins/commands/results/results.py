"""``case``, ``score``, ``compare``, ``diff``, ``report``, ``repair``: what is done with runs that are there."""

from __future__ import annotations

from typing import Any

import click

from edit_harness.options import SETTINGS, as_json, debug, interval, many, takes, with_plugins
from edit_harness.registry.plugins import Plugins
from edit_harness.run.spec import RunSpec


@click.command()
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@many("--metrics", metavar="NAME", help="Instead of those that both runs have.")
@as_json
@debug
@with_plugins
def compare(plugins: Plugins, **flags: Any) -> int:
    """Test whether two runs differ, case by case, in what both measured."""
    from . import comparing

    return comparing.compare(plugins, comparing.Flags(**flags))


@click.command()
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@as_json
@debug
def diff(first: str, second: str, as_json: bool, debug: bool) -> int:
    """Say why two runs are different ones: settings, code, data, and which cases came out otherwise."""
    from . import differing

    return differing.diff(first, second, as_json)


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
    from ..report import reporting

    return reporting.report(plugins, reporting.Flags(**flags))


@click.command()
@click.argument("run", metavar="RUN")
@debug
def repair(run: str, debug: bool) -> int:
    """Move damaged lines of a run folder aside, so that the command that made it goes on."""
    from . import mending

    return mending.repair(run)


@click.command(context_settings=SETTINGS)
@click.argument("runs", nargs=-1, required=True, metavar="RUN…")
@many("--metrics", metavar="NAME", help="Instead of the run's own.")
@click.option("--judge", metavar="NAME", default="",
              help="Who judges what waits; another than the run's goes to a sibling folder.")  # fmt: skip
@takes(RunSpec, only=["judge_args"])
@click.option("-q", "--quiet", is_flag=True, help="Only the result.")
@click.option("-v", "--verbose", is_flag=True, help="Every measure in the table.")
@as_json
@debug
@with_plugins
def score(plugins: Plugins, **flags: Any) -> int:
    """Compute the numbers of run folders again, without a model; fill in verdicts."""
    from . import scoring

    return scoring.score(plugins, scoring.Flags(**flags))


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("case", metavar="ID")
@as_json
@debug
def case(run: str, case: str, as_json: bool, debug: bool) -> None:
    """Show one case of a run: what was written, asked and answered."""
    from edit_harness.folder.folder import RunFolder

    from . import viewing

    viewing.show_case(RunFolder.at(run), case, as_json)
