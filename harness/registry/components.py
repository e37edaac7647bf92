"""From names and settings to plugins' objects, as far as it takes no model and no torch.

Models, editors and benchmarks are put together in `edit_harness.run.assembly`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, cast

from ..errors import PluginError, UsageError
from ..interfaces import Editor, Executor, Metric, ModelSource, Task
from .blame import blamed, named
from .fields import build, settings, unwritable
from .packages import Package
from .plugins import Component, Plugins

RECORDED = ("editor", "judge", "control")
"""The kinds whose fields go into the record of a run."""


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
        return cast(ModelSource, _made(plugins.find("model", name), {}))
    return ModelSource(name)


def make_task(
    plugins: Plugins, task: str | Task, args: Mapping[str, Any], source: ModelSource, seed: int
) -> Named:
    """Build a task and bind it to the model's source."""
    if isinstance(task, Task):
        name, made, package = type(task).__name__.lower(), task, None
    else:
        component = plugins.find("task", task)
        made = build_component(component, args, seed)
        name, package = component.name, component.package
    with blamed(f"{named('task', name, made)} failed to take the model's data", made):
        return Named(name, made.version, made.bind(source), package)


def make_metrics(plugins: Plugins, names: Iterable[str]) -> dict[str, Metric]:
    """Build metrics, by their names. Raises `UsageError` for one text."""
    if isinstance(names, str):
        raise UsageError(f"metrics is the text {names!r}", f"give a list: metrics=[{names!r}]")
    return {name: _made(plugins.find("metric", name), {}) for name in names}


def make_judge(component: Component, args: Mapping[str, Any], seed: int) -> Named:
    """Build a judge."""
    made = build_component(component, args, seed)
    return Named(component.name, made.version, made, component.package)


def described(part: Named) -> dict[str, Any]:
    """Return what a judge's verdicts or a control's numbers depend on, JSON-ready."""
    said = settings(part.value).items()
    return {
        "name": part.name,
        "version": part.version,
        "fields": {name: value for name, value in said if name not in part.value.practical},
        "provenance": dict(part.value.provenance),
        "note": part.value.note,
    }


def provenance(editor: Editor) -> dict[str, str]:
    """Return the digests of what an editor's edits depend on: of its parts also class and fields."""
    found = dict(editor.provenance)
    for number, part in enumerate(editor.parts, 1):
        fields = json.dumps(settings(part), sort_keys=True)
        made_of = {"fields": hashlib.sha256(fields.encode()).hexdigest(), **provenance(part)}
        name = f"{number}.{type(part).__name__.lower()}"
        found |= {f"{name}.{key}": value for key, value in made_of.items()}
    return found


def make_executor(plugins: Plugins, name: str, args: Mapping[str, Any]) -> Executor:
    """Return who runs the cases. Raises `PluginError` for no such name, `UsageError` for its settings."""
    made: Executor = _made(plugins.find("executor", name), args)
    return made


def build_component(component: Component, args: Mapping[str, Any], seed: int) -> Any:
    """Construct a plugin; the run's seed goes to a field of that name unless it is given."""
    factory = component.load()
    names = [f.name for f in fields(factory)] if is_dataclass(factory) else []
    return _made(component, {"seed": seed, **args} if "seed" in names else args)


def _made(component: Component, args: Mapping[str, Any]) -> Any:
    """Construct a plugin. Raises `PluginError` if it cannot be, or cannot be recorded."""
    factory, what = component.load(), f"{component.kind} {component.name}"
    with blamed(f"{named(component.kind, component.name, factory)} cannot be made", factory):
        made: Any = build(factory, args, what)
    check_recordable(component, settings(made))
    return made


def check_recordable(component: Component, values: Mapping[str, Any]) -> None:
    """Raise `PluginError` for a field's value that the record of a run would have, and cannot hold."""
    for field in unwritable(values) if component.kind in RECORDED else ():
        raise PluginError(
            f"{component.kind} {component.name} of {component.origin}: field {field} is a "
            f"{type(values[field]).__name__}, which is no JSON",
            "fields go into the record of a run: texts, numbers, lists; make the rest from them",
        )
