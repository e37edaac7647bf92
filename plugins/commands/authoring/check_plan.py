"""What a package is checked by, from its name: classes for pytest, in the order in which they run.

Everything of the package is imported here, part by part, each noted in the ledger before: what kills the
process is named, and left out when it is started again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib.metadata import Distribution, EntryPoint, distribution
from itertools import product
from typing import Any, TypeVar

from edit_harness.errors import PluginError
from edit_harness.registry.packages import Entry, Package
from edit_harness.registry.registry import Component, Plugins
from edit_harness.testing import PluginTests, tiny_model

from .check_package import FileTests, PackageTests
from .check_reasons import attempt
from .check_run import EDITOR, TASK, RunTests
from .check_suites import SUITES, default, tried_by
from .ledger import Finding, Ledger

T = TypeVar("T")


@dataclass(frozen=True)
class Suite:
    """A suite that the package registers, and what it tries."""

    name: str
    tests: type
    kind: str
    tried: Any

    def tries(self, component: Component) -> bool:
        """Tell whether it tries this component."""
        return self.kind == component.kind and type(self.tried) is component.load()


@dataclass
class Plan:
    """Chooses the classes; each has the name of what it checks."""

    package: Package
    ledger: Ledger
    limit: int
    """Cases of a run; 0 is no run."""
    width: int
    """Characters of a line of a run's table."""
    classes: dict[type, str] = field(default_factory=dict)
    plugins: Plugins = field(default_factory=Plugins)
    tasks: dict[Component, Any] = field(default_factory=dict)
    """On what each metric of the package is tried."""

    @cached_property
    def files(self) -> frozenset[str]:
        """The package's own files."""
        return frozenset(os.path.realpath(path) for _, path in self.package.contents())

    def make(self) -> dict[type, str]:
        """Return the classes."""
        self._add("package", PackageTests, distribution=metadata(self.package))
        self._add_modules()
        own = [c for c in self.plugins.components if c.distribution == self.package.name]
        if any(c.kind == "editor" for c in own):
            tiny_model()  # so that no check's time is that of the imports
        suites = [suite for c in own if c.kind == "suite" and (suite := self._suite(c))]
        usable = [c for c in own if c.kind != "suite" and self._imported(c)]
        for component in (c for c in usable if c.kind in SUITES):
            chosen = [suite for suite in suites if suite.tries(component)]
            self._add_suites(component, chosen)
        for suite in suites:
            if not any(suite.tries(component) for component in usable):
                self._add(f"suite {suite.name}", suite.tests)
        if self.limit:
            self._add_runs(usable)
        return self.classes

    def _add(self, subject: str, tests: type, **attributes: Any) -> None:
        self.classes[type(f"Test{len(self.classes):03}", (tests,), attributes)] = subject

    def _attempt(self, subject: str, name: str, function: Callable[[], T]) -> T | None:
        finding = Finding(subject, name, "", planning=True)
        return attempt(self.ledger, finding, function, self.files)

    def _add_modules(self) -> None:
        """Import the modules that the entry points name, and take what they register."""
        for entry in self.package.entries:
            installable = isinstance(entry, EntryPoint)
            subject = f"plugin {entry.value if installable else self.package.name}"
            load = partial(self._load, entry)
            if loaded := self._attempt(subject, "is imported and registers", load):
                module, self.plugins = loaded
                self._add(subject, PluginTests if installable else FileTests, plugin=module)

    def _load(self, entry: Entry) -> tuple[Any, Plugins]:
        module = entry.load()
        plugins = Plugins.installed()
        for failure in plugins.failures:
            if (failure.distribution, failure.entry) == (self.package.name, entry.value):
                raise PluginError(failure.reason)
        for out in plugins.left_out:
            if out.package.name == self.package.name:
                raise PluginError(out.reason)
        return module, plugins

    def _suite(self, component: Component) -> Suite | None:
        def loaded() -> Suite:
            tests = component.load()
            return Suite(component.name, tests, *tried_by(tests))

        return self._attempt("package", f"suite {component.name} names what it tries", loaded)

    def _imported(self, component: Component) -> bool:
        subject = f"{component.kind} {component.name}"
        return self._attempt(subject, "is imported", component.load) is not None

    def _add_suites(self, component: Component, chosen: Sequence[Suite]) -> None:
        """Have a component tried by the suites of its package, or else by a default."""
        subject = f"{component.kind} {component.name}"
        for suite in chosen:
            also = "" if suite.name == component.name else f", suite {suite.name}"
            self._add(subject + also, suite.tests)
            self.tasks.setdefault(component, getattr(suite.tests, "task", None))
        if not chosen:
            made = partial(default, self.plugins, component)
            if attributes := self._attempt(subject, "can be tried without settings", made):
                self._add(subject, SUITES[component.kind], **attributes)
                self.tasks.setdefault(component, attributes.get("task"))

    def _add_runs(self, usable: Sequence[Component]) -> None:
        """Add runs of the package's editors on its tasks, or of its metrics on theirs."""
        named = {kind: [c.qualified for c in usable if c.kind == kind] for kind in SUITES}
        if named["editor"] or named["task"]:
            for editor, task in product(named["editor"] or [EDITOR], named["task"] or [TASK]):
                self._add_run(editor, task, task)
            return
        for metric, task in self.tasks.items():
            if metric.kind == "metric" and task is not None:
                self._add_run(EDITOR, task, metric.qualified, metrics=[metric.name])

    def _add_run(self, editor: str, task: Any, what: str, **more: Any) -> None:
        more |= {"limit": self.limit, "width": self.width, "plugins": self.plugins}
        subject = f"run of {_short(editor)} on {_short(what)}"
        self._add(subject, RunTests, editor=editor, task=task, **more)


def _short(qualified: str) -> str:
    return qualified.rpartition("/")[2]


def metadata(package: Package) -> Distribution | None:
    """Return what a package says of itself; None if it is used without being installed."""
    return None if package.named else distribution(package.name)
