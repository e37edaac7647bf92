from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import pytest

from edit_harness import FROM_PRESET, UsageError
from edit_harness.registry.settings import (
    Bounds,
    Count,
    Natural,
    NotNegative,
    Positive,
    build,
    check,
    convert,
    defaults,
    field_types,
    parse,
)


@dataclass
class Settings:
    kept: ClassVar[int] = 1
    lr: float = 0.5
    layers: tuple[int, ...] = (3, 4)
    steps: int | None = None
    loss: Literal["nll", "kl"] = "nll"
    verbose: bool = False
    name: str = ""
    names: list = field(default_factory=lambda: ["a"])
    hidden: int = field(default=0, init=False)


class Plain:
    pass


@pytest.mark.parametrize(
    ("texts", "settings"),
    [
        (["layer=5"], {"layer": "5"}),
        (["layer=5,lr=0.5"], {"layer": "5", "lr": "0.5"}),
        (["layer=5", "lr=0.5"], {"layer": "5", "lr": "0.5"}),
        (["layers=4,5,6,lr=1"], {"layers": "4,5,6", "lr": "1"}),
        ([" layer = 5 , lr = 1 "], {"layer": "5", "lr": "1"}),
        (["path=/a=b,c"], {"path": "/a=b,c"}),
        (["layer=5,layer=6"], {"layer": "6"}),
        (["name="], {"name": ""}),
        ([], {}),
    ],
)
def test_texts_are_split_into_settings(texts, settings):
    assert parse(texts) == settings


@pytest.mark.parametrize("text", ["layer", "5", "", "=5", "4,layer=5"])
def test_a_text_without_a_key(text):
    with pytest.raises(UsageError, match="is not of the form KEY=VALUE"):
        parse([text])


def test_values_get_the_types_of_the_fields():
    texts = {"lr": "1e-3", "layers": "5,6", "steps": "7", "loss": "kl", "verbose": "yes"}
    built = build(Settings, texts | {"name": "0"}, "editor 'x'")
    assert built == Settings(0.001, (5, 6), 7, "kl", True, "0")


def test_values_that_are_no_texts_are_taken_as_they_are():
    assert build(Settings, {"layers": (1,), "steps": None}, "editor 'x'").layers == (1,)


def test_an_unknown_field_is_named_with_what_was_meant_and_what_there_is():
    with pytest.raises(UsageError) as caught:
        build(Settings, {"layer": "5"}, "editor 'x'")
    assert caught.value.cause == "editor 'x' has no field 'layer'; did you mean layers?"
    assert caught.value.remedy == "its fields: lr, layers, steps, loss, verbose, name, names"


def test_a_plugin_without_fields():
    assert isinstance(build(Plain, {}, "metric 'x'"), Plain)
    with pytest.raises(UsageError, match="metric 'x' has no field 'lr'\nit has no fields"):
        build(Plain, {"lr": "1"}, "metric 'x'")
    assert field_types(Plain) == {}
    assert defaults(Plain) == {}


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ({"lr": "fast"}, "editor 'x': field lr='fast' is not of type float"),
        ({"steps": "1.5"}, "editor 'x': field steps='1.5' is not of type int"),
        ({"layers": "1,two"}, "editor 'x': field layers='1,two' is not of type int"),
        ({"loss": "mse"}, "editor 'x': field loss='mse' is not one of nll, kl"),
        ({"verbose": "maybe"}, "editor 'x': field verbose='maybe' is not true or false"),
    ],
)
def test_a_value_of_the_wrong_type(setting, problem):
    with pytest.raises(UsageError) as caught:
        build(Settings, setting, "editor 'x'")
    assert caught.value.cause == problem


def test_only_what_can_be_set_is_a_field():
    assert set(defaults(Settings)) == set(field_types(Settings))
    assert not {"kept", "hidden"} & set(defaults(Settings))
    assert defaults(Settings)["names"] == ["a"]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("False", bool, False),
        ("ON", bool, True),
        ("4, 5,", tuple[int, ...], (4, 5)),
        ("", tuple[int, ...], ()),
        ("1,2", tuple[float, ...] | None, (1.0, 2.0)),
        ("a,b", str, "a,b"),
    ],
)
def test_what_a_text_means(text, kind, value):
    assert convert(text, kind) == value


def test_a_base_class_may_annotate_its_own_variables():
    class Base:
        names: ClassVar[Sequence[str]] = ()

    @dataclass
    class Child(Base):
        size: int = 1

    assert field_types(Child) == {"size": int}


@dataclass
class Bounded:
    """A plugin with bounds."""

    steps: Count = FROM_PRESET
    layer: Natural = 0
    rate: Positive = 1.0
    decay: NotNegative = 0.0
    share: Annotated[float, Bounds(0, below=1)] = 0.5


@pytest.mark.parametrize(
    ("field", "value", "bounds"),
    [
        ("steps", "0", "at least 1"),
        ("layer", "-1", "at least 0"),
        ("rate", "0", "above 0"),
        ("decay", "-0.1", "at least 0"),
        ("share", "1", "at least 0 and below 1"),
    ],
)
def test_a_number_out_of_bounds_is_refused(field, value, bounds):
    with pytest.raises(UsageError) as caught:
        build(Bounded, {field: value}, "editor x")
    assert caught.value.cause.startswith(f"editor x: field {field}={value}")
    assert caught.value.cause.endswith(f"is not {bounds}")


def test_bounds_hold_for_what_is_given_as_an_object_too():
    check(Bounded(), "x")
    check(Bounded(steps=1, rate=1e-9, share=0), "x")
    check(object(), "x")
    for bad in (Bounded(steps=0), Bounded(rate=float("nan")), Bounded(decay=float("nan"))):
        with pytest.raises(UsageError):
            check(bad, "x")


def test_a_setting_that_is_refused_on_purpose_says_what_to_do_instead_and_not_what_was_given():
    @dataclass
    class Locked:
        bolt: int = 1
        instead: ClassVar[dict[str, str]] = {"lock": "keys are in the drawer"}

    with pytest.raises(UsageError) as caught:
        build(Locked, {"lock": "4711"}, "judge 'x'")
    assert str(caught.value) == "judge 'x' has no field 'lock'\nkeys are in the drawer"
