"""``run``, ``edit``, ``try``: models are edited, and their answers measured."""

from __future__ import annotations

from typing import Any

import click

from edit_harness.interfaces import MODES
from edit_harness.options import (
    SETTINGS,
    as_json,
    configure,
    debug,
    editor_flags,
    executor_flags,
    judge_args,
    many,
    model_flags,
    with_plugins,
)
from edit_harness.registry.plugins import Plugins


@click.command(context_settings=SETTINGS)
@editor_flags
@many("-t", "--task", "--tasks", "task", default=["counterfactplus"], metavar="NAME",
       help="Tasks, by comma or repeated.", show_default="counterfactplus")  # fmt: skip
@click.option("--task-args", multiple=True, metavar="K=V,…", help="Fields of the task.")
@many("--metrics", metavar="NAME", help="Instead of the task's own.")
@model_flags
@click.option(
    "--edit-mode",
    type=click.Choice(MODES),
    help="How edits share the model; by default as the task says, mostly single.",
)
@click.option(
    "--edit-batch-size",
    "--num-edits",
    "edit_batch_size",
    metavar="N",
    help="Cases edited at once, or all.",
)
@click.option("--edit-conflicts", type=click.Choice(["keep", "drop"]), default="keep", show_default=True,
              help="Edits that share a model: what writes another object to one subject and relation.")  # fmt: skip
@many("--eval-at", metavar="WHEN", help="Of a sequence: each, end, numbers of cases.")
@click.option(
    "--judge", metavar="NAME", default="", help="Who judges texts; none leaves it to score."
)
@judge_args
@click.option("-L", "--limit", type=click.IntRange(1), help="The first N cases only.")
@many("--samples", metavar="ID", help="These cases only.")
@many("--seed", "seed", default=["0"], metavar="N", help="Seeds; one run for each.",
       show_default="0")  # fmt: skip
@click.option("--shard", metavar="I/N", help="One of N parts of the cases; merge joins them.")
@many("--control", metavar="NAME",
       help="What else the edited model is asked: text, lm_eval:TASK.")  # fmt: skip
@click.option(
    "--control-args",
    multiple=True,
    metavar="K=V,…",
    help="Settings of controls; sample=N single edits.",
)
@executor_flags
@click.option("-o", "--output-path", default="results", show_default=True, metavar="DIR",
              help="Where run folders go.")  # fmt: skip
@click.option("--on-error", type=click.Choice(["skip", "stop"]), default="skip",
              show_default=True, help="When a case fails.")  # fmt: skip
@click.option("--retry-failed", is_flag=True,
              help="Run again what failed and may not fail again.")  # fmt: skip
@click.option("--case-timeout", type=click.FloatRange(min=0, min_open=True), metavar="S",
              help="Seconds that a case may take.",
              show_default="10 times the median so far, 300 at least")  # fmt: skip
@click.option("--reload-on-leak", is_flag=True,
              help="Load the model anew and go on if an editor changes it.")  # fmt: skip
@click.option("--selfcheck", is_flag=True,
              help="Try first if cases come out the same twice and in another order.")  # fmt: skip
@click.option("--new", is_flag=True, help="Start a sibling of the run's folder.")
@click.option("-C", "--config", is_eager=True, expose_value=False, callback=configure,
              metavar="FILE", help="TOML or JSON with flags as keys.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would run, and how long.")
@click.option("-q", "--quiet", is_flag=True, help="Only the result.")
@click.option("-v", "--verbose", is_flag=True, help="Every measure in the table.")
@as_json
@debug
@with_plugins
def run(plugins: Plugins, **flags: Any) -> int:
    """Edit case by case, ask before and after; the same command again goes on."""
    from . import running

    return running.run(plugins, running.Flags(**flags))


@click.command(context_settings=SETTINGS)
@editor_flags
@model_flags
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
@editor_flags
@model_flags
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
