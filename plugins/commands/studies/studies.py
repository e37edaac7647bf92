"""The commands ``sweep``, ``trace`` and ``reproduce``, and their flags; each is imported when it is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from edit_harness.registry.registry import Plugins
from edit_harness.run.options import flag
from edit_harness.run.spec import RunSpec
from edit_harness_plugins import intervals
from edit_harness_plugins.command_line import SETTINGS, command, takes, with_plugins

from ..run.flags import EditingFlags, LoadingFlags, Options
from ..run.measuring import COUNT, JSON, SEED

HTML: dict[str, Any] = {"metavar": "FILE", "help": "Heat maps as a page."}
PNG: dict[str, Any] = {"metavar": "FILE", "help": "As .png, .svg or .pdf; needs matplotlib."}
QUIET: dict[str, Any] = {"default": False, "is_flag": True, "help": "Only the result."}


# fmt: off
@dataclass(frozen=True, kw_only=True)
class SweepFlags(EditingFlags):
    """The flags of ``sweep``."""

    task: str = flag("-t", "--task", default="counterfactplus", metavar="NAME")
    task_args: Mapping[str, str] = flag("--task-args", args=True, help="Fields of the task.")
    grid: Sequence[str] = flag("--grid", multiple=True, metavar="FIELD=V,V,…",
        help="Values of a field of the editor, of lists by semicolon; may be repeated.")
    layers: str | None = flag("--layers", metavar="all|0,1,…|3-8", help="Layers to edit.")
    tokens: str | None = flag("--tokens", metavar="NAME,…",
        help="Tokens to edit at: subject_first, subject_last, subject_first_after_last, last.")
    dev: int = flag("--dev", type=COUNT, default=100, metavar="N",
        help="Cases of the development split: the task's last ones.")
    measures: Sequence[str] = flag("--measures", many=True, metavar="NAME",
        help="What is mapped.", show_default="ES,PS,NS,S,RS, or the task's own")
    save_preset: str | None = flag("--save-preset", metavar="FILE",
        help="Write the best fields down.")
    html: str | None = flag("--html", **HTML)
    png: str | None = flag("--png", **PNG)
    seed: int = flag("--seed", **SEED)
    output: str = flag("-o", "--output", default="results/sweep", metavar="DIR",
        help="Where the points' run folders go.")
    quiet: bool = flag("-q", "--quiet", **QUIET)
    as_json: bool = flag("--json", **JSON)


@dataclass(frozen=True, kw_only=True)
class TraceFlags(LoadingFlags):
    """The flags of ``trace``."""

    model: Sequence[str]
    prompt: str | None = flag("--prompt", metavar="TEXT",
        help="With {} for the subject: '{} lives in'.")
    subject: str | None = flag("--subject", metavar="TEXT")
    target: str | None = flag("--target", metavar="TEXT",
        help="What is followed, instead of what the model answers.")
    task: str | None = flag("-t", "--task", metavar="NAME",
        help="Known facts of a task, instead of one fact.")
    task_args: Mapping[str, str] = flag("--task-args", args=True, help="Fields of the task.")
    limit: int | None = flag("-L", "--limit", type=COUNT, help="The first N known facts only.")
    kinds: Sequence[str] = flag("--kinds", many=True, metavar="NAME",
        default=["hidden", "mlp", "attention"], help="What is restored.",
        show_default="hidden,mlp,attention")
    window: int | None = flag("--window", type=COUNT, metavar="N",
        help="Layers restored at once, of mlp and attention; a fifth by default.")
    noise: float = flag("--noise", type=click.FloatRange(min=0, min_open=True), default=3.0,
        help="In standard deviations of embeddings.")
    noises: int = flag("--noises", type=COUNT, default=10, help="Draws of noise per fact.")
    html: str | None = flag("--html", **HTML)
    png: str | None = flag("--png", **PNG)
    seed: int = flag("--seed", **SEED)
    as_json: bool = flag("--json", **JSON)


@dataclass(frozen=True, kw_only=True)
class ReproduceFlags(LoadingFlags):
    """The flags of ``reproduce``; those without a text here are as other commands have them."""

    pack: str | None
    limit: int | None = flag("-L", "--limit", type=COUNT, help="The first N cases only.")
    model: Sequence[str] = flag("-m", "--model", "--models", many=True, metavar="NAME",
        help="Some of the pack's models.")
    executor: str
    executor_args: Mapping[str, str]
    output: str
    seed: int = flag("--seed", **SEED)
    interval: str
    listed: bool = flag("--list", default=False, is_flag=True,
        help="Name the papers' tables and figures, and how each is made again.")
    quiet: bool = flag("-q", "--quiet", **QUIET)
    as_json: bool = flag("--json", **JSON)
# fmt: on


@command(context_settings=SETTINGS)
@takes(RunSpec, only=["editor", "editor_args", "model"])
@takes(SweepFlags)
@with_plugins
def sweep(plugins: Plugins, **flags: Any) -> int:
    """Try an editor's fields on a grid, on a task's last cases, and map what comes of it."""
    from .sweep.sweep import sweep

    return sweep(plugins, SweepFlags(**flags))


@command(context_settings=SETTINGS)
@takes(RunSpec, only=["model"])
@takes(TraceFlags)
@with_plugins
def trace(plugins: Plugins, **flags: Any) -> int:
    """Find which hidden states carry a fact: causal tracing, layer by layer, token by token."""
    from .trace.trace import trace

    return trace(plugins, TraceFlags(**flags))


@command(context_settings=SETTINGS)
@click.argument("pack", required=False, metavar="[PACK]")
@takes(ReproduceFlags, only=["limit", "model"])
@takes(LoadingFlags)
@takes(Options, only=["executor", "executor_args", "output"])
@takes(ReproduceFlags, only=["seed"])
@intervals.option
@takes(ReproduceFlags, only=["listed", "quiet", "as_json"])
@with_plugins
def reproduce(plugins: Plugins, **flags: Any) -> int:
    """Run a paper's table again, and say which cells come out as printed."""
    from .reproduce.reproduce import reproduce

    return reproduce(plugins, ReproduceFlags(**flags))
