"""Tolerances of printed numbers, against what counting and drawing say of them."""

import math

import numpy as np
import pytest

from edit_harness.stats import Estimate, column_means, estimates
from edit_harness_plugins.commands.studies.reproduce import verdicts
from edit_harness_plugins.commands.studies.reproduce.packs import Expected
from edit_harness_plugins.commands.studies.reproduce.verdicts import APART, OUTSIDE, UNTOLD, WITHIN


def estimate(value, half=0.0, n=100):
    return Estimate(value, value - half, value + half, n)


def printed(value, half=None, places=9, **more):
    """Return a printed number, with an interval that wide on both sides if there is one."""
    ends = {} if half is None else {"low": value - half, "high": value + half}
    return Expected("m", "e", "c", value, places=places, **ends, **more)


def test_rounding_is_allowed_for_in_full():
    """A number that was rounded is at most half a digit from what it was."""
    for exact in np.linspace(0, 1, 97):
        cell = printed(round(exact, 2), places=2)
        allowed = verdicts.tolerance(estimate(exact), cell, 0.99)
        assert abs(round(exact, 2) - exact) <= allowed + 1e-12
    # Printed shares that are far apart are taken apart.
    assert verdicts.apart(1.0, 0.7, 81, 0.99)
    assert not verdicts.apart(1.0, 0.0, 0, 0.99)
    assert not verdicts.apart(1.0, 0.8, 5, 0.99)
    assert not verdicts.apart(1.0, 0.91, 81, 0.99), (
        "by errors of the shares themselves, it would be"
    )


def test_the_width_is_that_of_the_side_on_which_the_printed_number_is():
    ours = Estimate(0.5, 0.4, 0.9, 50)
    assert verdicts.tolerance(ours, printed(0.7), 0.99) == pytest.approx(0.4)
    assert verdicts.tolerance(ours, printed(0.3), 0.99) == pytest.approx(0.1)
    none = Estimate(0.5, math.nan, math.nan, 1)
    assert verdicts.tolerance(none, printed(0.3), 0.99) == math.inf
    # An interval of another level is taken to ours.
    rng = np.random.default_rng(0)
    column = {"x": rng.normal(size=4000)}
    wide, narrow = (estimates(column, column_means, level=level)["x"] for level in (0.99, 0.95))
    cell = printed(0.0, (narrow.high - narrow.low) / 2)
    found = verdicts.tolerance(estimate(0.0), cell, 0.95)
    assert found == pytest.approx((wide.high - wide.low) / 2, rel=0.1)
    # Both are counted, as errors that know nothing of each other.
    assert verdicts.tolerance(estimate(0.0, 0.3), printed(0.1, 0.4), 0.99) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("ours", "n", "allowed", "most", "verdict"),
    [
        (0.6, verdicts.LEAST, 0.1, 0.1, WITHIN),
        (0.6, verdicts.LEAST, 0.09, 0.1, OUTSIDE),
        (0.4, verdicts.LEAST, 0.09, 0.05, OUTSIDE),
        (0.6, verdicts.LEAST, 0.2, 0.1, UNTOLD),
        (0.9, verdicts.LEAST - 1, 0.2, 0.2, UNTOLD),
        (0.5, 100, math.inf, 0.1, UNTOLD),
        (math.nan, 100, 1.0, 1.0, APART),
    ],
)
def test_a_verdict_is_what_its_words_say(ours, n, allowed, most, verdict):
    """Of 0.5, as it was printed."""
    assert verdicts.of_value(estimate(ours, n=n), 0.5, allowed, most).verdict == verdict


def test_what_would_let_a_quarter_of_the_table_pass_says_nothing():
    column = [printed(value, places=2) for value in (0.1, 0.5, 0.3)]
    assert verdicts.coarsest(column[0], column) == pytest.approx(0.1)
    assert verdicts.coarsest(column[0], column[:1] * 2) == pytest.approx(0.01)
    # Of a number alone in its column the whole table tells.
    values = {"a": -0.17, "b": 0.01, "c": -0.05}
    table = [Expected("m", "e", column, value, places=2) for column, value in values.items()]
    table.append(Expected("m", "e", "all", 5.0, places=2, apart="over other cases"))
    assert verdicts.coarsest(table[0], table) == pytest.approx(0.18 / 4)


def test_an_order_is_kept_reversed_or_chance_and_a_figure_of_its_own_cases():
    assert verdicts.of_order(estimate(0.2), 0.001).verdict == WITHIN
    assert verdicts.of_order(estimate(-0.2), 0.001).verdict == OUTSIDE
    assert verdicts.of_order(estimate(0.2), 0.02).verdict == UNTOLD
    assert verdicts.of_order(estimate(0.0), None).verdict == UNTOLD
    figure = printed(0.5, n=100, within=1e-4)
    assert verdicts.of_figure(estimate(0.50005), figure).verdict == WITHIN
    assert verdicts.of_figure(estimate(0.5002), figure).verdict == OUTSIDE
    assert verdicts.of_figure(estimate(0.5, n=10), figure).verdict == APART
