"""What a run is: the settings that decide its numbers, and which of its cases are run now.

The command line, the Python interface, points of a sweep and orders of workers are all made of these. How a run is carried out (device, executor, failures) is no part of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..folder.manifests import Tuning
from ..interfaces import Control, Editor, Regime, Task
from .shares import Share

OF_MODEL = ("revision", "dtype", "chat_template")
"""The arguments of `edit_harness.loading.loading.load` that decide numbers."""


@dataclass(frozen=True)
class Chosen:
    """A plugin, by its name or as an object, with its settings as the user gave them."""

    plugin: Any
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelRef:
    """A model by its name: a registered one, a folder, or a name on the hub."""

    name: str
    revision: str | None = None
    dtype: str = "float32"
    chat_template: bool = False

    @classmethod
    def split(cls, name: str, options: Mapping[str, Any]) -> tuple[ModelRef, dict[str, Any]]:
        """Return a model, and how it is loaded, from arguments of `edit_harness.loading.loading.load`."""
        own = {key: value for key, value in options.items() if key in OF_MODEL}
        return cls(name, **own), {k: v for k, v in options.items() if k not in own}

    @property
    def options(self) -> dict[str, Any]:
        """Its own part of these arguments."""
        return {name: getattr(self, name) for name in OF_MODEL}


@dataclass(frozen=True)
class RunSpec:
    """One run: one editor on one task's cases, of one model, with one seed."""

    editor: Chosen
    """An `edit_harness.Editor`, or its name."""
    task: Chosen
    """An `edit_harness.Task`, or its name."""
    model: ModelRef | None
    """None of a model that is in memory only."""
    metrics: tuple[str, ...] = ()
    """Empty for the task's own."""
    judge: Chosen = field(default_factory=lambda: Chosen(""))
    """Empty for the task's own; ``none`` is no judge."""
    controls: tuple[str | Control, ...] = ()
    control_settings: Mapping[str, Any] = field(default_factory=dict)
    regime: Regime | None = None
    """None for the task's own."""
    seed: int = 0
    preset: str = ""
    """Where the editor's settings come from, if not from who typed them."""
    tuned: Tuning | None = None
    """By which cases they were found, if a sweep has found them: see `edit_harness.run.tuning`."""

    @classmethod
    def of(
        cls,
        editor: str | Editor,
        task: str | Task,
        *,
        editor_args: Mapping[str, Any] | None = None,
        task_args: Mapping[str, Any] | None = None,
        metrics: Sequence[str] | None = None,
        judge: str = "",
        judge_args: Mapping[str, Any] | None = None,
        controls: Sequence[str | Control] = (),
        control_args: Mapping[str, Any] | None = None,
        model: ModelRef | None = None,
        **more: Any,
    ) -> RunSpec:
        """Return a run from settings as they are typed; ``more`` are the other fields."""
        return cls(
            editor=Chosen(editor, editor_args or {}),
            task=Chosen(task, task_args or {}),
            model=model,
            # One text is told where metrics are made.
            metrics=metrics if isinstance(metrics, str) else tuple(metrics or ()),  # type: ignore[arg-type]
            judge=Chosen(judge, judge_args or {}),
            controls=tuple(controls),
            control_settings=control_args or {},
            **more,
        )


@dataclass(frozen=True)
class Selection:
    """Which cases of a run are run now; a later command may go on with more."""

    limit: int | None = None
    samples: tuple[str, ...] = ()
    """Ids; they win over the limit."""
    share: Share | None = None
    """The part of the plan that is made here, if not all of it."""


ALL = Selection()
