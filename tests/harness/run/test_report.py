import math

import pytest

from edit_harness import Measure
from edit_harness.run.report import MeasureRow, interval, lines, number, show, table
from edit_harness.stats import Estimate

PERCENT, NATS = Measure("x"), Measure("x", "lower", "nats")


@pytest.mark.parametrize(
    ("value", "measure", "floor", "text"),
    [
        (0.526, PERCENT, 0.0, "52.6"),
        (0.0, NATS, 0.0, "0"),
        (1.23456, NATS, 0.0, "1.23"),
        (2.5e-5, NATS, 0.0, "2.5e-05"),
        (2.5e-5, NATS, 1.2e-4, "< 0.00012"),
        (2.5e-4, NATS, 1.2e-4, "0.00025"),
        (-5e-5, NATS, 1e-4, "< 0.0001"),
        (6.2915, Measure("x", unit="0.01 bits"), 0.0, "629.1"),
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
