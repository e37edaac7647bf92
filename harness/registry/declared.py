"""What is wrong with a class that a plugin registered, as far as it can be told without using it.

What an object of it does is tried by the suites in `edit_harness.testing`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..errors import PluginError
from ..interfaces import (
    Control,
    Editor,
    Executor,
    Judge,
    Measure,
    Metric,
    ModelSource,
    Preset,
    Regime,
    Task,
)

KINDS: Mapping[str, Any] = {
    "editor": Editor,
    "task": Task,
    "metric": Metric,
    "judge": Judge,
    "control": Control,
    "model": ModelSource,
    "executor": Executor,
    "adaptor": Callable,
    "suite": "edit_harness.testing.suite:Suite",
    "command": "click:Command",
}
"""What components of a kind are subclasses of, or where that is; a command is an object of it."""
TABLES: Mapping[str, type] = {"presets": Preset, "measures": Measure, "kinds": str, "instead": str}
"""Attributes that are mappings from names, and what they map them to."""
LISTS = ("metrics", "practical")
"""Attributes that are lists of names."""


def check(kind: str, factory: Any, base: type, what: str) -> None:
    """Raise `PluginError`, which calls it ``what``, for what can be no component of a kind with a base."""
    if kind == "command":
        if not isinstance(factory, base):
            raise PluginError(f"{what} is no click command: it is a {type(factory).__name__}")
        return
    if not isinstance(factory, type):
        raise PluginError(
            f"{what} is no class: it is a {type(factory).__name__}", "register the class itself"
        )
    if not issubclass(factory, base):
        raise PluginError(
            f"{what} is no {base.__name__}", f"it has to be a subclass of {_public(base)}"
        )
    if missing := sorted(getattr(factory, "__abstractmethods__", ())):
        raise PluginError(
            f"{what} has no {', '.join(missing)}",
            f"a {base.__name__} has to define it: class {factory.__name__}",
        )
    for problem in _problems(factory):
        raise PluginError(f"{what}: {problem}", f"see the docstring of {_public(base)}")


def _public(base: type) -> str:
    """Return where a base class is imported from."""
    core = base.__module__ == "edit_harness.interfaces"
    return f"{'edit_harness' if core else base.__module__}.{base.__name__}"


def _problems(factory: type) -> Iterator[str]:
    """Yield what is wrong with attributes of a class; one that an object computes is not looked at."""
    said = {name: inspect.getattr_static(factory, name, None) for name in (*TABLES, *LISTS)}
    regime = inspect.getattr_static(factory, "regime", None)
    if regime is not None and not isinstance(regime, Regime | property):
        yield f"regime is a {type(regime).__name__}, and no Regime"
    for name, value in said.items():
        if value is None or inspect.isdatadescriptor(value):
            continue
        wanted = TABLES.get(name)
        if wanted and not (isinstance(value, Mapping) and _all(value.values(), wanted)):
            yield f"{name} is no mapping from names to {wanted.__name__}: {value!r:.60}"
        if not wanted and (isinstance(value, str) or not _names(value)):
            yield f"{name} is no list of names: {value!r:.60}"


def _all(values: Any, wanted: type) -> bool:
    return all(isinstance(value, wanted) for value in values)


def _names(value: Any) -> bool:
    return isinstance(value, Sequence) and _all(value, str)
