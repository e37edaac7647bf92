"""The specification of a run: the settings that decide its numbers, and which of its cases to run now.

The command line, the Python interface, points of a sweep, legs of a table and orders of workers all use
these classes. A setting is written once, here: every field made by `edit_harness.run.options.flag` is an
option of commands. How to carry a run out (device, executor, failures) is not part of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import click

from ..folder.manifest import Tuning
from ..interfaces import Control, Editor, Regime, Task
from .options import flag

if TYPE_CHECKING:
    from .evaluation import Share


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """The settings of loading a model that decide numbers, but for its name."""

    revision: str | None = None
    dtype: str = flag("--dtype", default="float32", help="Other than float32 is a preview.")
    chat_template: bool = flag(
        "--chat-template",
        default=False,
        is_flag=True,
        help="Prompts as a user's message: another protocol.",
    )


@dataclass(frozen=True)
class ModelRef(ModelSettings):
    """A model by its name: a registered one, a folder, or a name on the hub."""

    name: str = "pocket"

    @classmethod
    def split(cls, name: str, options: Mapping[str, Any]) -> tuple[ModelRef, dict[str, Any]]:
        """Return a model, and the other arguments of loading, from arguments of `edit_harness_plugins.loading.load`."""
        known = {each.name for each in fields(ModelSettings)}
        own = {key: value for key, value in options.items() if key in known}
        return cls(name=name, **own), {k: v for k, v in options.items() if k not in known}

    @property
    def options(self) -> dict[str, Any]:
        """Its part of these arguments."""
        return {key: value for key, value in asdict(self).items() if key != "name"}


@dataclass(frozen=True)
class RunSpec:
    """One run: one editor on one task's cases, of one model, with one seed.

    Settings of plugins are values, or texts as typed.
    """

    editor: str | Editor = flag(
        "-e", "--editor", "--editors", default="rome", each=True, metavar="NAME",
        help="Editors, by comma or repeated.",
    )  # fmt: skip
    editor_args: Mapping[str, Any] = flag("--editor-args", args=True, help="Fields of the editor.")
    task: str | Task = flag(
        "-t", "--task", "--tasks", default="counterfactplus", each=True, metavar="NAME",
        help="Tasks, by comma or repeated.",
    )  # fmt: skip
    task_args: Mapping[str, Any] = flag("--task-args", args=True, help="Fields of the task.")
    model: ModelRef | None = flag(
        "-m", "--model", "--models", default=None, given="pocket", each=True, metavar="NAME",
        help="Bundled names, folders or hub names.",
    )  # fmt: skip
    """None for a model in memory."""
    metrics: Sequence[str] = flag(
        "--metrics", many=True, metavar="NAME", help="Instead of the task's own."
    )
    judge: str = flag(
        "--judge", default="", metavar="NAME", help="Who judges texts; none leaves it to score."
    )
    """Empty for the task's default."""
    judge_args: Mapping[str, Any] = flag("--judge-args", args=True, help="Fields of the judge.")
    controls: Sequence[str | Control] = flag(
        "--control", many=True, dest="control", metavar="NAME",
        help="What else the edited model is asked: text, lm_eval:TASK.",
    )  # fmt: skip
    control_args: Mapping[str, Any] = flag(
        "--control-args", args=True, help="Settings of controls; sample=N single edits."
    )
    seed: int = flag("--seed", default=0, each=True, metavar="N", help="Seeds; one run for each.")
    regime: Regime | None = None
    """None for the task's default."""
    preset: str = ""
    """Where the editor's settings come from, if the user did not type them."""
    tuned: Tuning | None = None
    """By which cases a sweep found them, if one did."""


@dataclass(frozen=True)
class Selection:
    """Which cases of a run to run now; a later command may add more."""

    limit: int | None = flag(
        "-L", "--limit", type=click.IntRange(1), help="The first N cases only."
    )
    samples: Sequence[str] = flag("--samples", many=True, metavar="ID", help="These cases only.")
    """Ids; they override the limit."""
    share: Share | None = flag(
        "--shard",
        dest="shard",
        metavar="I/N",
        help="One of N parts of the cases; merge joins them.",
    )
    """The shard to run here, if not all."""


ALL = Selection()
