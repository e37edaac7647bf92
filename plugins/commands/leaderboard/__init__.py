"""The command ``leaderboard``: runs as bundles, bundles checked, and a page of them.

Nothing here believes a bundle. It is unpacked and parsed in a process within limits (`verify`), by checks
that have numbers (`checks`), and only then shown (`build`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from edit_harness.registry.registry import Plugins
from edit_harness.run.options import HELP
from edit_harness.run.spec import RunSpec
from edit_harness_plugins.command_line import (
    Command,
    as_json,
    many,
    takes,
    with_plugins,
    with_selection,
)

from ..run.flags import LoadingFlags


@click.group(context_settings=HELP)
def leaderboard() -> None:
    """Submit a run, verify bundles, and build the page that shows them."""


@leaderboard.command("submit", cls=Command)
@click.argument("run", metavar="RUN")
@click.option("-o", "--output", "out", metavar="FILE",
              help="The bundle, a .zip; by default named as the run.")  # fmt: skip
@click.option("--contact", required=True, metavar="TEXT", help="Who answers for it.")
@click.option("--licence", "--license", "licence", default="CC-BY-4.0", show_default=True,
              help="Of the submitted answers.")  # fmt: skip
@click.option("--source", default="", metavar="URL", help="Where the editor's code is.")
@click.option("--tuned-on", required=True, metavar="TEXT",
              help="What the editor's settings were chosen on; none, if on nothing; a preset's count.")  # fmt: skip
@many("--baseline", metavar="FILE", help="Before-edit values of a model that is not bundled.")
@with_plugins
def submit_command(plugins: Plugins, **flags: Any) -> int:
    """Make the bundle of a finished run that a leaderboard takes."""
    from . import submit

    return submit.submit(plugins, **flags)


@leaderboard.command("verify", cls=Command)
@click.argument("bundles", nargs=-1, required=True, metavar="BUNDLE…")
@click.option("--level", type=click.IntRange(0, 4), default=3, show_default=True,
              help="0 form, 1 data, 2 numbers, 3 plausibility, 4 cases run again.")  # fmt: skip
@many("--baseline", metavar="FILE", help="Before-edit values of a model that is not bundled.")
@click.option("--beacon", default="", metavar="TEXT",
              help="With --level 4: what nobody knew before the submission.")  # fmt: skip
@click.option("-k", "number", type=click.IntRange(1), default=300, show_default=True,
              help="With --level 4: cases that are run again.")  # fmt: skip
@click.option("-m", "--model", default="pocket", show_default=True, metavar="NAME",
              help="With --level 4: the run's model.")  # fmt: skip
@click.option("--seconds", type=click.FloatRange(0), default=3600.0, show_default=True,
              help="With --level 4: how long that may take for a bundle; 0 for no limit.")  # fmt: skip
@as_json
@with_selection
def verify_command(**flags: Any) -> int:
    """Check bundles; exit code 6 if one is rejected.

    Levels 0 to 3 use nothing but what is bundled here; plugins are for the editors of --level 4.
    """
    from . import verify

    return verify.verify(**flags)


@leaderboard.command("baseline", cls=Command)
@click.option("-t", "--task", default="counterfactplus", metavar="NAME", show_default=True)
@takes(RunSpec, only=["task_args"])
@click.option("-o", "--output", "out", required=True, metavar="FILE",
              help="The baseline, as JSON Lines.")  # fmt: skip
@click.option("-m", "--model", default="pocket", metavar="NAME", show_default=True,
              help="A bundled name, a folder or a hub name.")  # fmt: skip
@takes(LoadingFlags)
@with_plugins
def baseline_command(
    plugins: Plugins, model: str, task: str, task_args: Mapping[str, str], out: str, **flags: Any
) -> int:
    """Measure what a model says before any edit, for verify to compare with."""
    from . import submit

    return submit.measure(plugins, model, task, task_args, out, LoadingFlags(**flags))


@leaderboard.command("build", cls=Command)
@click.argument("folder", metavar="DIR")
@click.option("-o", "--output", "out", required=True, metavar="SITE",
              help="The folder of the pages.")  # fmt: skip
@click.option("--title", default="Knowledge editing", show_default=True)
@many("--baseline", metavar="FILE", help="Before-edit values of models that are not bundled.")
@click.option("--reports", metavar="DIR",
              help="What verify --level 4 --json printed: the badges of what was replayed.")  # fmt: skip
def build_command(**flags: Any) -> int:
    """Verify all bundles of a folder, and make a site of those that pass."""
    from . import build

    return build.build(**flags)
