"""``sweep``, ``trace``, ``reproduce``: many runs for one picture or one table."""

from __future__ import annotations

from typing import Any

import click

from edit_harness.options import (
    SETTINGS,
    as_json,
    debug,
    flags,
    interval,
    many,
    takes,
    with_plugins,
)
from edit_harness.registry.registry import Plugins
from edit_harness.run.spec import RunSpec

from ..run.flags import LoadingFlags, Options, editing_flags, model_flags

pictures = flags(
    click.option("--html", metavar="FILE", help="Heat maps as a page."),
    click.option("--png", metavar="FILE", help="Heat maps as an image; needs matplotlib."),
)
seed = click.option("--seed", type=click.IntRange(0), default=0, show_default=True)


@click.command(context_settings=SETTINGS)
@editing_flags
@click.option("-t", "--task", default="counterfactplus", show_default=True, metavar="NAME")
@takes(RunSpec, only=["task_args"])
@click.option("--grid", multiple=True, metavar="FIELD=V,V,…",
              help="Values of a field of the editor, of lists by semicolon; may be repeated.")  # fmt: skip
@click.option("--layers", metavar="all|0,1,…|3-8", help="Layers to edit.")
@click.option("--tokens", metavar="NAME,…",
              help="Tokens to edit at: subject_first, subject_last, subject_first_after_last, last.")  # fmt: skip
@click.option("--dev", type=click.IntRange(1), default=100, show_default=True, metavar="N",
              help="Cases of the development split: the task's last ones.")  # fmt: skip
@many("--measures", metavar="NAME", help="What is mapped.",
       show_default="ES,PS,NS,RS, or the task's own")  # fmt: skip
@click.option("--save-preset", metavar="FILE", help="Write the best fields down.")
@pictures
@seed
@click.option("-o", "--output-path", default="results/sweep", show_default=True, metavar="DIR",
              help="Where the points' run folders go.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would run.")
@click.option("-q", "--quiet", is_flag=True, help="Only the result.")
@as_json
@debug
@with_plugins
def sweep(plugins: Plugins, **flags: Any) -> int:
    """Try an editor's fields on a grid, on a task's last cases, and map what comes of it."""
    from .sweep import sweeping

    return sweeping.sweep(plugins, sweeping.Flags(**flags))


@click.command(context_settings=SETTINGS)
@model_flags
@click.option("--prompt", metavar="TEXT", help="With {} for the subject: '{} lives in'.")
@click.option("--subject", metavar="TEXT")
@click.option("--target", metavar="TEXT",
              help="What is followed, instead of what the model answers.")  # fmt: skip
@click.option("-t", "--task", metavar="NAME", help="Known facts of a task, instead of one fact.")
@takes(RunSpec, only=["task_args"])
@click.option("-L", "--limit", type=click.IntRange(1), help="The first N known facts only.")
@many("--kinds", metavar="NAME", default=["hidden", "mlp", "attention"],
       help="What is restored.", show_default="hidden,mlp,attention")  # fmt: skip
@click.option("--window", type=click.IntRange(1), metavar="N",
              help="Layers restored at once, of mlp and attention; a fifth by default.")  # fmt: skip
@click.option("--noise", type=click.FloatRange(min=0, min_open=True), default=3.0,
              show_default=True, help="In standard deviations of embeddings.")  # fmt: skip
@click.option("--samples", type=click.IntRange(1), default=10, show_default=True,
              help="Noises per fact.")  # fmt: skip
@pictures
@seed
@as_json
@debug
@with_plugins
def trace(plugins: Plugins, **flags: Any) -> int:
    """Find which hidden states carry a fact: causal tracing, layer by layer, token by token."""
    from .trace import tracing

    return tracing.trace(plugins, tracing.Flags(**flags))


@click.command(context_settings=SETTINGS)
@click.argument("pack", required=False, metavar="[PACK]")
@click.option("--list", "list_", is_flag=True, help="Packs, and what each cannot match.")
@click.option("-L", "--limit", type=click.IntRange(1), help="The first N cases only.")
@many("-m", "--model", "--models", "model", metavar="NAME", help="Some of the pack's models.")
@takes(LoadingFlags)
@takes(Options, only=["executor", "executor_args", "output_path"])
@seed
@interval
@click.option("-q", "--quiet", is_flag=True, help="Only the result.")
@as_json
@debug
@with_plugins
def reproduce(plugins: Plugins, **flags: Any) -> int:
    """Run a paper's table again, and say which cells come out as printed."""
    from .reproduce import reproducing

    return reproducing.reproduce(plugins, reproducing.Flags(**flags))
