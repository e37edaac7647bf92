import math

import pytest

from edit_harness import Measure
from edit_harness.run.report import MeasureRow, interval, lines, number, show, table
from edit_harness.stats import Estimate
from edit_harness_plugins.commands.report.formats import listed, render, rich
from edit_harness_plugins.commands.report.layouts import combined

PERCENT, NATS = Measure("x"), Measure("x", "lower", "nats")


@pytest.mark.parametrize(
    ("value", "measure", "floor", "text"),
    [
        (0.526, PERCENT, 0.0, "52.6"),
        (-1.0, PERCENT, 0.0, "-100.0"),
        (0.0, NATS, 0.0, "0"),
        (1.23456, NATS, 0.0, "1.23"),
        (2.5e-5, NATS, 0.0, "2.5e-05"),
        (2.5e-5, NATS, 1.2e-4, "< 0.00012"),
        (2.5e-4, NATS, 1.2e-4, "0.00025"),
        (2.5e-5, PERCENT, 1.2e-4, "0.0"),
        (-5e-3, NATS, 1e-4, "-0.005"),
        (-5e-5, NATS, 1e-4, "< 0.0001"),
        (-8e-4, NATS, 0.0, "-0.0008"),
        (6.2915, Measure("x", unit="0.01 bits"), 0.0, "629.1"),
        (999.4, Measure("x", unit=""), 0.0, "999"),
        (1234567.8, Measure("x", unit=""), 0.0, "1,234,568"),
        (-1000.0, Measure("x", unit=""), 0.0, "-1,000"),
    ],
)
def test_numbers_have_the_digits_of_their_unit_and_none_below_the_floor(
    value, measure, floor, text
):
    assert number(value, MeasureRow("x", measure, None, None, floor=floor)) == text


def test_a_table_has_the_measures_in_their_order_and_dashes_for_what_was_not_measured():
    nan = Estimate(math.nan, math.nan, math.nan, 0)
    assert show(None, PERCENT) == show(nan, PERCENT) == interval(None, PERCENT) == "–"
    estimates = {"post_b": Estimate(0.5, 0.4, 0.6, 7), "pre_a": Estimate(0.9, 0.8, 1.0, 7)}
    text = table(list(lines({"a": PERCENT, "c": PERCENT, "b": PERCENT}, estimates, {}, {})))
    lines_of_it = [line.split() for line in text.splitlines()]
    assert ["Metric", "Before", "After", "99%", "CI", "n"] in lines_of_it
    assert [line for line in lines_of_it if line[:1] in (["a"], ["b"], ["c"])] == [
        ["a", "↑", "90.0", "–", "–", "7"],
        ["b", "↑", "–", "50.0", "40.0", "–", "60.0", "7"],
    ]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_table_of_many_runs_fits_the_terminal(width):
    names = [f"M{i}" for i in range(11)]
    estimates = {f"post_{name}": Estimate(-1.0, 0, 1, 9) for name in names}
    rows = list(lines(dict.fromkeys(names, PERCENT), estimates, {}, {}))
    runs = [("rome[C=I]", "[red]"), ("none", "1")]
    parts = rich([combined(["Editor", "Seed"], runs, [rows, rows])], width)
    text = "".join(render(part, width) for part in parts)
    assert max(map(len, text.splitlines())) <= width
    assert text.count("-100.0") == 2 * len(names)
    assert "[red]" in text


def test_cells_of_every_size_have_a_text():
    row = {"a": 999.7, "b": 12345.678, "c": float("inf"), "d": float("nan"), "e": None, "f": -0.25}
    text = render(listed("sizes", [row, {"a": 3, "b": 1234, "f": "x"}]))
    assert "1,000" in text
    assert "12,346" in text
    assert "inf" in text
    assert "-0.25" in text
    assert "1,234" in text
