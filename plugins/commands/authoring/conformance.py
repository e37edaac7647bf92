"""Which checks there are of a package: for each thing in it a class of tests, for the command ``check``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from edit_harness import evaluate
from edit_harness.errors import DataError, PluginError, UsageError
from edit_harness.folder.record import INVALID
from edit_harness.interfaces import Task
from edit_harness.registry.registry import Component, Plugins
from edit_harness.registry.settings import build_component, make_task, source_of
from edit_harness.run.assembly import make_editor
from edit_harness.testing import (
    EditorTests,
    JudgeTests,
    MetricTests,
    PluginTests,
    TaskTests,
    tiny_model,
)

from ..report.facts import why_pending
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
SUITE = "register a suite that sets what it needs: edit_harness_register_suites"
GIVEN = {"judge": "replies", "builder": "material"}
"""What only the author of a component can give a suite."""


def classes(name: str, limit: int) -> dict[str, type]:
    """Return the classes by what they are of, in the order in which they run; ``limit`` 0 is no run."""
    plugins = Plugins.installed()
    package = next(known for known in plugins.packages if known.name == name)
    broken = {f.entry: f.reason for f in plugins.failures if f.package is package}
    made: dict[str, type] = {}
    for entry in package.entries:
        installable = isinstance(entry, EntryPoint)
        subject = f"plugin {entry.value if installable else package.name}"
        if reason := broken.get(entry.value):
            made[subject] = failing("is_imported_and_registers", PluginError(reason))
        elif installable:
            made[subject] = type("Of", (PluginTests,), {"plugin": entry.load()})
    own = [c for c in plugins.components if c.distribution == name]
    if any(c.kind == "editor" for c in own):
        tiny_model()  # so that no check's time is that of the imports
    suites: list[tuple[str, type]] = []
    for component in (c for c in own if c.kind == "suite"):
        try:
            suites.append((component.name, component.load()))
        except Exception as error:
            made[f"suite {component.name}"] = failing("names_what_it_tries", error)
    for component in (c for c in own if c.kind != "suite"):
        made |= _of_component(plugins, component, suites)
    tried = {each for tests in made.values() for each in tests.__bases__}
    made |= {f"suite {name}": tests for name, tests in suites if tests not in tried}
    editors, tasks = ([c.qualified for c in own if c.kind == kind] for kind in ("editor", "task"))
    some = limit and (editors or tasks)
    for editor, task in product(editors or [EDITOR], tasks or [TASK]) if some else ():
        subject = " on ".join(each.rpartition("/")[2] for each in (editor, task))
        given = {"editor": editor, "task": task, "limit": limit}
        made[f"run of {subject}"] = type("Of", (RunTests,), given)
    return made


def _of_component(
    plugins: Plugins, component: Component, suites: Sequence[tuple[str, type]]
) -> dict[str, type]:
    subject, kind = f"{component.kind} {component.name}", component.kind
    imported: dict[str, Any] = {"component": component}
    try:
        factory = component.load()
        chosen = [(name, t) for name, t in suites if type(getattr(t, kind, None)) is factory]
        if not chosen and kind in SUITES:
            given = imported | default(plugins, component)
            return {subject: type("Of", (SUITES[kind], ImportTests), given)}
    except Exception as error:
        return {subject: failing("can_be_tried_without_settings", error)}
    if not chosen:
        return {subject: type("Of", (ImportTests,), imported)}
    named = {n: "" if n == component.name else f", suite {n}" for n, _ in chosen}
    return {subject + named[n]: type("Of", (tests, ImportTests), imported) for n, tests in chosen}


def failing(name: str, error: Exception) -> type:
    """Return a class with one test, which raises an error."""

    def test(self: Any) -> None:
        raise error

    return type("Of", (), {f"test_{name}": test})


def default(plugins: Plugins, component: Component) -> dict[str, Any]:
    """Return what the suite of a kind tries of a component without settings. Raises `HarnessError`."""
    kind, name = component.kind, component.qualified
    if given := GIVEN.get(kind):
        raise PluginError(f"no suite tries it: register one that names it and its {given}", SUITE)
    if kind == "task":
        tried: Task = make_task(plugins, name, {}, source_of(plugins, MODEL), 0).value
        next(iter(tried.cases()), None)
        return {"task": tried}
    if kind == "editor":
        make_editor(plugins, tiny_model(), name, {}, seed=0)
    found: dict[str, Any] = {kind: build_component(component, {}, seed=0)}
    if kind == "metric" and not type("Of", (MetricTests,), found)().chosen():
        raise PluginError("it says nothing of made-up cases", SUITE)
    return found


class ImportTests:
    """What every component must do."""

    component: Component

    def test_is_imported(self) -> None:
        """Its class is found, and of its kind."""
        self.component.load()


class RunTests:
    """A run of an editor on the first cases of a task."""

    editor: str
    task: str
    limit: int

    def test_ends_with_every_case_answered(
        self, tmp_path: Path, record_property: Callable[[str, Any], None]
    ) -> None:
        """What users do first with a package is a run."""
        try:
            run = evaluate(self.editor, self.task, MODEL, limit=self.limit, output=tmp_path)
        except (DataError, UsageError) as error:  # data are missing, or the model is refused
            pytest.fail(f"it was not tried: {error}")
        record_property("table", run.table())
        failures = [record for record in run.failures if record.status != INVALID]
        assert not failures, (
            f"{len(failures)} of {len(run.records)} cases failed; case {failures[0].case}: "
            f"{failures[0].status}: {' '.join(str(failures[0].message).split())}"
        )
        assert len(run.failures) < len(run.records), "it has no case that can be used"
        assert not run.pending, f"{run.pending} texts have no verdict: {why_pending(run)}"
