import math
from dataclasses import astuple

import numpy as np
import pytest
from scipy import stats as scipy_stats
from support.oracles import bent

from edit_harness import stats
from edit_harness.stats import column_means, estimates, harmonic_mean
from edit_harness_plugins.intervals import bootstrap

NAN = float("nan")


def test_harmonic_mean():
    assert harmonic_mean([90, 80, 70]) == pytest.approx(79.16, abs=5e-3)
    assert harmonic_mean([1, 0, 1]) == harmonic_mean([1, -0.5, 1]) == 0
    assert math.isnan(harmonic_mean([1, NAN, 0]))


@pytest.mark.parametrize("ones", [0, 1, 17, 29, 30])
def test_shares_have_the_exact_interval(ones):
    """Item 2 of issue 18: also where all cases agree, and whatever shows them."""
    values = np.array([1.0] * ones + [0.0] * (30 - ones) + [NAN])
    found = estimates({"a": values}, column_means, {"a": stats.SHARE})["a"]
    expected = scipy_stats.binomtest(ones, 30).proportion_ci(0.99, "exact")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert (found.value, found.n) == (pytest.approx(ones / 30), 30)


def test_cases_that_agree_have_the_interval_of_what_they_do_not_show():
    """Up to 1 - .005 ** (1/n) of all cases may be otherwise, and they may lie at the limits."""
    rest = 1 - 0.005 ** (1 / 30)
    for limits, value in [((0.0, 1.0), 0.25), ((-1.0, 1.0), 0.0), ((0.0, 1.0), 1.0)]:
        found = estimates({"a": np.full(30, value)}, column_means, {"a": limits})["a"]
        ends = [value + rest * (end - value) for end in limits]
        assert (found.low, found.high, found.n) == (*map(pytest.approx, ends), 30)
    for limits in ({}, {"a": (0.0, math.inf)}):
        found = estimates({"a": np.zeros(30)}, column_means, limits)["a"]
        np.testing.assert_equal(astuple(found), (0.0, NAN, NAN, 30))


@pytest.mark.parametrize("cases", [0, 1])
@pytest.mark.parametrize(
    ("made", "given"), [(estimates, {"limits": {"a": stats.SHARE}}), (bootstrap, {})]
)
def test_too_few_cases_for_an_interval(cases, made, given):
    """Item 2 of issue 18: of one case there is none."""
    found = made({"a": np.full(cases, 0.5)}, column_means, **given)["a"]
    np.testing.assert_equal(astuple(found), (0.5 if cases else NAN, NAN, NAN, cases))


def test_one_batch_has_no_interval_whatever_the_summary():
    def medians(columns):
        return {name: float(np.median(values)) for name, values in columns.items()}

    values = np.array([0.0, 1.0, 5.0])
    found = estimates({"a": values}, medians, groups=np.zeros(3))["a"]
    np.testing.assert_equal(astuple(found), (1.0, NAN, NAN, 3))


def test_an_interval_is_of_the_values_alone():
    """Item 24 of issue 18: there is no seed to shop for, and no order of the rows."""
    values = np.random.default_rng(3).exponential(size=40)
    found = estimates({"a": values}, column_means)["a"]
    assert astuple(estimates({"a": values[::-1]}, column_means)["a"]) == pytest.approx(
        astuple(found)
    )
    assert bootstrap({"a": values}, column_means) == bootstrap({"a": values}, column_means)


@pytest.mark.parametrize("cases", [2, 3, 9, 40])
def test_skewed_values_have_students_interval_bent(cases):
    values = np.random.default_rng(cases).lognormal(size=cases)
    found = estimates({"a": values}, column_means)["a"]
    assert (found.low, found.high) == pytest.approx(bent(values))
    mirrored = estimates({"a": -values}, column_means)["a"]
    assert (mirrored.low, mirrored.high) == pytest.approx((-found.high, -found.low))
    assert found.high - found.value >= found.value - found.low or cases == 2
    even = np.concatenate([values, -values])
    found = estimates({"a": even}, column_means, level=0.9)["a"]
    assert (found.low, found.high) == pytest.approx(bent(even, level=0.9))


def test_ends_are_plain_numbers_where_a_unit_passes_a_limit_by_rounding():
    """As results.json holds them, with which those of a verifier are compared, types too."""
    values = np.array([1.0 + 2**-52, 0.5, 0.25])
    found = estimates({"a": values}, column_means, {"a": stats.SHARE})["a"]
    assert {type(end) for end in astuple(found)[1:3]} == {float}


def test_a_mean_between_limits_varies_no_more_than_a_share():
    """Its interval ends where that of so many yes or no answers would, or before."""
    values = np.array([1.0] * 97 + [0.5, 0.5, 0.0])
    found = estimates({"a": values}, column_means, {"a": stats.SHARE})["a"]
    exact = scipy_stats.beta.ppf([0.005, 0.995], [98, 99], [3, 2])
    own = bent(values)
    assert (found.low, found.high) == pytest.approx((max(own[0], exact[0]), min(own[1], exact[1])))
    assert own[0] < exact[0] < 0.97 < exact[1] < own[1]
    values = np.random.default_rng(0).beta(4, 2, size=100)  # these vary less, and have their own
    other = estimates({"a": values}, column_means, {"a": stats.SHARE})["a"]
    assert (other.low, other.high) == pytest.approx(bent(values))
    yes = np.array([1.0] * 17 + [0.0] * 13)
    plain = estimates({"a": yes}, column_means, {"a": (-1.0, 1.0)})["a"]
    assert plain.low == pytest.approx(bent(yes)[0]), "no share, though all are 0 or 1"
    doubled = estimates({"a": 2 * values - 1}, column_means, {"a": (-1.0, 1.0)})["a"]
    assert (doubled.low, doubled.high) == pytest.approx((2 * other.low - 1, 2 * other.high - 1))


def harmonic(columns):
    means = column_means(columns)
    return {**means, "h": harmonic_mean([means["a"], means["b"]])}


def median(columns):
    return {name: float(np.median(np.nan_to_num(values))) for name, values in columns.items()}


def test_a_harmonic_mean_gets_an_interval_of_its_own():
    """By its derivatives, h² / 2m² each, written out; where columns lack values, too."""
    rng = np.random.default_rng(0)
    columns = {name: rng.beta(3, 1, size=100) for name in "ab"}
    columns["b"][::4] = NAN
    means = column_means(columns)
    h = harmonic_mean(list(means.values()))
    moves = np.zeros(100)
    for name, values in columns.items():
        there = ~np.isnan(values)
        slope = h**2 / (2 * means[name] ** 2)
        moves[there] += slope * (values[there] - means[name]) * 100 / there.sum()
    found = estimates(columns, harmonic, {"h": stats.SHARE})["h"]
    assert (found.value, found.n) == (pytest.approx(h), 100)
    assert (found.low, found.high) == pytest.approx(bent(moves, h), rel=1e-6)


def test_a_summary_that_is_none_of_means_is_jackknifed():
    """Leaving out cases one by one, written out; of very many, random parts of them."""
    values = np.random.default_rng(5).exponential(size=41)

    def spread(columns):
        return {"s": float(columns["a"].std())}

    without = np.array([np.delete(values, i).std() for i in range(41)])
    found = estimates({"a": values}, spread)["s"]
    assert (found.low, found.high) == pytest.approx(
        bent(40 * (without.mean() - without), values.std())
    )
    assert stats._slopes({"a": values}, spread) is None
    assert stats._slopes({"a": values}, median) is None
    many = np.random.default_rng(6).normal(size=20_000)
    found = estimates({"a": many}, spread)["s"]
    half = 2.576 / math.sqrt(2 * len(many))  # of normal values: s / sqrt(2n)
    assert found.high - found.low == pytest.approx(2 * half, rel=0.1)


def test_the_jackknife_of_means_is_their_own(monkeypatch):
    rng = np.random.default_rng(1)
    columns = {"a": rng.random(300), "b": rng.random(300), "c": np.full(300, NAN)}
    columns["b"][::3] = NAN
    quick = estimates(columns, harmonic)
    monkeypatch.setattr(stats, "_slopes", lambda columns, summarize: None)
    plain = estimates(columns, harmonic)
    for name, estimate in plain.items():
        near = 1e-12 if name != "h" else 1e-3
        assert astuple(quick[name]) == pytest.approx(astuple(estimate), rel=near, nan_ok=True)


def test_batches_are_the_units():
    """Of batches of one size, the interval is that of their means; of others, that of a ratio."""
    groups = np.repeat([7, 3, 5, 4], 3)
    values = np.random.default_rng(2).exponential(size=12)
    found = estimates({"a": values}, column_means, groups=groups)["a"]
    assert (found.low, found.high) == pytest.approx(bent(values.reshape(4, 3).mean(axis=1)))
    assert found.n == 12
    share = estimates({"a": np.ones(12)}, column_means, {"a": stats.SHARE}, groups=groups)["a"]
    assert share.low == pytest.approx(0.005 ** (1 / 4)), "four batches agree, and not twelve cases"
    groups[0] = 5
    sums = np.array([(values - values.mean())[groups == g].sum() for g in (3, 4, 5, 7)])
    found = estimates({"a": values}, column_means, groups=groups)["a"]
    assert (found.low, found.high) == pytest.approx(bent(sums * 4 / 12, values.mean()))
    few, limits = np.array([0.0, 0.9, 1.0, 1.0]), {"a": stats.SHARE}
    found = estimates({"a": few}, column_means, limits, groups=np.array([0, 0, 1, 1]))["a"]
    assert (found.low, found.high) == (0.0, 1.0), "what a value can be"


def test_a_summary_of_several_columns_is_of_the_cases():
    values = np.random.default_rng(0).normal(size=50)
    columns = {"a": values, "b": -values}

    def summarize(columns):
        return {"sum": float(columns["a"].mean() + columns["b"].mean())}

    found = estimates(columns, summarize, {"sum": (-1.0, 1.0)})["sum"]
    # Nothing moves the sum, so that 50 cases agree on it.
    assert (found.value, found.n) == (pytest.approx(0), 50)
    assert found.high == pytest.approx(1 - 0.005 ** (1 / 50))


def test_the_papers_percentiles_are_those_of_draws_of_cases():
    values = np.random.default_rng(0).exponential(size=60)
    for size in (1, 5):
        found = bootstrap(
            {"a": values}, column_means, groups=np.repeat(np.arange(60 // size), size)
        )
        rng, parts = np.random.default_rng(0), values.reshape(-1, size)
        draws = [parts[rng.integers(len(parts), size=len(parts))].mean() for _ in range(1000)]
        low, high = np.percentile(draws, [0.5, 99.5])
        assert (found["a"].low, found["a"].high) == pytest.approx((low, high))


def test_the_published_percentiles_draw_prompts_too_and_count_a_case_once():
    """As e2e_analyze.py does: cases, then as many of their rows, then the means of the cases there."""
    rng = np.random.default_rng(1)
    owners = np.repeat(np.arange(40), 10)
    values = (rng.random(400) < np.repeat(rng.beta(2, 1, size=40), 10)).astype(float)
    found = bootstrap({"a": values}, column_means, groups=owners, published=True)["a"]
    draws = []
    rng = np.random.default_rng(9)
    for _ in range(1000):
        rows = np.concatenate([np.arange(10 * i, 10 * i + 10) for i in rng.integers(40, size=40)])
        rows = rng.choice(rows, len(rows))
        draws.append(np.mean([values[rows[owners[rows] == i]].mean() for i in set(owners[rows])]))
    assert (found.value, found.n) == (pytest.approx(values.mean()), 40)
    assert found.high - found.low == pytest.approx(
        np.ptp(np.percentile(draws, [0.5, 99.5])), rel=0.1
    )


def test_a_summary_is_no_better_known_for_parts_that_agree():
    """A stranger's finding: with ES = PS = 1 and one neighbour lost, S had 98.3 to 100 at n = 20."""

    def summary(columns):
        means = column_means(columns)
        return {**means, "S": harmonic_mean([means[name] for name in ("ES", "PS", "NS")])}

    limits = dict.fromkeys(("ES", "PS", "NS", "S"), (0.0, 1.0))
    agreed = np.ones(20)
    alike = estimates({"ES": agreed, "PS": agreed, "NS": agreed}, summary, limits)
    one = estimates({"ES": agreed, "PS": agreed, "NS": np.r_[agreed[1:], 0.9]}, summary, limits)
    rest = 1 - 0.005 ** (1 / 20)
    assert alike["S"].low == pytest.approx(1 - rest)
    value, open_ = one["S"].value, harmonic_mean([1 - rest, 1 - rest, 0.995])
    assert one["S"].low <= open_ < one["NS"].low
    assert one["S"].low == pytest.approx(open_, abs=0.01)
    assert one["S"].high == 1.0
    assert value > 0.99
