"""The flags of the command ``prepare``, which computes or fetches beforehand what runs need."""

from __future__ import annotations

from typing import Any

import click

from edit_harness.options import SETTINGS, debug, many, takes, with_plugins
from edit_harness.registry.plugins import Plugins
from edit_harness.run.spec import RunSpec

from ..run.flags import editing_flags


@click.command(context_settings=SETTINGS)
@editing_flags
@many("-t", "--task", "--tasks", "task", metavar="NAME", help="Fetch the data of tasks.")
@takes(RunSpec, only=["task_args"])
@click.option("--corpus", metavar="FILE", help="Text, JSON Lines with a field text, or wikipedia.")
@click.option("--tokens", type=click.IntRange(1), default=10_000_000, show_default=True,
              help="Stop after this many tokens.")  # fmt: skip
@click.option("--max-length", type=click.IntRange(1), default=1024, show_default=True,
              help="Tokens of a text that are used.")  # fmt: skip
@click.option(
    "--import", "imported", metavar="FILE", help="A statistic or network of an editor's authors."
)
@click.option("--data", metavar="NAME|FILE", help="What an editor is trained on, as mend is.")
@click.option("-y", "--yes", is_flag=True, help="Start without asking.")
@debug
@with_plugins
def prepare(plugins: Plugins, **flags: Any) -> None:
    """Compute or fetch beforehand what run needs: second moments, data."""
    from ..run import preparing

    preparing.prepare(plugins, preparing.Flags(**flags))
