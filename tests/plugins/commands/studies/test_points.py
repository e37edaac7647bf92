"""The points of a sweep: what flags ask for, the best of the points, and how all of them are shown."""

import json
import math
from types import SimpleNamespace

import pytest

from edit_harness import Measure, UsageError
from edit_harness.registry.registry import Plugins
from edit_harness.stats import Estimate
from edit_harness_plugins.commands.studies.sweep import points
from edit_harness_plugins.commands.studies.sweep.points import SweepResults


@pytest.fixture(scope="module")
def plugins():
    return Plugins.installed()


def test_layers_and_flags_that_are_no_grid():
    for text, found in (("all", "0123"), ("1-3", "123"), (" 0 , 2 - 3 ", "023")):
        assert points.layers(text, 4) == list(found)
    for text in ("4", "2-9", "3-1", "first"):
        told = f"^--layers has '{text}', and the model has layers 0 to 3"
        with pytest.raises(UsageError, match=told):
            points.layers(text, 4)
    for flags, cause in (
        (([], None, None), "a sweep without a grid has nothing to try"),
        ((["lr="], None, None), "--grid 'lr=' is not of the form FIELD=V,V,…"),
        ((["layer=1"], "all", None), "the grid has field layer twice"),
    ):
        with pytest.raises(UsageError, match=cause):
            points.asked(*flags)


def test_axes_have_values_of_the_fields_types_once(plugins):
    rome, memit = plugins.find("editor", "rome"), plugins.find("editor", "memit")
    found = points.axes(rome, {"layer": "0-1", "lr": "0.5,.5,1", "covariance": "true,false"}, 2)
    assert found == {"layer": [0, 1], "lr": [0.5, 1.0], "covariance": [True, False]}
    assert points.axes(memit, {"layers": "0,1; 1"}, 2) == {"layers": [(0, 1), (1,)]}
    with pytest.raises(UsageError, match="field lr='x' is not float"):
        points.axes(rome, {"lr": "0.5,x"}, 2)


LAYERS = {"layer": [0, 1, 2]}
BOTH = {**LAYERS, "fact_token": ["subject_last", "last"]}
KNOWN = {
    "ES": Measure("efficacy"),
    "PS": Measure("paraphrases"),
    "NKL": Measure("drift", better="lower", unit="nats"),
}


def run(around=0.1, n=10, **values):
    """Stand in for a run that has estimates, with limits as far below and above."""
    numbers = {name: Estimate(v, v - around, v + around, n) for name, v in values.items()}

    class Made(SimpleNamespace):
        def __getitem__(self, name):
            return numbers[name]

    estimates = {f"post_{name}": estimate for name, estimate in numbers.items()}
    return Made(estimates=estimates, folder=SimpleNamespace(path="results/x"))


def results(axes, values, names=("ES", "PS"), **more):
    known = {**KNOWN, **more}
    runs = list(zip(points.points(axes), [run(**value) for value in values], strict=True))
    return SweepResults.of(axes, runs, names, known)


SIX = [
    {"ES": 0.5, "PS": 0.5}, {"ES": 0.9, "PS": 0.7}, {"ES": 0.8, "PS": 0.8},
    {"ES": 0.2, "PS": 0.2}, {"ES": 0.75, "PS": 0.75}, {"ES": 0.9},
]  # fmt: skip


def test_the_best_is_the_first_of_the_highest_mean():
    found = results(BOTH, SIX)
    assert found.best is found.points[1]
    assert found.best.score.value == pytest.approx(0.8)
    assert (found.best.score.low, found.best.score.high) == pytest.approx((0.7, 0.9))
    assert [found.points.index(each) for each in found.ranked] == [1, 2, 4, 0, 3, 5]
    assert math.isnan(found.points[5].score.value)
    best = "layer=0, fact_token=last: mean of ES, PS 80.0 (70.0 – 90.0)"
    assert found.conclusions[0] == ("best", best)
    # The data have every point, and no NaN.
    data = json.loads(json.dumps(found.data(), allow_nan=False))
    assert data["grid"] == BOTH
    assert data["best"] == {"layer": 0, "fact_token": "last"}
    assert len(data["points"]) == 6
    assert data["points"][0]["measures"]["ES"] == {"value": 0.5, "low": 0.4, "high": 0.6, "n": 10}
    assert data["points"][5]["score"] is None
    # Maps have the first field from left to right.
    efficacy, paraphrase = found.maps()
    assert (efficacy.rows, efficacy.columns) == (["subject_last", "last"], ["0", "1", "2"])
    assert efficacy.values == [[50.0, 80.0, 75.0], [90.0, 20.0, 90.0]]
    assert paraphrase.values[1][2] is None
    assert (efficacy.x, efficacy.y) == ("layer", "fact_token")


def test_the_tasks_own_score_goes_before_a_mean():
    values = [{"ES": 0.9, "S": 0.2}, {"ES": 0.1, "S": 0.7}, {"ES": 0.5, "S": 0.1}]
    found = results(LAYERS, values, names=("ES",), S=Measure("harmonic mean"))
    assert (found.score, found.averaged) == ("S", [])
    assert found.best.point == {"layer": 1}
    assert found.conclusions[0] == ("best", "layer=1: S 70.0 (60.0 – 80.0)")
    assert found.table("t").columns == ["S ↑", "ES ↑"]


def test_a_points_numbers_are_those_of_its_run():
    """Item 2 of issue 18: a sweep has no rule of its own."""
    values = [{"ES": 1.0, "around": 0.2, "n": 5}, {"ES": 0.8, "around": 0.1, "n": 5}]
    found = results({"layer": [0, 1]}, values, names=("ES",))
    assert found.best.numbers["ES"] == found.best.run["ES"]


def test_what_is_lower_when_better_or_of_no_point_is_not_in_the_mean():
    values = [{"ES": 0.5, "NKL": 0.1}, {"ES": 0.6, "NKL": 9.0}, {"ES": 0.4, "NKL": 0.2}]
    found = results(LAYERS, values, names=("ES", "NKL"))
    assert (found.averaged, found.best.point) == (["ES"], {"layer": 1})
    assert [heat.title for heat in found.maps()] == ["ES ↑", "NKL ↓"]
    assert found.maps()[1].values == [[0.1, 9.0, 0.2]]
    found = results(LAYERS, [{"ES": 0.5}, {"ES": 0.6}, {}])
    assert (found.averaged, list(found.measures)) == (["ES"], ["ES"])
    assert found.best.point == {"layer": 1}
    found = results(LAYERS, [{}, {}, {}])
    assert (found.best, found.measures) == (None, {})
    assert found.conclusions == [("best", "no point has a score, so that none is the best")]


def test_one_field_keeps_its_order_and_more_are_sorted():
    assert [names for names, _ in results(LAYERS, SIX[:3]).table("t").rows] == [["0"], ["1"], ["2"]]
    axes = {**BOTH, "lr": [0.1, 0.5]}
    many = results(axes, [{"ES": i / 20, "PS": i / 20} for i in range(12)])
    assert many.maps() == []
    grid = many.table("title")
    assert [names for names, _ in grid.rows][:2] == [["2", "last", "0.5"], ["2", "last", "0.1"]]
    assert len(grid.rows) == 10
    assert grid.rows[0][1][0].mark == "best", "what they are sorted by is first"


def test_what_is_mapped_is_what_runs_have():
    own = {"ET": Measure("a"), "PT": Measure("b"), "DT": Measure("c", detail=True)}
    assert points.mapped([], own) == ["ET", "PT"], "as the table of a run has them"
    assert points.mapped([], KNOWN) == ["ES", "PS"]
    assert points.mapped(["ES", "NKL"], KNOWN) == ["ES", "NKL"]
    for names, cause in ((["ES", "XX"], "has no measure 'XX'"), (["NKL"], "NKL has no share")):
        with pytest.raises(UsageError, match=cause):
            points.mapped(names, KNOWN)
