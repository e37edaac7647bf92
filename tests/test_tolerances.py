"""Tolerances against what counting and drawing say of them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edit_harness.stats import Estimate, column_means, estimates
from edit_harness_plugins.commands.studies.reproduce import tolerances
from edit_harness_plugins.commands.studies.reproduce.tolerances import (
    APART,
    OUTSIDE,
    UNTOLD,
    WITHIN,
)


def estimate(value, half=0.0, n=100):
    return Estimate(value, value - half, value + half, n)


def test_two_samples_of_one_mean_are_outside_as_often_as_the_level_says():
    """Of 99 %: about 1 in 100, and 1 in 15 if the intervals were not both counted."""
    rng = np.random.default_rng(0)
    draws = rng.normal(0.4, 1, (4000, 2))
    error = np.array([0.8, 0.5])
    half = 2.5758 * error
    far = np.abs((draws - 0.4) @ np.diag(error) @ [1, -1])
    both = tolerances.tolerance(half[0], half[1], 0.0)
    assert 0.006 < np.mean(far > both) < 0.015
    assert np.mean(far > tolerances.tolerance(half[0], None, 0.0)) > 0.02


def test_rounding_is_allowed_for_in_full():
    """A number that was rounded is at most half a digit from what it was."""
    for exact in np.linspace(0, 1, 997):
        assert abs(round(exact, 2) - exact) <= tolerances.tolerance(0.0, None, 0.005) + 1e-12


def test_the_width_is_that_of_the_side_on_which_the_printed_number_is():
    ours = Estimate(0.5, 0.4, 0.9, 50)
    assert tolerances.width(ours, 0.7) == pytest.approx(0.4)
    assert tolerances.width(ours, 0.3) == pytest.approx(0.1)
    assert tolerances.width(Estimate(0.5, math.nan, math.nan, 1), 0.3) == math.inf


def test_an_interval_of_another_level_is_taken_to_ours():
    rng = np.random.default_rng(0)
    column = {"x": rng.normal(size=4000)}
    wide, narrow = (estimates(column, column_means, level=level)["x"] for level in (0.99, 0.95))
    found = tolerances.scaled((narrow.high - narrow.low) / 2, 0.95, 0.99)
    assert found == pytest.approx((wide.high - wide.low) / 2, rel=0.1)


@given(
    ours=st.floats(0, 1), printed=st.floats(0, 1), allowed=st.floats(0, 1), most=st.floats(0, 1),
    n=st.integers(0, 60),
)  # fmt: skip
def test_a_verdict_is_what_its_words_say(ours, printed, allowed, most, n):
    verdict = tolerances.of_value(estimate(ours, n=n), printed, allowed, most).verdict
    near = abs(ours - printed) <= allowed
    if n < tolerances.LEAST:
        assert verdict == UNTOLD
    elif near:
        assert verdict == (WITHIN if allowed <= most else UNTOLD)
    else:
        assert verdict == OUTSIDE


def test_no_number_is_never_within():
    assert tolerances.of_value(estimate(math.nan), 0.5, 1.0, 1.0).verdict == APART
    assert tolerances.of_value(estimate(0.5), 0.5, math.inf, 0.1).verdict == UNTOLD


def test_what_would_let_a_quarter_of_the_table_pass_says_nothing():
    assert tolerances.coarsest([0.1, 0.5, 0.3], 0.005) == pytest.approx(0.1)
    assert tolerances.coarsest([1.0, 1.0], 0.005) == pytest.approx(0.01)
    assert tolerances.coarsest([], 0.005) == pytest.approx(0.01)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3, 0.5, 1.0])
def test_printed_shares_of_one_truth_are_seldom_taken_apart(share):
    """Every outcome of two samples of 81, by its probability."""
    n = 81
    likely = np.array([math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(n + 1)])
    wrong = sum(
        likely[i] * likely[j]
        for i in range(n + 1)
        for j in range(n + 1)
        if likely[i] * likely[j] > 1e-9 and tolerances.apart(i / n, j / n, n, 0.99)
    )
    assert wrong < 0.012


def test_printed_shares_that_are_far_apart_are_taken_apart():
    assert tolerances.apart(1.0, 0.7, 81, 0.99)
    assert not tolerances.apart(1.0, 0.0, 0, 0.99)
    assert not tolerances.apart(1.0, 0.8, 5, 0.99)


def test_an_order_is_kept_reversed_or_chance():
    assert tolerances.of_order(0.2, 0.001, 0.99, 80).verdict == WITHIN
    assert tolerances.of_order(-0.2, 0.001, 0.99, 80).verdict == OUTSIDE
    assert tolerances.of_order(0.2, 0.02, 0.99, 80).verdict == UNTOLD
    assert tolerances.of_order(0.0, None, 0.99, 80).verdict == UNTOLD


def test_a_figure_is_of_its_own_cases():
    assert tolerances.of_figure(estimate(0.5), 0.50005, 100, 1e-4).verdict == WITHIN
    assert tolerances.of_figure(estimate(0.5), 0.5002, 100, 1e-4).verdict == OUTSIDE
    assert tolerances.of_figure(estimate(0.5, n=10), 0.5, 100, 1e-4).verdict == APART
