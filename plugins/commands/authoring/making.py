"""``prepare``, ``build-data``, ``new``, ``check``: what runs and packages need beforehand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from edit_harness.options import (
    SETTINGS,
    as_json,
    debug,
    many,
    settings,
    takes,
    with_plugins,
    with_selection,
)
from edit_harness.registry.registry import Plugins
from edit_harness.run.spec import RunSpec

from ..run.flags import LoadingFlags, editing_flags


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


@click.command("build-data", context_settings=SETTINGS)
@click.argument("name", metavar="BUILDER")
@click.option("--triples", required=True, metavar="FILE",
              help="subject, relation, object: .jsonl, .csv, .tsv or .json.")  # fmt: skip
@click.option("--templates", metavar="FILE",
              help='JSON: {"P27": {"training": ["{} is a citizen of", …], "held_out": […]}, …}.')  # fmt: skip
@settings("--builder-args", help="Fields of the builder.")
@click.option("-m", "--model", default="", metavar="NAME", help="Only facts that it knows.",
              allow_from_autoenv=False)  # fmt: skip
@takes(LoadingFlags)
@click.option("-o", "--out", required=True, metavar="PATH", help="The file or folder to make.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--force", is_flag=True, help="Move aside what stands at --out, as PATH.old.")
@debug
@with_plugins
def build_data(plugins: Plugins, **flags: Any) -> None:
    """Make a benchmark's records from facts of one's own: see ls builders.

    Templates are prompts that end where the object begins, with {} for the subject: a fact is written
    and asked for in those of training, and rephrased in those of held_out.
    """
    from . import building

    building.build_data(plugins, building.Flags(**flags))


@click.command()
@click.argument("kind", type=click.Choice(["editor", "task", "metric", "judge", "command"]))
@click.argument("name")
@click.option("-o", "--out", default=".", show_default=True, metavar="DIR",
              help="Where the package's folder goes.")  # fmt: skip
@debug
@with_plugins
def new(plugins: Plugins, kind: str, name: str, out: str, debug: bool) -> None:
    """Write a package of an editor, a task, a metric, a judge or a command of one's own.

    It is edit-harness-NAME, and works as it is; a comment marks what makes it yours.
    """
    from . import creating

    creating.new(plugins, kind, name, Path(out))


@click.command(context_settings=SETTINGS)
@click.argument("distribution", metavar="PACKAGE")
@click.option("-k", "words", default="", metavar="WORDS", help="Only checks that have these words.")
@click.option("-L", "--limit", type=click.IntRange(1), default=10, show_default=True,
              metavar="N", help="Cases of a run.")  # fmt: skip
@click.option("--no-run", is_flag=True, help="Without a run on the bundled model.")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), default=120.0,
              show_default=True, metavar="S", help="How long a check may take.")  # fmt: skip
@as_json
@debug
@with_selection
def check(**flags: Any) -> int:
    """Try a package of plugins: its conformance suites, and a small run with it.

    A component without a suite is tried with its defaults. Exit code 6 if a check failed,
    and if something was not tried: a check that did not happen is not passed.
    """
    from . import checking

    return checking.check(checking.Flags(**flags))
