"""What is wrong with a class that a plugin registered, as far as it can be told without using it.

What an object of it does is tried by the suites in `edit_harness.testing`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import PluginError
from ..interfaces import (
    Builder,
    Control,
    Editor,
    Judge,
    Measure,
    Metric,
    ModelSource,
    Pack,
    Preset,
    Regime,
    Task,
)

KIND: Mapping[str, type] = {
    "editor": Editor,
    "task": Task,
    "metric": Metric,
    "judge": Judge,
    "control": Control,
    "builder": Builder,
    "model": ModelSource,
    "pack": Pack,
}
"""What components of a kind are subclasses of, of those that have an interface."""
TABLES: Mapping[str, type] = {"presets": Preset, "measures": Measure, "kinds": str, "instead": str}
"""Attributes that are mappings from names, and what they map them to."""
LISTS = ("metrics", "practical")
"""Attributes that are lists of names."""


def check(kind: str, factory: Any, what: str) -> None:
    """Raise `PluginError`, which calls it ``what``, for a class that cannot be of its kind."""
    if not isinstance(factory, type):
        raise PluginError(
            f"{what} is no class: it is a {type(factory).__name__}", "register the class itself"
        )
    base = KIND.get(kind)
    if base is None:
        return
    if not issubclass(factory, base):
        raise PluginError(
            f"{what} is no {base.__name__}",
            f"it has to be a subclass of edit_harness.{base.__name__}",
        )
    if missing := sorted(getattr(factory, "__abstractmethods__", ())):
        raise PluginError(
            f"{what} has no {', '.join(missing)}",
            f"a {base.__name__} has to define it: class {factory.__name__}",
        )
    for problem in _problems(factory):
        raise PluginError(
            f"{what}: {problem}", f"see the docstring of edit_harness.{base.__name__}"
        )


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
