"""From lists of editors, tasks, models and seeds to runs: every combination of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields as fields_of
from itertools import product
from typing import Any

from edit_harness.errors import UsageError
from edit_harness.registry import settings as fields
from edit_harness.registry.registry import Component, Plugins
from edit_harness.run.spec import ModelRef, RunSpec
from edit_harness.shell.options import called

from .flags import EditingFlags, whole_number

COMBINED = ("editor", "editor_args", "task", "task_args", "model", "seed")


def combined(plugins: Plugins, given: Mapping[str, Any], flags: EditingFlags) -> list[RunSpec]:
    """Return the runs that the options of `RunSpec` ask for, those of one model and task in a row.

    Raises `HarnessError` for a name that there is not, or a setting that nobody has.
    """
    editors = [plugins.find("editor", name) for name in given["editor"]]
    tasks = [plugins.find("task", name) for name in given["task"]]
    for name in given["metrics"]:
        plugins.find("metric", name)
    editor_args = shared_settings(editors, given["editor_args"])
    task_args = shared_settings(tasks, given["task_args"])
    seeds = [whole_number(seed, "--seed takes numbers, by comma") for seed in given["seed"]]
    models = [ModelRef.split(name, flags.model_options)[0] for name in given["model"]]
    rest = {
        each.name: given[called(each)]
        for each in fields_of(RunSpec)
        if called(each) in given and each.name not in COMBINED
    }
    return [
        RunSpec(
            editor=editor.qualified,
            editor_args=editor_args[editor],
            task=task.qualified,
            task_args=task_args[task],
            model=model,
            seed=seed,
            **rest,
        )
        for model, task, seed, editor in product(models, tasks, seeds, editors)
    ]


def shared_settings(
    components: Sequence[Component], settings: Mapping[str, str]
) -> dict[Component, dict[str, str]]:
    """Give each component the settings that it has fields for; one alone must know them all.

    Raises `UsageError` for a setting that none of several has.
    """
    if len(components) == 1:
        return {components[0]: dict(settings)}
    known = {c: fields.field_types(c.load()) for c in components}
    for key in settings:
        if not any(key in names for names in known.values()):
            names = ", ".join(c.name for c in components)
            raise UsageError(f"none of {names} has a field {key!r}")
    return {c: {k: v for k, v in settings.items() if k in names} for c, names in known.items()}
