"""From flags to the points of a sweep."""

import re

import pytest

from edit_harness import UsageError
from edit_harness.registry.registry import Plugins
from edit_harness_plugins.commands.studies.sweep.grid import (
    Axis,
    asked,
    axes,
    check_fields,
    layers,
    named,
    points,
)


@pytest.fixture(scope="module")
def plugins():
    return Plugins.installed()


@pytest.mark.parametrize(
    ("text", "found"),
    [("all", [0, 1, 2, 3]), ("0,3", [0, 3]), ("1-3", [1, 2, 3]), (" 0 , 2 - 3 ", [0, 2, 3])],
)
def test_layers(text, found):
    assert layers(text, 4) == list(map(str, found))


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("4", "--layers has '4', and the model has layers 0 to 3"),
        ("2-9", "--layers has '2-9', and the model has layers 0 to 3"),
        ("3-1", "--layers has '3-1', and the model has layers 0 to 3"),
        ("1-", "--layers has '1-'"),
        ("-1", "--layers has '-1'"),
        ("1,", "--layers has ''"),
        ("first", "--layers has 'first'"),
    ],
)
def test_layers_that_are_none(text, cause):
    with pytest.raises(UsageError, match=f"^{re.escape(cause)}"):
        layers(text, 4)


def test_what_flags_ask_for():
    found = asked(["v_lr=0.1,0.5", "clamp = 4"], "all", "last")
    assert found == {"layer": "all", "fact_token": "last", "v_lr": "0.1,0.5", "clamp": " 4"}


@pytest.mark.parametrize(
    ("flags", "cause"),
    [
        (([], None, None), "a sweep without a grid has nothing to try"),
        ((["lr"], None, None), "--grid 'lr' is not of the form FIELD=V,V,…"),
        ((["lr="], None, None), "--grid 'lr=' is not of the form FIELD=V,V,…"),
        ((["layer=1"], "all", None), "the grid has field layer twice"),
    ],
)
def test_flags_that_are_no_grid(flags, cause):
    with pytest.raises(UsageError) as caught:
        asked(*flags)
    assert caught.value.cause == cause
    assert caught.value.remedy


def test_axes_have_values_of_the_fields_types_once(plugins):
    rome, memit = plugins.find("editor", "rome"), plugins.find("editor", "memit")
    assert axes(rome, {"layer": "0-1", "lr": "0.5,.5,1", "covariance": "yes,no"}, 2) == [
        Axis("layer", (0, 1)),
        Axis("lr", (0.5, 1.0)),
        Axis("covariance", (True, False)),
    ]
    assert axes(memit, {"layers": "0,1; 1"}, 2) == [Axis("layers", ((0, 1), (1,)))]
    with pytest.raises(UsageError, match="field lr='x' is not of type float"):
        axes(rome, {"lr": "0.5,x"}, 2)
    with pytest.raises(UsageError, match="is not one of subject_first, subject_last"):
        axes(rome, {"fact_token": "first"}, 2)


def test_the_last_axis_runs_fastest():
    grid = [Axis("layer", (0, 1)), Axis("layers", ((1, 2), (3,)))]
    assert points(grid) == [
        {"layer": 0, "layers": (1, 2)},
        {"layer": 0, "layers": (3,)},
        {"layer": 1, "layers": (1, 2)},
        {"layer": 1, "layers": (3,)},
    ]
    assert named(points(grid)[0]) == "layer=0, layers=1,2"
    assert str(grid[1]) == "layers 1,2, 3"


def test_an_editor_without_the_field_is_told_before_a_model_is_loaded(plugins):
    check_fields(plugins.find("editor", "rome"), ["layer", "fact_token"])
    with pytest.raises(UsageError, match="editor ft has no field 'fact_token'") as caught:
        check_fields(plugins.find("editor", "ft"), ["layer", "fact_token"])
    assert caught.value.remedy.startswith("its fields: layer, steps")
