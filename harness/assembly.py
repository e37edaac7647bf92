"""From names and settings to plugins' objects: models, tasks and editors, built and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from edit_harness import loading
from edit_harness.fields import build
from edit_harness.interfaces import Editor, ModelSource, Task
from edit_harness.model import Model
from edit_harness.plugins import Component, Plugins
from edit_harness.presets import Configured, configure, shape_of


@dataclass(frozen=True)
class Named:
    """A plugin's object with the name and version that the record of a run gives it."""

    name: str
    version: str
    value: Any


def load(plugins: Plugins, name: str, **options: Any) -> Model:
    """Load a model by a registered name, or else by folder or hub name."""
    return loading.load(source_of(plugins, name), **options)


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
    return Named(component.name, made.version, made.bind(source))


def make_editor(
    plugins: Plugins, model: Model, editor: str | Editor, args: Mapping[str, Any], seed: int
) -> tuple[Named, Configured]:
    """Build an editor, fill its fields for the model, and prepare it."""
    if isinstance(editor, Editor):
        name, version, made = type(editor).__name__.lower(), "", editor
    else:
        component = plugins.find("editor", editor)
        name, version = component.name, f"{component.distribution} {component.version}"
        made = build_component(component, args, seed)
    configured = configure(made, shape_of(model.module.config, model.source.family), name)
    configured.editor.check(model)
    configured.editor.prepare(model)
    return Named(name, version, configured.editor), configured


def build_component(component: Component, args: Mapping[str, Any], seed: int) -> Any:
    """Construct a plugin; the run's seed goes to a field of that name unless it is given."""
    factory = component.load()
    names = [f.name for f in fields(factory)] if is_dataclass(factory) else []
    seeded = {"seed": seed, **args} if "seed" in names else args
    return build(factory, seeded, f"{component.kind} {component.name}")
