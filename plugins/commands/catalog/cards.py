"""What is to be known of a component, as data: the content of the command ``show``.

How it looks on a terminal stands in `edit_harness_plugins.commands.catalog.listing`. Everything comes from what a component
says of itself; nothing here knows one by name, and no model is loaded.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING
from typing import Any

from edit_harness.errors import PluginError, UsageError
from edit_harness.interfaces import Control, Editor, Judge, Measure, Metric, Task
from edit_harness.registry.guard import blamed, named
from edit_harness.registry.registry import Component, Plugins, suggestion
from edit_harness.registry.settings import check_recordable, defaults, make_task, source_of

Content = dict[str, Any]
Tables = Mapping[str, Sequence[Mapping[str, Any]]]
EXAMPLES = {
    "editor": "edit-harness --editor {name}",
    "task": "edit-harness --task {name}",
    "control": "edit-harness --control {name}",
    "builder": "edit-harness build-data {name} --triples FILE --templates FILE --out PATH",
    "model": "edit-harness --model {name}",
    "pack": "edit-harness reproduce {name}",
}


def found(plugins: Plugins, name: str) -> list[Component]:
    """Return every component of a name, by kind. Raises `PluginError` if there is none."""
    named = [
        c for kind in plugins.kinds for c in plugins.of_kind(kind) if name in (c.name, c.qualified)
    ]
    if not named:
        known = [c.name for c in plugins.components]
        raise PluginError(
            f"nothing is called {name!r}{suggestion(name, known)}", "see: edit-harness ls"
        )
    return named


def card(plugins: Plugins, component: Component) -> Content:
    """Return what is to be known of a component; what it does not say is left out."""
    factory = component.load()
    if component.kind == "command":
        return {
            "summary": component.summary,
            "package": component.origin,
            "example": f"edit-harness {component.name} --help",
        }
    content: Content = {
        "summary": component.summary,
        "package": component.origin,
        "description": unwrapped(inspect.getdoc(factory) or ""),
        "citation": getattr(factory, "citation", ""),
        "needs": getattr(factory, "needs", ""),
    }
    with blamed(f"{named(component.kind, component.name, factory)} cannot be described", factory):
        for kind, described in OF_KIND.items():
            if issubclass(factory, kind):
                content |= described(plugins, factory)
        if hasattr(factory, "card"):
            content |= factory.card()
        fields = defaults(factory)
    # The fields of an adaptor are an edit's contents, not settings.
    if component.kind != "adaptor":
        content["fields"] = {name: _default(value) for name, value in fields.items()}
        check_recordable(component, content["fields"])
    example = EXAMPLES.get(component.kind, "")
    if component.kind == "metric":
        example = f"edit-harness --task {_task_of(plugins, component.name)} --metrics {{name}}"
    content["example"] = example.format(name=component.name)
    return {label: said for label, said in content.items() if said}


def _default(value: Any) -> Any:
    """Return a field's default, or in words where its value is from."""
    if value is MISSING:
        return "(has to be given)"
    return "(from the preset)" if value is None else value


def unwrapped(text: str) -> str:
    """Return a docstring with each paragraph on one line, for a terminal to wrap."""
    return "\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _editor(plugins: Plugins, factory: type[Editor]) -> Content:
    presets = {
        family: {**preset.values, "from": str(preset)} for family, preset in factory.presets.items()
    }
    return {"presets": presets}


def _metric(plugins: Plugins, factory: type[Metric]) -> Content:
    return {"measures": {name: facts(measure) for name, measure in factory.measures.items()}}


def _task_of(plugins: Plugins, metric: str) -> str:
    """Return a task that has a metric as its own, or a word in its place; a broken one has none."""
    for component in plugins.of_kind("task"):
        with suppress(PluginError):
            if metric in getattr(component.load(), "metrics", ()):
                return component.name
    return "TASK"


def _task(plugins: Plugins, factory: type[Task]) -> Content:
    summaries = {c.name: c.summary for c in plugins.of_kind("metric")}
    return {
        "version": factory.version,
        "protocol": factory.protocol,
        "data": dict(factory.dataset()),
        "regime": str(factory.regime),
        "judge": factory.judge,
        "metrics": {name: summaries.get(name, "not installed") for name in factory.metrics},
    }


def _judge(plugins: Plugins, factory: type[Judge]) -> Content:
    return {"version": factory.version, "kinds": dict(factory.kinds)}


def _control(plugins: Plugins, factory: type[Control]) -> Content:
    return {"version": factory.version, "takes": factory.takes, "note": factory.note}


OF_KIND: Mapping[type, Callable[[Plugins, Any], Content]] = {
    Editor: _editor,
    Metric: _metric,
    Task: _task,
    Judge: _judge,
    Control: _control,
}


def facts(measure: Measure) -> dict[str, Any]:
    """Return what a measure says of itself; an end of its range that is open is None."""
    return {
        "formula": measure.formula,
        "range": [limit if math.isfinite(limit) else None for limit in measure.limits],
        "unit": measure.unit,
        "better": measure.better,
        "probes": list(measure.probes),
        "source": measure.source,
        "detail": measure.detail,
    }


def composed(
    plugins: Plugins, name: str, settings: Mapping[str, str], model: str
) -> tuple[Task, Tables]:
    """Return a task as it is put to a model, and the tables of what its data are made of.

    Raises `UsageError` for the name of something else, and `DataError` for data that are not right.
    """
    kinds = [component.kind for component in found(plugins, name)]
    if "task" not in kinds:
        raise UsageError(
            f"{name} is of the kind {kinds[0]}, and only the data of a task have statistics",
            "see: edit-harness ls tasks",
        )
    task = make_task(plugins, name, settings, source_of(plugins, model), seed=0).value
    with blamed(f"{named('task', name, task)} failed to count its data", task):
        return task, task.composition()
