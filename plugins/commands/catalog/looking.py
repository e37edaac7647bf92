"""``ls``, ``plugins``, ``show``: what there is, without a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from edit_harness.errors import UsageError
from edit_harness.options import as_json, debug, settings, with_plugins, with_selection
from edit_harness.registry.registry import Plugins

SHOWN = ("editors", "tasks", "metrics", "judges", "controls", "builders", "models", "packs")
"""What is listed if nothing is named."""


@click.command("ls")
@click.argument("kinds", nargs=-1, metavar="[KIND]…")
@click.option("-o", "--output-path", default="results", help="Where run folders are.")
@as_json
@debug
@with_plugins
def list_(
    plugins: Plugins, kinds: tuple[str, ...], output_path: str, as_json: bool, debug: bool
) -> None:
    """List editors, tasks, metrics, judges, controls, builders, models, packs, and what is there else."""
    from . import listing

    listing.show_kinds(plugins, kinds or SHOWN, Path(output_path), as_json)


@click.command("plugins")
@click.option("--check", is_flag=True, help="Load each in a process of its own, within limits.")
@as_json
@debug
@with_selection
def plugins_(check: bool, as_json: bool, debug: bool) -> int:
    """Show what is installed, from where, how long it takes to load, and what is broken."""
    from . import inventory

    return inventory.check(as_json) if check else inventory.show(as_json)


@click.command()
@click.argument("name")
@click.option("--stats", is_flag=True, help="Count what a task's data are made of.")
@settings("--task-args", help="With --stats: the task's fields.")
@click.option("-m", "--model", default="", metavar="NAME",
              help="With --stats: whose sample, if it brings one.", show_default="pocket")  # fmt: skip
@as_json
@debug
@with_plugins
def show(
    plugins: Plugins,
    name: str,
    stats: bool,
    task_args: Mapping[str, str],
    model: str,
    as_json: bool,
    debug: bool,
) -> None:
    """Show the card of whatever `ls` lists: an editor, a task, a metric, a judge, a model, a pack."""
    from . import listing

    if stats:
        listing.show_composition(plugins, name, task_args, model or "pocket", as_json)
    elif task_args or model:
        raise UsageError("--task-args and --model say which data are counted", "add --stats")
    else:
        listing.show_card(plugins, name, as_json)
