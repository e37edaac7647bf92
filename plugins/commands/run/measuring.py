"""``run``, ``edit``, ``try``: models are edited, and their answers measured."""

from __future__ import annotations

from typing import Any

import click

from edit_harness.registry.registry import Plugins
from edit_harness.run.spec import RunSpec, Selection
from edit_harness.shell.options import (
    SETTINGS,
    as_json,
    configure,
    debug,
    many,
    takes,
    with_plugins,
)

from .flags import EditingFlags, Options, RegimeFlags, editing_flags


@click.command(context_settings=SETTINGS)
@takes(RunSpec, EditingFlags, RegimeFlags, Selection, Options)
@click.option("-C", "--config", is_eager=True, expose_value=False, callback=configure,
              metavar="FILE", help="TOML or JSON with flags as keys.")  # fmt: skip
@debug
@with_plugins
def run(plugins: Plugins, **flags: Any) -> int:
    """Edit case by case, ask before and after; the same command again goes on."""
    from . import running

    return running.run(plugins, flags)


@click.command(context_settings=SETTINGS)
@editing_flags
@click.option("--requests", required=True, metavar="FILE",
              help="JSON Lines: prompt, subject, target_new.")  # fmt: skip
@click.option("--save", metavar="FILE", help="Keep the edit, as safetensors.")
@click.option("--save-model", metavar="DIR", help="Keep the edited model, for transformers.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@as_json
@debug
@with_plugins
def edit(plugins: Plugins, **flags: Any) -> None:
    """Write all facts of a file into a model at once, and keep the result."""
    from . import editing

    editing.edit(plugins, editing.Flags(**flags))


@click.command("try", context_settings=SETTINGS)
@editing_flags
@click.option("--prompt", metavar="TEXT", help="With {} for the subject: '{} lives in'.")
@click.option("--subject", metavar="TEXT")
@click.option("--target", metavar="TEXT", help="The new object.")
@click.option("--edit", metavar="FILE", help="An edit that was saved, instead of an editor.")
@many("--ask", metavar="TEXT", help="Another prompt to look at; may be repeated.")
@click.option("--max-new-tokens", type=click.IntRange(1), default=20, show_default=True)
@as_json
@debug
@with_plugins
def try_(plugins: Plugins, **flags: Any) -> None:
    """Edit one fact, or take a saved edit, and see the model before and after."""
    from . import trying

    trying.try_edit(plugins, trying.Flags(**flags))
