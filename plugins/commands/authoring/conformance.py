"""Which checks there are of a package: for each thing in it a class of tests, for the command ``check``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import EntryPoint
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from edit_harness import evaluate
from edit_harness.errors import DataError, HarnessError, PluginError, UsageError
from edit_harness.folder.record import INVALID
from edit_harness.interfaces import Task
from edit_harness.registry.packages import Package
from edit_harness.registry.registry import Component, Plugins
from edit_harness.registry.settings import build_component, make_task, source_of
from edit_harness.run import report
from edit_harness.run.assembly import make_editor
from edit_harness.run.estimates import LEVEL
from edit_harness.testing import (
    EditorTests,
    JudgeTests,
    MetricTests,
    PluginTests,
    TaskTests,
    tiny_model,
)

from .builder_suite import BuilderTests

MODEL, TASK, EDITOR = "pocket", "counterfact", "ft"
"""What a package that brings no task or no editor is run with."""
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


def classes(name: str, limit: int, width: int) -> dict[str, type]:
    """Return the classes by what they are of, in the order in which they run; ``limit`` 0 is no run."""
    plugins = Plugins.installed()
    package = next(known for known in plugins.packages if known.name == name)
    made = dict(_of_package(package, plugins))
    own = [c for c in plugins.components if c.distribution == name]
    if any(c.kind == "editor" for c in own):
        tiny_model()  # so that no check's time is that of the imports
    suites: list[tuple[str, type]] = []
    for component in (c for c in own if c.kind == "suite"):
        try:
            suites.append((component.name, checked_suite(component.load())))
        except Exception as error:
            made[f"suite {component.name}"] = failing("names_what_it_tries", error)
    for component in (c for c in own if c.kind != "suite"):
        made |= _of_component(plugins, component, suites)
    tried = {each for tests in made.values() for each in tests.__bases__}
    made |= {f"suite {name}": tests for name, tests in suites if tests not in tried}
    for editor, task, metric in _runs(own, made) if limit else ():
        subject = f"run of {_short(editor)} on {_short(task if isinstance(task, str) else metric)}"
        given = {"editor": editor, "task": task, "metric": _short(metric)}
        made[subject] = type("Of", (RunTests,), {**given, "limit": limit, "width": width})
    return made


def _of_package(package: Package, plugins: Plugins) -> Iterator[tuple[str, type]]:
    """Yield the classes of the package's modules."""
    broken = {f.entry: f.reason for f in plugins.failures if f.package is package}
    for entry in package.entries:
        installable = isinstance(entry, EntryPoint)
        subject = f"plugin {entry.value if installable else package.name}"
        if reason := broken.get(entry.value):
            yield subject, failing("is_imported_and_registers", PluginError(reason))
        elif installable:
            yield subject, type("Of", (PluginTests,), {"plugin": entry.load()})


def _of_component(
    plugins: Plugins, component: Component, suites: Sequence[tuple[str, type]]
) -> Iterator[tuple[str, type]]:
    """Yield the classes of a component: the suites that its package has for it, or else a default."""
    subject, kind = f"{component.kind} {component.name}", component.kind
    imported: dict[str, Any] = {"component": component}
    try:
        factory = component.load()
        chosen = [(name, t) for name, t in suites if type(getattr(t, kind, None)) is factory]
        for name, tests in chosen:
            also = "" if name == component.name else f", suite {name}"
            yield subject + also, type("Of", (tests, ImportTests), imported)
        if not chosen and kind in SUITES:
            given = imported | default(plugins, component)
            yield subject, type("Of", (SUITES[kind], ImportTests), given)
        elif not chosen:
            yield subject, type("Of", (ImportTests,), imported)
    except (Exception, pytest.xfail.Exception) as error:
        yield subject, failing("can_be_tried_without_settings", error)


def failing(name: str, error: BaseException) -> type:
    """Return a class with one test, which raises an error; that of `pytest.xfail` is no failure."""

    def test(self: Any) -> None:
        raise error

    return type("Of", (), {f"test_{name}": test})


def checked_suite(tests: type) -> type:
    """Return a suite. Raises `PluginError` for a class that pytest takes for no class of tests."""
    if getattr(tests, "__init__") is not object.__init__:  # noqa: B009
        raise PluginError(f"{tests.__name__} has an __init__, and pytest leaves it out")
    return tests


def default(plugins: Plugins, component: Component) -> dict[str, Any]:
    """Return what the suite of a kind tries of a component without settings, or call `pytest.xfail`."""
    kind, name = component.kind, component.qualified
    if given := GIVEN.get(kind):
        pytest.xfail(
            f"no suite tries it: register one that names it and its {given} "
            "(edit_harness_register_suites)"
        )
    try:
        if kind == "task":
            tried = _task(plugins, name)
            next(iter(tried.cases()), None)
            return {"task": tried}
        if kind == "editor":
            make_editor(plugins, tiny_model(), name, {}, seed=0)
        found: dict[str, Any] = {kind: build_component(component, {}, seed=0)}
        if kind == "metric" and (task := _task_of(plugins, component)):
            return found | {"task": _task(plugins, task)}
    except HarnessError as error:
        pytest.xfail(f"{error}\nor register a suite that sets its fields")
    if kind == "metric" and not type("Of", (MetricTests,), found)().chosen():
        pytest.xfail(
            "no installed task names it, and it says nothing of made-up cases: register a suite "
            "with the metric and a task"
        )
    return found


def _task(plugins: Plugins, name: str) -> Task:
    """Return a task without settings, as it is put to the bundled model."""
    made: Task = make_task(plugins, name, {}, source_of(plugins, MODEL), 0).value
    return made


def _task_of(plugins: Plugins, metric: Component) -> str:
    """Return a task that names a metric, of its own package if there is one; empty if none does."""
    tasks = plugins.of_kind("task")
    for task in sorted(tasks, key=lambda t: t.distribution != metric.distribution):
        with suppress(PluginError):  # one that is broken names nothing
            if {metric.name, metric.qualified} & set(getattr(task.load(), "metrics", ())):
                return task.qualified
    return ""


def _runs(
    own: Sequence[Component], made: Mapping[str, Any]
) -> Iterator[tuple[str, str | Task, str]]:
    """Yield an editor, a task and a metric: the package's editors on its tasks, or its metrics on theirs."""
    editors, tasks = ([c.qualified for c in own if c.kind == kind] for kind in ("editor", "task"))
    if editors or tasks:
        yield from ((*pair, "") for pair in product(editors or [EDITOR], tasks or [TASK]))
        return
    for subject, tests in made.items():
        if subject.startswith("metric ") and (task := getattr(tests, "task", None)):
            yield EDITOR, task, tests.component.qualified


def _short(qualified: str) -> str:
    return qualified.rpartition("/")[2]


class ImportTests:
    """What every component must do."""

    component: Component

    def test_is_imported(self) -> None:
        """Its class is found, and of its kind."""
        self.component.load()


class RunTests:
    """A run of an editor on the first cases of a task."""

    editor: str
    task: str | Task
    metric: str
    """The one metric, if it is not the task's own ones."""
    limit: int
    width: int
    """Characters of a line of the table."""

    def test_ends_with_every_case_answered(
        self, tmp_path: Path, record_property: Callable[[str, Any], None]
    ) -> None:
        """What users do first with a package is a run."""
        given: dict[str, Any] = {"metrics": [self.metric]} if self.metric else {}
        try:
            run = evaluate(
                self.editor, self.task, MODEL, limit=self.limit, output=tmp_path, **given
            )
        except (DataError, UsageError) as error:  # data are missing, or the model is refused
            pytest.xfail(str(error))
        rows = [row for row in run.lines if not row.measure.detail] or run.lines
        table = report.render(report.single(rows, LEVEL), self.width)
        record_property("table", table.rstrip())
        failures = [record for record in run.failures if record.status != INVALID]
        assert not failures, (
            f"{len(failures)} of {len(run.records)} cases failed; case {failures[0].case}: "
            f"{failures[0].status}: {' '.join(str(failures[0].message).split())}"
        )
        assert len(run.failures) < len(run.records), "it has no case that can be used"
        assert not run.pending, f"{run.pending} texts have no verdict: {run.why_pending}"
