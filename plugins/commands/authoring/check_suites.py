"""Which suite a component is checked with: one that its package registers, or a default.

A default tries the component as it is made without settings. What cannot be tried so is `NotTried`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from edit_harness.errors import HarnessError, PluginError
from edit_harness.interfaces import Task
from edit_harness.registry.registry import Component, Plugins
from edit_harness.registry.settings import build_component, make_task, source_of
from edit_harness.run.assembly import make_editor
from edit_harness.testing import (
    EditorTests,
    JudgeTests,
    MetricTests,
    TaskTests,
    tiny_model,
)

from .builder_suite import BuilderTests
from .check_reasons import NotTried
from .check_run import MODEL

SUITES: Mapping[str, type] = {
    "editor": EditorTests,
    "task": TaskTests,
    "metric": MetricTests,
    "judge": JudgeTests,
    "builder": BuilderTests,
}
"""The suite of each kind of component; its attribute of the kind's name is what it tries."""
GIVEN = {"judge": "replies", "builder": "material"}
"""What only the author of a component can give a suite."""


def tried_by(suite: type) -> tuple[str, Any]:
    """Return the kind of component that a suite tries, and the component.

    Raises `PluginError` if it is no suite, or names no component.
    """
    for kind, base in SUITES.items():
        if issubclass(suite, base):
            if not hasattr(suite, kind):
                raise PluginError(f"{suite.__name__} names no {kind}", f"{kind} = ...")
            return kind, getattr(suite, kind)
    known = ", ".join(base.__name__ for base in SUITES.values())
    raise PluginError(f"{suite.__name__} is no suite", f"make it a subclass of one of {known}")


def default(plugins: Plugins, component: Component) -> dict[str, Any]:
    """Return the attributes of the suite that tries a component without settings.

    Raises `NotTried` with the reason if it cannot be tried so.
    """
    if given := GIVEN.get(component.kind):
        raise NotTried(
            f"no suite tries it: register one that names it and its {given} "
            "(edit_harness_register_suites)"
        )
    try:
        return {
            "editor": _editor,
            "task": _task,
            "metric": _metric,
        }[component.kind](plugins, component)
    except HarnessError as error:
        raise NotTried(f"{error}\nor register a suite that sets its fields") from error


def _editor(plugins: Plugins, component: Component) -> dict[str, Any]:
    make_editor(plugins, tiny_model(), component.qualified, {}, seed=0)
    return {"editor": build_component(component, {}, seed=0)}


def _task(plugins: Plugins, component: Component) -> dict[str, Any]:
    task = bound(plugins, component)
    next(iter(task.cases()), None)
    return {"task": task}


def _metric(plugins: Plugins, component: Component) -> dict[str, Any]:
    task = next(naming(plugins, component), None)
    metric = build_component(component, {}, seed=0)
    if task is not None:
        return {"metric": metric, "task": bound(plugins, task)}
    given = {"metric": metric}
    if not type("Tried", (MetricTests,), given)().chosen():
        raise NotTried(
            "no installed task names it, and it says nothing of made-up cases: register a suite "
            "with the metric and a task"
        )
    return given


def bound(plugins: Plugins, task: Component) -> Task:
    """Return a task without settings, as it is put to the bundled model."""
    made: Task = make_task(plugins, task.qualified, {}, source_of(plugins, MODEL), 0).value
    return made


def naming(plugins: Plugins, metric: Component) -> Iterator[Component]:
    """Yield the tasks that name a metric, those of its own package first."""
    tasks = plugins.of_kind("task")
    for task in sorted(tasks, key=lambda t: t.distribution != metric.distribution):
        try:
            names = getattr(task.load(), "metrics", ())
        except PluginError:  # one that is broken names nothing
            continue
        if metric.name in names or metric.qualified in names:
            yield task
