import math
from dataclasses import astuple

import numpy as np
import pytest

from edit_harness import stats
from edit_harness.stats import bootstrap, column_means, harmonic_mean

NAN = float("nan")


def normal(cases, seed=0):
    return np.random.default_rng(seed).normal(size=cases)


def test_means_leave_out_the_cases_without_a_value():
    means = column_means({"a": np.array([1.0, NAN, 3.0]), "b": np.array([NAN, NAN, NAN])})
    assert means["a"] == 2
    assert math.isnan(means["b"])


def test_harmonic_mean():
    assert harmonic_mean([90, 80, 70]) == pytest.approx(79.16, abs=5e-3)
    assert harmonic_mean([0.4]) == pytest.approx(0.4)
    assert harmonic_mean([1, 0, 1]) == 0
    assert harmonic_mean([1, -0.5, 1]) == 0
    assert math.isnan(harmonic_mean([1, NAN, 0]))


def test_constant_data_have_an_interval_without_width():
    estimate = bootstrap({"a": np.full(30, 0.25)}, column_means)["a"]
    assert (estimate.value, estimate.low, estimate.high, estimate.n) == (0.25, 0.25, 0.25, 30)


@pytest.mark.parametrize("cases", [0, 1])
def test_too_few_cases_for_an_interval(cases):
    estimate = bootstrap({"a": np.full(cases, 0.5)}, column_means)["a"]
    expected = 0.5 if cases else NAN
    np.testing.assert_equal((estimate.value, estimate.low, estimate.high), (expected,) * 3)
    assert estimate.n == cases


def test_a_column_without_any_value():
    estimate = bootstrap({"a": np.full(5, NAN)}, column_means, resamples=10)["a"]
    assert math.isnan(estimate.low)
    assert estimate.n == 0


def test_a_case_without_a_value_is_not_counted():
    columns = {"a": np.array([1.0, NAN, 0.0, 1.0])}
    assert bootstrap(columns, column_means, resamples=10)["a"].n == 3


def test_the_seed_decides():
    columns = {"a": normal(40)}
    first, same, other = (bootstrap(columns, column_means, seed=s)["a"] for s in (1, 1, 2))
    assert first == same
    assert first.value == other.value
    assert first.low != other.low


def test_the_width_is_that_of_the_normal_approximation():
    values = normal(400)
    for level, z in [(0.99, 2.576), (0.9, 1.645)]:
        estimate = bootstrap({"a": values}, column_means, level=level, resamples=4000)["a"]
        half = z * values.std() / math.sqrt(len(values))
        assert estimate.high - estimate.value == pytest.approx(half, rel=0.12)
        assert estimate.value - estimate.low == pytest.approx(half, rel=0.12)


def test_the_interval_covers_the_truth_as_often_as_it_says():
    truths = 0
    for seed in range(300):
        columns = {"a": normal(60, seed)}
        found = bootstrap(columns, column_means, level=0.9, resamples=200, seed=seed)["a"]
        truths += found.low <= 0 <= found.high
    # 0.9 with a standard error of 0.017; a bootstrap of 60 cases covers a little less.
    assert 0.83 <= truths / 300 <= 0.95


def test_distinct_counts_a_case_once():
    sizes = []

    def summarize(columns):
        picked = columns["a"]
        sizes.append(len(picked))
        assert len(np.unique(picked)) == len(picked)
        return {"share": len(picked)}

    bootstrap({"a": np.arange(500.0)}, summarize, resamples=100, distinct=True)
    assert sizes[0] == 500
    assert np.mean(sizes[1:]) / 500 == pytest.approx(1 - 1 / math.e, abs=0.005)


def test_distinct_makes_the_interval_too_narrow():
    columns = {"a": normal(500)}
    fair, narrow = (
        bootstrap(columns, column_means, resamples=4000, distinct=distinct)["a"]
        for distinct in (False, True)
    )
    # A draw of a share p without putting back: sqrt((1 - p) / p), with p = 1 - 1/e.
    assert (narrow.high - narrow.low) / (fair.high - fair.low) == pytest.approx(0.763, abs=0.06)


def test_the_cases_of_several_columns_are_drawn_together():
    columns = {"a": normal(50), "b": -normal(50)}

    def summarize(columns):
        return {"sum": float(columns["a"].mean() + columns["b"].mean())}

    estimate = bootstrap(columns, summarize, resamples=100)["sum"]
    assert estimate.high - estimate.low < 1e-12
    assert estimate.n == 50


def test_a_harmonic_mean_gets_an_interval_of_its_own():
    rng = np.random.default_rng(0)
    columns = {name: rng.uniform(0.2, 1, size=100) for name in "abc"}

    def summarize(columns):
        means = column_means(columns)
        return means | {"S": harmonic_mean(list(means.values()))}

    found = bootstrap(columns, summarize, resamples=1000)
    assert found["S"].value == pytest.approx(harmonic_mean([found[n].value for n in "abc"]))
    assert found["S"].low < found["S"].value < found["S"].high
    # Three independent columns: their mean varies less than any of them.
    width = {name: estimate.high - estimate.low for name, estimate in found.items()}
    assert width["S"] == pytest.approx(width["a"] / math.sqrt(3), rel=0.2)


def median(columns):
    return {name: float(np.median(np.nan_to_num(values))) for name, values in columns.items()}


def harmonic(columns):
    means = stats.column_means(columns)
    return {**means, "h": stats.harmonic_mean([means["a"], means["b"]])}


@pytest.mark.parametrize("summarize", [stats.column_means, median, harmonic])
def test_many_cases_have_the_interval_that_few_would_have(monkeypatch, summarize):
    """What is a summary of means is computed from counts, and whatever is not in the plain way."""
    rng = np.random.default_rng(1)
    columns = {"a": rng.random(300), "b": rng.random(300), "c": np.full(300, np.nan)}
    columns["b"][::3] = np.nan
    plain = stats.bootstrap(columns, summarize, resamples=200)
    monkeypatch.setattr(stats, "MANY", 1)
    quick = stats.bootstrap(columns, summarize, resamples=200)
    assert quick.keys() == plain.keys()
    for name, estimate in plain.items():
        assert astuple(quick[name]) == pytest.approx(astuple(estimate), rel=1e-12, nan_ok=True)
    assert stats._goes_by_means(columns, summarize) == (summarize is not median)


def test_a_large_run_has_the_interval_that_its_cases_would_have(monkeypatch):
    """Random groups of cases vary as cases do, also where few cases have a value or cases differ."""
    rng = np.random.default_rng(2)
    columns = {"a": rng.random(9000), "b": rng.exponential(size=9000), "c": rng.random(9000)}
    columns["b"][::3] = np.nan
    columns["c"][np.arange(9000) % 90 > 0] = np.nan
    monkeypatch.setattr(stats, "LARGE", 9000)
    monkeypatch.setattr(stats, "GROUPS", 4000)
    found = stats.bootstrap(columns, stats.column_means, resamples=4000)
    assert found == stats.bootstrap(columns, stats.column_means, resamples=4000), "the seed decides"
    monkeypatch.setattr(stats, "LARGE", 9001)
    plain = stats.bootstrap(columns, stats.column_means, resamples=4000)
    for name, estimate in plain.items():
        assert (found[name].value, found[name].n) == (estimate.value, estimate.n)
        half = (estimate.high - estimate.low) / 2
        assert found[name].low == pytest.approx(estimate.low, abs=0.12 * half)
        assert found[name].high == pytest.approx(estimate.high, abs=0.12 * half)
    assert found["a"] != plain["a"]


@pytest.mark.parametrize("batches", [2, 3, 5])
def test_few_batches_cover_the_truth_as_often_as_they_say(batches):
    """Percentiles of two batches miss it in half of all cases."""
    rng, missed = np.random.default_rng(0), 0
    groups = np.repeat(np.arange(batches), 5)
    for _ in range(300):
        values = rng.normal(size=batches)[groups] + rng.normal(size=len(groups))
        found = bootstrap({"a": values}, column_means, resamples=200, groups=groups)["a"]
        missed += not found.low <= 0 <= found.high
    assert missed <= 10  # 1 % of 300 are 3


def test_few_batches_have_the_interval_of_student():
    groups = np.repeat([0, 1, 2], 4)
    values = normal(12)
    means = values.reshape(3, 4).mean(axis=1)
    error = means.std(ddof=1) / math.sqrt(3)
    found = bootstrap({"a": values}, column_means, resamples=20_000, groups=groups)["a"]
    assert found.high - found.value == pytest.approx(9.925 * error, rel=0.02)
    assert found.value - found.low == pytest.approx(9.925 * error, rel=0.02)


def test_an_interval_keeps_to_what_a_value_can_be():
    kept = stats.Estimate(0.9, 0.4, 1.4, 5).within((0.5, 1.0))
    assert (kept.value, kept.low, kept.high) == (0.9, 0.5, 1.0)
