"""Tests that any plugin can run against itself.

Subclass the suite of your kind, name the component, and pytest does the rest::

    from edit_harness.testing import EditorTests, PluginTests

    import my_package
    from my_package.editor import Mine

    class TestMyEditor(EditorTests):
        editor = Mine(layer=1, steps=5)

    class TestMyPlugin(PluginTests):
        plugin = my_package

The suites need pytest, but neither a GPU nor a download: editors are tried on `tiny_model`, a model of two
layers with random weights; metrics get made-up answers, and judges the replies that you name. Suites for tasks,
metrics and judges need no torch. docs/how-to/plugins.md has what each suite needs and checks, and what to do if a
check fails. The suite of a kind that a package has brought is in that package.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .editors import EditorTests
    from .judges import JudgeTests
    from .metrics import MetricTests
    from .plugins import PluginTests
    from .tasks import TaskTests
    from .tiny import tiny_model

_LAZY = {
    "EditorTests": "editors",
    "JudgeTests": "judges",
    "MetricTests": "metrics",
    "PluginTests": "plugins",
    "TaskTests": "tasks",
    "tiny_model": "tiny",
}

__all__ = ["EditorTests", "JudgeTests", "MetricTests", "PluginTests", "TaskTests", "tiny_model"]

# An assert of an installed package says what it compared only if pytest is told before the import.
if pytest := sys.modules.get("pytest"):
    pytest.register_assert_rewrite(*(f"{__name__}.{m.name}" for m in iter_modules(__path__)))


def __getattr__(name: str) -> Any:
    """Import a suite when it is first asked for: those for tasks, metrics and judges need no torch."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
