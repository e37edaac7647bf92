"""A plugin's fields as settings: from ``KEY=VALUE`` to a dataclass with typed values.

Not a configuration language: what a field may hold follows from its annotation, such as
``steps: Count`` or ``rate: Annotated[float, Bounds(0, below=1)]``.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import (
    Annotated,
    Any,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from ..errors import UsageError
from .plugins import suggestion

T = TypeVar("T")


@dataclass(frozen=True)
class Bounds:
    """What a field's number has to be within."""

    least: float
    below: float = math.inf
    strict: bool = False
    """Whether ``least`` itself is out of bounds."""
    most: float = math.inf
    """The greatest that is within."""

    def hold(self, value: float) -> bool:
        """Tell whether a number is within; one that is no number is not."""
        above = self.least < value if self.strict else self.least <= value
        return above and value <= self.most and value < self.below

    def __str__(self) -> str:
        least = f"above {self.least:g}" if self.strict else f"at least {self.least:g}"
        if self.most < math.inf:
            return f"{least} and at most {self.most:g}"
        return least if self.below == math.inf else f"{least} and below {self.below:g}"


Count: TypeAlias = Annotated[int, Bounds(1)]
Natural: TypeAlias = Annotated[int, Bounds(0)]
Positive: TypeAlias = Annotated[float, Bounds(0, strict=True)]
NotNegative: TypeAlias = Annotated[float, Bounds(0)]
Share: TypeAlias = Annotated[float, Bounds(0, most=1)]

BOOLEANS = {"1": True, "true": True, "yes": True, "on": True}
BOOLEANS |= {"0": False, "false": False, "no": False, "off": False}


def parse(texts: Iterable[str]) -> dict[str, str]:
    """Return the settings in texts such as ``"layer=5,layers=4,5,6"``.

    A comma that no ``KEY=`` follows belongs to the value. Raises `UsageError`.
    """
    settings: dict[str, str] = {}
    for text in texts:
        key = ""
        for piece in text.split(","):
            name, equals, value = piece.partition("=")
            if equals and name.strip().isidentifier():
                key = name.strip()
                settings[key] = value.strip()
            elif key:
                settings[key] += f",{piece}"
            else:
                raise UsageError(f"{text!r} is not of the form KEY=VALUE", "write layer=5,lr=0.5")
    return settings


def build(factory: type[T], settings: Mapping[str, Any], what: str) -> T:
    """Construct a plugin from settings; texts are converted to the types of its fields.

    ``what`` names the plugin in errors. Raises `UsageError` for an unknown field or a bad value.
    """
    made = factory(**typed(factory, settings, what))
    check(made, what)
    return made


def typed(factory: type, settings: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return settings with their texts converted to the types of a plugin's fields.

    Raises `UsageError` for an unknown field, or a text that means nothing of its type.
    """
    hints = field_types(factory)
    values = {}
    for key, value in settings.items():
        if key not in hints:
            if instead := getattr(factory, "instead", {}).get(key):
                raise UsageError(f"{what} has no field {key!r}", instead)
            has = f"its fields: {', '.join(hints)}" if hints else "it has no fields"
            guess = suggestion(key, list(hints))
            raise UsageError(f"{what} has no field {key!r}{guess}", has)
        try:
            values[key] = convert(value, hints[key]) if isinstance(value, str) else value
        except ValueError as error:
            raise UsageError(f"{what}: field {key}={value!r} is not {error}") from None
    return values


def check(plugin: object, what: str) -> None:
    """Raise `UsageError` for a field whose number is out of its bounds; None is not looked at."""
    kind = type(plugin)
    if not is_dataclass(kind):
        return
    for name, hint in get_type_hints(kind, include_extras=True).items():
        value = getattr(plugin, name, None)
        for bounds in getattr(hint, "__metadata__", ()):
            if isinstance(bounds, Bounds) and value is not None and not bounds.hold(value):
                raise UsageError(f"{what}: field {name}={value} is not {bounds}")


def field_types(factory: type) -> dict[str, Any]:
    """Return the types of a plugin's settable fields by name."""
    if not is_dataclass(factory):
        return {}
    hints = get_type_hints(factory)
    return {f.name: hints[f.name] for f in fields(factory) if f.init}


def settings(plugin: Any) -> dict[str, Any]:
    """Return the values of a plugin's fields, JSON-ready; none if it is no dataclass.

    Of a value that is a plugin itself they are its class and its own fields.
    """
    known = fields(plugin) if is_dataclass(plugin) else ()
    values = {f.name: getattr(plugin, f.name) for f in known if f.init}
    made = {k: v for k, v in values.items() if is_dataclass(v) and not isinstance(v, type)}
    return values | {k: {"class": type(v).__qualname__, **settings(v)} for k, v in made.items()}


def unwritable(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of values that cannot be written as JSON."""
    for name, value in values.items():
        try:
            json.dumps(value, sort_keys=True)
        except (TypeError, ValueError, RecursionError):
            yield name


def defaults(factory: type) -> dict[str, Any]:
    """Return the default of each field; `dataclasses.MISSING` of one that has none."""
    if not is_dataclass(factory):
        return {}
    return {
        f.name: f.default_factory() if f.default_factory is not MISSING else f.default
        for f in fields(factory)
        if f.init
    }


def convert(text: str, kind: Any) -> Any:
    """Return what a text means as a value of a type.

    Raises `ValueError` with a description of what was expected.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        inner = [a for a in arguments if a is not type(None)]
        return convert(text, inner[0])
    if origin is Literal:
        if text in arguments:
            return text
        raise ValueError(f"one of {', '.join(map(str, arguments))}")
    if origin is tuple:
        return tuple(convert(piece.strip(), arguments[0]) for piece in text.split(",") if piece)
    if kind is bool:
        if text.lower() in BOOLEANS:
            return BOOLEANS[text.lower()]
        raise ValueError("true or false")
    try:
        value = kind(text)
    except ValueError:
        raise ValueError(f"of type {kind.__name__}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a finite number")
    return value
