"""The suite for plugin modules; see `edit_harness.testing` for how to use it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import is_dataclass
from types import ModuleType
from typing import Any

import pytest

from edit_harness.edits import Adaptor
from edit_harness.fields import build
from edit_harness.interfaces import Builder, Editor, Judge, Metric, ModelSource, Task
from edit_harness.plugins import Component, Plugins, entry_points
from edit_harness.testing.builders import BuilderTests
from edit_harness.testing.editors import EditorTests
from edit_harness.testing.judges import JudgeTests
from edit_harness.testing.metrics import MetricTests
from edit_harness.testing.tasks import TaskTests

HEAVY = ("torch", "transformers", "numpy", "scipy")
"""What a plugin must not import before one of its components is used."""

KINDS: dict[str, Any] = {
    "editor": Editor,
    "task": Task,
    "metric": Metric,
    "judge": Judge,
    "builder": Builder,
    "model": ModelSource,
    "adaptor": Adaptor,
    "suite": (BuilderTests, EditorTests, JudgeTests, MetricTests, TaskTests),
}
"""What components of each kind are subclasses of."""


class PluginTests:
    """What every plugin module must do."""

    plugin: ModuleType

    @pytest.fixture
    def components(self) -> list[Component]:
        """Return what the plugin registers; a bad name or an unknown hook raises."""
        plugins = Plugins()
        plugins.add(self.plugin, "under-test")
        return plugins.components

    def test_registers_components_and_says_what_they_are(self, components: list[Component]) -> None:
        """Lists show a summary of each component."""
        assert components
        for component in components:
            assert component.summary.strip(), component.name

    def test_is_advertised(self) -> None:
        """An installed distribution names the module in its entry points."""
        assert self.plugin.__name__ in {entry.value for _, entry in entry_points()}

    def test_registers_without_heavy_modules(self) -> None:
        """Every start of the command imports every plugin, so that must be cheap."""
        code = (
            "import importlib, sys; from edit_harness.plugins import Plugins; "
            f"Plugins().add(importlib.import_module({self.plugin.__name__!r}), 'under-test'); "
            f"print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
        )
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == [], "name the factory as text: 'package.module:Class'"

    def test_components_are_of_their_kind(self, components: list[Component]) -> None:
        """Lazy factories can be imported, and are subclasses of what they were registered as."""
        for component in components:
            assert issubclass(component.load(), KINDS[component.kind]), component.name

    def test_components_are_made_without_arguments(self, components: list[Component]) -> None:
        """Every field has a default, but for those of adaptors, which editors make."""
        for component in components:
            if component.kind not in ("adaptor", "suite"):
                build(component.load(), {}, component.name)

    def test_adaptors_can_be_stored(self, components: list[Component]) -> None:
        """The fields of an adaptor are known."""
        for component in components:
            assert component.kind != "adaptor" or is_dataclass(component.load()), component.name
