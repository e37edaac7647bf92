"""From names and settings to plugins' objects, as far as it takes no model and no torch.

Models, editors and benchmarks are put together in `edit_harness.assembly`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from edit_harness.errors import PluginError
from edit_harness.fields import build, settings
from edit_harness.interfaces import Builder, Editor, Judge, Metric, ModelSource, Task
from edit_harness.packages import Package
from edit_harness.plugins import Component, Plugins

KIND: dict[str, type] = {
    "editor": Editor,
    "task": Task,
    "metric": Metric,
    "judge": Judge,
    "builder": Builder,
    "model": ModelSource,
}


@dataclass(frozen=True)
class Named:
    """A plugin's object with the name and version that the record of a run gives it."""

    name: str
    version: str
    value: Any
    package: Package | None = None
    """What registered it; None of an object that was given as such."""


def source_of(plugins: Plugins, name: str) -> ModelSource:
    """Return where a model comes from."""
    if any(name in (c.name, c.qualified) for c in plugins.of_kind("model")):
        return plugins.find("model", name).load()()
    return ModelSource(name)


def make_task(
    plugins: Plugins, task: str | Task, args: Mapping[str, Any], source: ModelSource, seed: int
) -> Named:
    """Build a task and bind it to the model's source."""
    if isinstance(task, Task):
        return Named(type(task).__name__.lower(), task.version, task.bind(source))
    component = plugins.find("task", task)
    made = build_component(component, args, seed)
    return Named(component.name, made.version, made.bind(source), component.package)


def make_judge(component: Component, args: Mapping[str, Any], seed: int) -> Named:
    """Build a judge."""
    made = build_component(component, args, seed)
    return Named(component.name, made.version, made, component.package)


def described(judge: Named) -> dict[str, Any]:
    """Return what a judge's verdicts depend on, JSON-ready."""
    said = settings(judge.value).items()
    return {
        "name": judge.name,
        "version": judge.version,
        "fields": {name: value for name, value in said if name not in judge.value.practical},
        "provenance": dict(judge.value.provenance),
        "note": judge.value.note,
    }


def build_component(component: Component, args: Mapping[str, Any], seed: int) -> Any:
    """Construct a plugin; the run's seed goes to a field of that name unless it is given."""
    factory = component.load()
    if not issubclass(factory, KIND[component.kind]):
        raise PluginError(
            f"{component.kind} {component.name!r} of {component.distribution} is no "
            f"{KIND[component.kind].__name__}",
            f"it has to be a subclass of edit_harness.{KIND[component.kind].__name__}",
        )
    names = [f.name for f in fields(factory)] if is_dataclass(factory) else []
    seeded = {"seed": seed, **args} if "seed" in names else args
    return build(factory, seeded, f"{component.kind} {component.name}")
