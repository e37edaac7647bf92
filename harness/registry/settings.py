"""Settings: from ``KEY=VALUE``, presets and a plugin's fields, whose types say what they hold, to objects of plugins."""

from __future__ import annotations

import hashlib
import json
import re
import typing
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast

import msgspec
from msgspec import Meta

from ..errors import UsageError
from ..interfaces import FROM_PRESET, Editor, Metric, ModelShape, ModelSource, Task
from .guard import blamed, named
from .packages import Package
from .registry import Component, Plugins, suggestion

T = TypeVar("T")


def Bounds(least: float, below: float | None = None) -> Meta:
    """Return the bounds of a field's number: at least ``least``, and below ``below``; NaN is out of bounds."""
    return Meta(ge=least, lt=below)


Count: TypeAlias = Annotated[int, Bounds(1)]
Natural: TypeAlias = Annotated[int, Bounds(0)]
Positive: TypeAlias = Annotated[float, Meta(gt=0)]
NotNegative: TypeAlias = Annotated[float, Bounds(0)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
FAMILIES = {
    ("gpt2", 12, 768): "gpt2",
    ("gpt2", 24, 1024): "gpt2-medium",
    ("gpt2", 36, 1280): "gpt2-large",
    ("gpt2", 48, 1600): "gpt2-xl",
    ("gptj", 28, 4096): "gpt-j-6b",
    ("gpt_neox", 44, 6144): "gpt-neox-20b",
    ("llama", 32, 4096, 32000): "llama-2-7b",
    ("llama", 32, 4096, 128256): "llama-3-8b",
    ("mistral", 32, 4096): "mistral-7b",
    # Qwen2 and Qwen2.5 differ in nothing else than the number of positions, and have equal presets.
    ("qwen2", 28, 3584): "qwen2.5-7b",
}
"""Families by type, layers, width and, where that tells two apart, vocabulary: never by a folder's
name, so that a fine-tuned or renamed copy finds its preset too."""


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
    """Return settings with their texts converted to the types of a plugin's fields. Raises `UsageError`."""
    hints, values = field_types(factory), {}
    for key, value in settings.items():
        if key not in hints:
            has = f"its fields: {', '.join(hints)}" if hints else "it has no fields"
            instead = getattr(factory, "instead", {}).get(key)
            like = "" if instead else suggestion(key, list(hints))
            raise UsageError(f"{what} has no field {key!r}{like}", instead or has)
        try:
            values[key] = convert(value, hints[key]) if isinstance(value, str) else value
        except ValueError as error:
            raise UsageError(f"{what}: field {key}={value!r} is not {error}") from None
    return values


def convert(text: str, kind: Any) -> Any:
    """Return what a text means as a value of a type. Raises `ValueError` that says what it expected."""
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is Literal and text not in arguments:
        raise ValueError(f"one of {', '.join(arguments)}")
    if not any(typing.get_origin(each) is tuple for each in (kind, *arguments)):
        return _valid(_digits(text), kind)
    return _valid([_digits(piece.strip()) for piece in text.split(",") if piece], kind)


def _digits(text: str) -> str:
    """Return a number with a digit on both sides of its point, as JSON has it: 0.5 for ``.5``."""
    return str(float(text)) if re.fullmatch(r"[+-]?(\.\d+|\d+\.)(e[+-]?\d+)?", text) else text


def _valid(value: Any, kind: Any) -> Any:
    """Return a value, or what a text means, as one of a type and within its bounds."""
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        expected = str(error).removeprefix("Expected ").partition(", got")[0]
        raise ValueError(expected.replace("`", "")) from None


def check(plugin: object, what: str) -> None:
    """Raise `UsageError` for a field whose number is out of its bounds; None is not looked at."""
    hints = typing.get_type_hints(type(plugin), include_extras=True)
    for name in (field.name for field in _fields(plugin)):
        value = getattr(plugin, name)
        kinds = (hints[name], *typing.get_args(hints[name]))
        bounded = any(typing.get_origin(each) is Annotated for each in kinds)
        if bounded and value is not None:
            try:
                _valid(value, hints[name])
            except ValueError as error:
                raise UsageError(f"{what}: field {name}={value} is not {error}") from None


def _fields(of: Any) -> list[Field[Any]]:
    """Return the settable fields of a plugin or its class; none if it is no dataclass."""
    return [field for field in fields(of) if field.init] if is_dataclass(of) else []


def field_types(factory: type) -> dict[str, Any]:
    """Return the types of a plugin's settable fields by name."""
    hints = typing.get_type_hints(factory) if is_dataclass(factory) else {}
    return {field.name: hints[field.name] for field in _fields(factory)}


def defaults(factory: type) -> dict[str, Any]:
    """Return the default of each field; `dataclasses.MISSING` of one that has none."""
    return {
        f.name: f.default if f.default_factory is MISSING else f.default_factory()
        for f in _fields(factory)
    }


def settings(plugin: Any) -> dict[str, Any]:
    """Return the values of a plugin's fields, JSON-ready; a plugin among them is its class and its own fields."""

    def ready(value: Any) -> Any:
        if not is_dataclass(value) or isinstance(value, type):
            return value
        return {"class": type(value).__qualname__, **settings(value)}

    return {field.name: ready(getattr(plugin, field.name)) for field in _fields(plugin)}


def shape_of(config: Any, family: str = "") -> ModelShape:
    """Return the shape of a model from its configuration; ``family`` overrides recognition."""
    text = config.get_text_config()
    kind, size = text.model_type, (text.num_hidden_layers, text.hidden_size)
    found = FAMILIES.get((kind, *size, text.vocab_size)) or FAMILIES.get((kind, *size), "")
    return ModelShape(family or found, kind, *size)


@dataclass(frozen=True)
class Configured:
    """An editor with all its fields set, and where those of the preset come from, if any do."""

    editor: Editor
    source: str


def configure(editor: Editor, shape: ModelShape, name: str) -> Configured:
    """Fill the fields that depend on the model.

    Raises `UsageError` that says which fields to give, where neither a preset nor a guess has them.
    """
    dependent = [f.name for f in _fields(editor) if f.default is FROM_PRESET]
    missing = [f for f in dependent if getattr(editor, f) is None]
    preset = (editor.presets.get(shape.family) or editor.guess(shape)) if missing else None
    values: Mapping[str, Any] = preset.values if preset else {}
    if unknown := [field for field in missing if field not in values]:
        raise UsageError(
            f"editor {name} has no preset of {', '.join(unknown)} for this model "
            f"({shape.type}, {shape.layers} layers of width {shape.hidden})",
            f"give them: --editor-args {','.join(f'{field}=...' for field in unknown)}",
        )
    if missing:
        editor = replace(cast(Any, editor), **{f: values[f] for f in missing})
    check(editor, name)
    given = [f for f in dependent if f in values and values[f] != getattr(editor, f)]
    but = f" but for {', '.join(given)}" if given else ""
    return Configured(editor, f"{preset}{but}" if preset else "")


@dataclass(frozen=True)
class Named:
    """A plugin's object with the name and version that the record of a run gives it."""

    name: str
    version: str
    value: Any
    package: Package | None = None
    """The package that registered it; None of an object that was given as such."""


def build_component(component: Component, args: Mapping[str, Any], seed: int | None = None) -> Any:
    """Construct a plugin; a seed goes to its field of that name. Raises `PluginError` if that fails."""
    factory, what = component.load(), f"{component.kind} {component.name}"
    if seed is not None and "seed" in field_types(factory):
        args = {"seed": seed, **args}
    with blamed(f"{named(component.kind, component.name, factory)} cannot be made", factory):
        made: Any = build(factory, args, what)
        if component.kind in ("editor", "judge", "control"):
            json.dumps(settings(made))  # the record of a run has them
    return made


def source_of(plugins: Plugins, name: str) -> ModelSource:
    """Return where a model comes from."""
    known = any(name in (c.name, c.qualified) for c in plugins.of_kind("model"))
    made = build_component(plugins.find("model", name), {}) if known else ModelSource(name)
    return cast(ModelSource, replace(made, name=name))


def make_task(
    plugins: Plugins, task: str | Task, args: Mapping[str, Any], source: ModelSource, seed: int
) -> Named:
    """Build a task and bind it to the model's source."""
    if isinstance(task, Task):
        made = Named(type(task).__name__.lower(), task.version, task)
    else:
        made = make_named(plugins.find("task", task), args, seed)
    whose = named("task", made.name, made.value)
    with blamed(f"{whose} failed to take the model's data", made.value):
        return replace(made, name=made.name + made.value.variant, value=made.value.bind(source))


def make_named(component: Component, args: Mapping[str, Any], seed: int) -> Named:
    """Build a component that the record of a run names, such as a judge."""
    made = build_component(component, args, seed)
    return Named(component.name, made.version, made, component.package)


def make_metrics(plugins: Plugins, names: Iterable[str]) -> dict[str, Metric]:
    """Build metrics, by their names. Raises `UsageError` for one text."""
    if isinstance(names, str):
        raise UsageError(f"metrics is the text {names!r}", f"give a list: metrics=[{names!r}]")
    return {name: build_component(plugins.find("metric", name), {}) for name in names}


def described(part: Named) -> dict[str, Any]:
    """Return what a judge's verdicts or a control's numbers depend on, JSON-ready."""
    fields = settings(part.value).items()
    return {
        "name": part.name,
        "version": part.version,
        "fields": {name: value for name, value in fields if name not in part.value.practical},
        "provenance": dict(part.value.provenance),
        "note": part.value.note,
    }


def provenance(editor: Editor) -> dict[str, str]:
    """Return the digests of what an editor's edits depend on: of its parts also class and fields."""
    found = dict(editor.provenance)
    for number, part in enumerate(editor.parts, 1):
        fields = json.dumps(settings(part), sort_keys=True)
        made_of = {"fields": hashlib.sha256(fields.encode()).hexdigest(), **provenance(part)}
        name = f"{number}.{type(part).__name__.lower()}"
        found |= {f"{name}.{key}": value for key, value in made_of.items()}
    return found
