"""The points of a sweep: values of an editor's fields, from flags, and all their combinations.

No model is here. What a layer or a token is called follows ROME's figure 5; every other field goes
by its own name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import Any, get_origin

from edit_harness.errors import HarnessError, UsageError
from edit_harness.registry import settings as fields
from edit_harness.registry.registry import Component, Plugins

LAYER, TOKEN = "layer", "fact_token"
"""The fields that --layers and --tokens stand for."""
EXAMPLE = "--layers all --tokens subject_first,subject_last,last, or --grid lr=0.1,0.5"


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
    """Return what flags say of each field, unread. Raises `UsageError`."""
    found = {}
    said = [(LAYER, layers), (TOKEN, tokens), *map(_pair, grid)]
    for field, text in said:
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


def check_fields(plugins: Plugins, editor: Component, names: Sequence[str]) -> None:
    """Raise `UsageError` that says which editors have a field that this one has not."""
    known = fields.field_types(editor.load())
    for name in names:
        if name not in known:
            others = ", ".join(_having(plugins, name)) or "no editor has it"
            its = f"; fields of {editor.name}: {', '.join(known)}" if known else ""
            raise UsageError(
                f"editor {editor.name} has no field {name!r}", f"with it: {others}{its}"
            )


def _having(plugins: Plugins, field: str) -> Iterator[str]:
    for component in plugins.of_kind("editor"):
        with suppress(HarnessError):  # one that is broken has no fields
            if field in fields.field_types(component.load()):
                yield component.name


def axes(editor: Component, asked: Mapping[str, str], depth: int) -> list[Axis]:
    """Return the axes of a grid for a model of ``depth`` layers.

    Values are parted by comma, those that are lists themselves by semicolon; a value that comes
    twice counts once. Raises `UsageError` for one that the field cannot have.
    """
    hints = fields.field_types(editor.load())
    found = []
    for name, text in asked.items():
        sign = ";" if get_origin(hints[name]) is tuple else ","
        texts = layers(text, depth) if name == LAYER else text.split(sign)
        values = [_value(editor, name, piece.strip()) for piece in texts]
        found.append(Axis(name, tuple(dict.fromkeys(values))))
    return found


def _value(editor: Component, name: str, text: str) -> Any:
    return fields.typed(editor.load(), {name: text}, f"editor {editor.name}")[name]


def layers(text: str, depth: int) -> list[str]:
    """Return the layers that ``all``, ``0,3`` or ``2-5`` mean. Raises `UsageError`."""
    if text.strip() == "all":
        return [str(layer) for layer in range(depth)]
    found: list[str] = []
    for piece in text.split(","):
        first, dash, last = (part.strip() for part in piece.partition("-"))
        if not (first.isdecimal() and (last.isdecimal() if dash else not last)):
            raise UsageError(f"--layers has {piece!r}", "write all, 0,3 or 2-5")
        start, stop = int(first), int(last or first)
        if not start <= stop < depth:
            raise UsageError(
                f"--layers has {piece.strip()}, and the model has layers 0 to {depth - 1}",
                "write all, 0,3 or 2-5",
            )
        found += [str(layer) for layer in range(start, stop + 1)]
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
