"""The grid of a sweep: values of an editor's fields, from flags, and all their combinations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, get_origin

from edit_harness.errors import UsageError
from edit_harness.registry import settings
from edit_harness.registry.registry import Component

LAYER, TOKEN = "layer", "fact_token"
"""The fields that --layers and --tokens stand for."""
EXAMPLE = "--layers all --tokens subject_first,subject_last,last, or --grid lr=0.1,0.5"
WRITE = "write all, 0,3 or 2-5"


@dataclass(frozen=True)
class Axis:
    """A field with the values that are tried, in their order."""

    field: str
    values: tuple[Any, ...]

    @property
    def names(self) -> list[str]:
        """The values as they are shown."""
        return [shown(value) for value in self.values]

    def __str__(self) -> str:
        return f"{self.field} {', '.join(self.names)}"


Point = Mapping[str, Any]
"""A value of every axis, by field."""


def asked(grid: Sequence[str], layers: str | None, tokens: str | None) -> dict[str, str]:
    """Return the text that flags give for each field. Raises `UsageError`."""
    found: dict[str, str] = {}
    for field, text in ((LAYER, layers), (TOKEN, tokens), *map(_pair, grid)):
        if text is None:
            continue
        if field in found:
            raise UsageError(f"the grid has field {field} twice", "name all its values at once")
        found[field] = text
    if not found:
        raise UsageError("a sweep without a grid has nothing to try", f"say what: {EXAMPLE}")
    return found


def _pair(text: str) -> tuple[str, str]:
    field, equals, values = text.partition("=")
    if not (equals and field.strip().isidentifier() and values.strip()):
        raise UsageError(f"--grid {text!r} is not of the form FIELD=V,V,…", f"write {EXAMPLE}")
    return field.strip(), values


def check_fields(editor: Component, names: Sequence[str]) -> None:
    """Raise `UsageError` for a field that the editor does not have."""
    settings.typed(editor.load(), dict.fromkeys(names), f"editor {editor.name}")


def axes(editor: Component, asked: Mapping[str, str], depth: int) -> list[Axis]:
    """Return the axes of a grid for a model of ``depth`` layers.

    Commas part values, semicolons those that are lists themselves; a value that comes twice counts
    once. Raises `UsageError` for one that the field cannot have.
    """
    factory = editor.load()
    hints = settings.field_types(factory)
    found = []
    for name, text in asked.items():
        sign = ";" if get_origin(hints[name]) is tuple else ","
        texts = layers(text, depth) if name == LAYER else text.split(sign)
        typed = [settings.typed(factory, {name: t.strip()}, f"editor {editor.name}") for t in texts]
        found.append(Axis(name, tuple(dict.fromkeys(each[name] for each in typed))))
    return found


def layers(text: str, depth: int) -> list[str]:
    """Return the layers that ``all``, ``0,3`` or ``2-5`` mean. Raises `UsageError`."""
    if text.strip() == "all":
        return [str(layer) for layer in range(depth)]
    found: list[str] = []
    for piece in text.split(","):
        ends = [int(end) if end.strip().isdecimal() else depth for end in piece.split("-")]
        if len(ends) > 2 or not ends[0] <= ends[-1] < depth:
            known = f"the model has layers 0 to {depth - 1}"
            raise UsageError(f"--layers has {piece.strip()!r}, and {known}", WRITE)
        found += map(str, range(ends[0], ends[-1] + 1))
    return found


def points(axes: Sequence[Axis]) -> list[Point]:
    """Return every combination of the axes' values, the last axis running fastest."""
    names = [axis.field for axis in axes]
    return [dict(zip(names, each, strict=True)) for each in product(*(a.values for a in axes))]


def shown(value: Any) -> str:
    """Return a value as a table shows it."""
    if isinstance(value, tuple | list):
        return ",".join(map(shown, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def named(point: Point) -> str:
    """Return a point as a line of text shows it."""
    return ", ".join(f"{field}={shown(value)}" for field, value in point.items())
