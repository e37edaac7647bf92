"""The kinds of components, and what is wrong with a class that a plugin registered as one.

The suites in `edit_harness.testing` try what an object of the class does.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .. import interfaces
from ..errors import PluginError

KINDS: Mapping[str, Any] = {
    "editor": interfaces.Editor,
    "task": interfaces.Task,
    "metric": interfaces.Metric,
    "judge": interfaces.Judge,
    "control": interfaces.Control,
    "model": interfaces.ModelSource,
    "executor": interfaces.Executor,
    "adaptor": Callable,
    "suite": "edit_harness.testing.suite:Suite",
    "command": "click:Command",
}
"""What components of a kind are subclasses of, or where that is; a command is an object of it."""
ATTRIBUTES: Mapping[str, type] = {
    "presets": interfaces.Preset, "measures": interfaces.Measure, "kinds": str, "instead": str,
    "metrics": list, "practical": list, "regime": interfaces.Regime,
}  # fmt: skip
"""Attributes of classes: mappings from names to objects of a type, lists of names, a regime."""


def check_class(kind: str, factory: Any, base: type, what: str) -> None:
    """Raise `PluginError`, which calls it ``what``, for what can be no component of a kind."""
    if kind == "command":
        if not isinstance(factory, base):
            raise PluginError(f"{what} is no click command: it is a {type(factory).__name__}")
        return
    core = base.__module__.startswith("edit_harness.interfaces.")
    public = f"{'edit_harness' if core else base.__module__}.{base.__name__}"
    if not isinstance(factory, type):
        raise PluginError(
            f"{what} is no class: it is a {type(factory).__name__}", "register the class itself"
        )
    if not issubclass(factory, base):
        raise PluginError(f"{what} is no {base.__name__}", f"it has to be a subclass of {public}")
    if missing := sorted(getattr(factory, "__abstractmethods__", ())):
        raise PluginError(
            f"{what} has no {', '.join(missing)}",
            f"a {base.__name__} has to define it: class {factory.__name__}",
        )
    for problem in _problems(factory):
        raise PluginError(f"{what}: {problem}", f"see the docstring of {public}")


def _problems(factory: type) -> Iterator[str]:
    """Yield what is wrong with attributes of a class; one that an object computes is not looked at."""
    for name, wanted in ATTRIBUTES.items():
        value = inspect.getattr_static(factory, name, None)
        if value is None or inspect.isdatadescriptor(value):
            continue
        if wanted is interfaces.Regime:
            if not isinstance(value, wanted):
                yield f"regime is a {type(value).__name__}, and no Regime"
        elif wanted is list:
            if not isinstance(value, list | tuple) or not all(isinstance(n, str) for n in value):
                yield f"{name} is no list of names: {value!r:.60}"
        elif not (
            isinstance(value, Mapping) and all(isinstance(v, wanted) for v in value.values())
        ):
            yield f"{name} is no mapping from names to {wanted.__name__}: {value!r:.60}"
