"""Settings that a bundle states of a plugin, and whether they may be given to the plugin here.

A text may be the name of a file, of a pipe or of another machine. So the only texts that are taken from
a bundle are those that the plugin itself brings: a default, a preset's, a choice that it declares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from edit_harness.folder.manifest import EditorId
from edit_harness.hookspecs import DISTRIBUTION
from edit_harness.registry import fields
from edit_harness.registry.plugins import Plugins

from .findings import shown

PLAIN = (bool, int, float, NoneType)
"""The types of values that lead nowhere."""


def strange(factory: type, settings: Mapping[str, Any]) -> str:
    """Return which setting may not be given to a plugin of a class, and why; empty if all may be."""
    hints, usual = fields.field_types(factory), fields.defaults(factory)
    for name, value in settings.items():
        if name not in hints:
            return f"it has no field {shown(name)}"
        known = [usual[name], *(p.values.get(name) for p in _presets(factory))]
        if not (_is_one(value, known) or _is_plain(value, hints[name])):
            return f"its {name} is {shown(value)}, which is none of its own values: nothing is opened for it"
    return ""


def foreign(plugins: Plugins, said: EditorId) -> str:
    """Return why an editor that is bundled here in a run's version is not the run's; empty if it may be.

    It imports the editor, and so torch, which the limits on reading a bundle have no room for.
    """
    for found in plugins.of_kind("editor"):
        if (found.name, found.distribution, found.origin) == (
            said.name, DISTRIBUTION, said.version,
        ):  # fmt: skip
            own = fields.field_types(found.load()).keys()
            if other := sorted(own ^ said.fields.keys()):
                has = "has" if other[0] in own else "has no"
                what = f"field {shown(other[0])}{', not stated' if other[0] in own else ''}"
                return f"editor {found.name} of {found.origin} {has} {what}"
    return ""


def given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as a plugin takes them: JSON has lists only."""
    return {name: tuple(v) if isinstance(v, list) else v for name, v in settings.items()}


def _presets(factory: type) -> list[Any]:
    return list(getattr(factory, "presets", {}).values())


def _is_one(value: Any, known: list[Any]) -> bool:
    """Tell whether a value is one of the plugin's own, of the same type."""
    listed = [list(each) if isinstance(each, tuple) else each for each in known]
    return any(type(value) is type(each) and value == each for each in listed)


def _is_plain(value: Any, hint: Any) -> bool:
    """Tell whether a field is of numbers, truths and declared choices alone, and its value too."""
    kinds = list(_leaves(hint))
    choices = [kind for kind in kinds if type(kind) is str]
    if any(type(kind) is not str and kind not in PLAIN for kind in kinds):
        return False
    parts = value if isinstance(value, list) else [value]
    return all(type(part) in PLAIN or (type(part) is str and part in choices) for part in parts)


def _leaves(hint: Any) -> Iterator[Any]:
    """Yield the types that a type is made of, and the choices of a literal, as they are."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        yield from arguments
    elif origin in (Union, UnionType, tuple, list):
        for argument in arguments:
            if argument is not ...:
                yield from _leaves(argument)
    else:
        yield hint
