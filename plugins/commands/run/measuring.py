"""The commands ``run``, ``edit``, ``try`` and ``prepare``, and their flags; each is imported when it is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from edit_harness.errors import UsageError
from edit_harness.registry.registry import Plugins
from edit_harness.run.options import flag
from edit_harness.run.spec import RunSpec, Selection
from edit_harness_plugins.command_line import SETTINGS, command, configure, takes, with_plugins

from .flags import EditingFlags, Options, RegimeFlags

EDITED = ("editor", "editor_args", "model")
SEED: dict[str, Any] = {"type": click.IntRange(0), "default": 0}
JSON: dict[str, Any] = {"default": False, "is_flag": True, "help": "Print JSON."}
COUNT = click.IntRange(1)


# fmt: off
@dataclass(frozen=True, kw_only=True)
class EditFlags(EditingFlags):
    """The flags of ``edit``."""

    requests: str | None = flag("--requests", metavar="FILE",
        help="JSON Lines: prompt, subject, target_new.")
    edit: Sequence[str] = flag("--edit", many=True, metavar="FILE",
        help="Edits that were saved, added up, instead of an editor.")
    save: str | None = flag("--save", metavar="FILE", help="Keep the edit, as safetensors.")
    save_model: str | None = flag("--save-model", metavar="DIR",
        help="Keep the edited model, for transformers.")
    save_adapter: str | None = flag("--save-adapter", metavar="DIR",
        help="Keep the edit as a LoRA of PEFT.")
    rank: int | None = flag("--rank", type=COUNT, metavar="N",
        help="Of --save-adapter: the nearest LoRA of at most this rank.")
    seed: int = flag("--seed", **SEED)
    as_json: bool = flag("--json", **JSON)


@dataclass(frozen=True, kw_only=True)
class TryFlags(EditingFlags):
    """The flags of ``try``."""

    prompt: str | None = flag("--prompt", metavar="TEXT",
        help="With {} for the subject: '{} lives in'.")
    subject: str | None = flag("--subject", metavar="TEXT")
    target: str | None = flag("--target", metavar="TEXT", help="The new object.")
    edit: str | None = flag("--edit", metavar="FILE",
        help="An edit that was saved, instead of an editor.")
    ask: Sequence[str] = flag("--ask", many=True, metavar="TEXT",
        help="Another prompt to look at; may be repeated.")
    max_new_tokens: int = flag("--max-new-tokens", type=COUNT, default=20)
    as_json: bool = flag("--json", **JSON)


@dataclass(frozen=True, kw_only=True)
class PrepareFlags(EditingFlags):
    """The flags of ``prepare``; that without a text here is as other commands have it."""

    task: Sequence[str] = flag("-t", "--task", "--tasks", many=True, metavar="NAME",
        help="Fetch the data of tasks.")
    task_args: Mapping[str, str] = flag("--task-args", args=True, help="Fields of the task.")
    corpus: str | None = flag("--corpus", metavar="FILE",
        help="Text, JSON Lines with a field text, or wikipedia.")
    tokens: int = flag("--tokens", type=COUNT, default=10_000_000,
        help="Stop after this many tokens.")
    max_length: int = flag("--max-length", type=COUNT, default=1024,
        help="Tokens of a text that are used.")
    imported: str | None = flag("--import", metavar="FILE",
        help="A statistic or network of an editor's authors.")
    data: str | None = flag("--data", metavar="NAME|FILE",
        help="What an editor is trained on, as mend is.")
# fmt: on


@command(context_settings=SETTINGS)
@takes(RunSpec, EditingFlags, RegimeFlags, Selection, Options)
@click.option(
    "--protocol", metavar="NAME", help="Of tasks of questions: teacher-forced, wild, both."
)
@click.option("-C", "--config", is_eager=True, expose_value=False, callback=configure,
              metavar="FILE", help="TOML or JSON with flags as keys.")  # fmt: skip
@with_plugins
def run(plugins: Plugins, protocol: str | None, **flags: Any) -> int:
    """Edit case by case, ask before and after; the same command again goes on."""
    from . import receipt

    if protocol:  # a field of some tasks, by a flag of its own
        if "protocol" in flags["task_args"]:
            raise UsageError("--protocol and --task-args protocol=... are both given", "give one")
        flags["task_args"] = {**flags["task_args"], "protocol": protocol}
    if (code := receipt.show(plugins, flags)) is not None:
        return code
    from . import running  # here, since torch comes with it

    return running.run(plugins, flags)


@command(context_settings=SETTINGS)
@takes(RunSpec, only=EDITED)
@takes(EditFlags)
@with_plugins
def edit(plugins: Plugins, **flags: Any) -> None:
    """Write all facts of a file into a model at once, and keep the result."""
    from . import editing

    editing.edit(plugins, EditFlags(**flags))


@command("try", context_settings=SETTINGS)
@takes(RunSpec, only=EDITED)
@takes(TryFlags)
@with_plugins
def try_(plugins: Plugins, **flags: Any) -> None:
    """Edit one fact, or take a saved edit, and see the model before and after."""
    from . import editing

    editing.try_edit(plugins, TryFlags(**flags))


@command(context_settings=SETTINGS)
@takes(RunSpec, only=EDITED)
@takes(PrepareFlags)
@with_plugins
def prepare(plugins: Plugins, **flags: Any) -> None:
    """Compute or fetch beforehand what run needs: second moments, data."""
    from . import preparing

    preparing.prepare(plugins, PrepareFlags(**flags))
