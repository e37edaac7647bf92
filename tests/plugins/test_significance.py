"""The tests against scipy's, and against what must not matter."""

import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from edit_harness_plugins import significance
from edit_harness_plugins.significance import TTest

NAN = float("nan")
CLOSE = 1e-9
"""Relative: sums of at most 40 values of like size differ by their order by 1e-14 or so, and a
difference of means keeps 1e-9 of that where the values spread by a millionth of their size."""

value = st.integers(-1000, 1000).map(lambda n: n / 8)
samples = st.lists(value, min_size=2, max_size=40)
answers = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30)


@pytest.fixture(autouse=True)
def _no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def varied(*lists):
    assume(any(len(set(values)) > 1 for values in lists))


@given(samples)
def test_one_sample_is_that_of_scipy(values):
    varied(values)
    found, theirs = significance.one_sample([*values, NAN]), scipy_stats.ttest_1samp(values, 0)
    assert found.n == len(values)
    low, high = theirs.confidence_interval(0.95)
    assert [found.t, found.p] == pytest.approx([theirs.statistic, theirs.pvalue], rel=CLOSE)
    assert [found.low, found.high] == pytest.approx([low, high], rel=CLOSE, abs=1e-9)


@given(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), min_size=1, max_size=60))
def test_sums_suffice(values):
    found = significance.of_sums(len(values), sum(values), sum(v * v for v in values))
    direct = significance.one_sample(values)
    if direct.p is None:
        assert found == direct
    else:
        assert [*vars(found).values()] == pytest.approx([*vars(direct).values()], rel=CLOSE)


def test_what_does_not_vary_is_no_find():
    """Where scipy says nan, or a p of 0."""
    assert significance.one_sample([NAN, NAN]) == TTest(None, None, None, None, None, 0)
    assert significance.of_sums(0, 0.0, 0.0) == TTest(None, None, None, None, None, 0)
    # The mean of three times 0.1 is another number than 0.1.
    for values, mean, n in (([0.5, NAN], 0.5, 1), ([0.1] * 3, 0.1, 3), ([1e-17] * 4, 1e-17, 4)):
        found = significance.one_sample(values)
        assert found == TTest(pytest.approx(mean, rel=1e-12), None, None, None, None, n)
        sums = (n * mean, n * mean * mean)
        assert significance.of_sums(n, *sums) == TTest(sums[0] / n, None, None, None, None, n)
    for before, after, mean in (
        ([1.0, 2.0], [], None),
        ([1.0], [2.0, 3.0], 1.5),
        ([0.0] * 2, [1.0] * 2, 1.0),
    ):
        untested = TTest(mean, None, None, None, None, len(before) + len(after))
        assert significance.two_sample(before, after) == untested


@given(st.lists(st.tuples(value, value), min_size=2, max_size=30))
def test_pairs_are_tested_by_their_differences(pairs):
    before, after = map(list, zip(*pairs, strict=True))
    varied([b - a for a, b in pairs])
    found, theirs = significance.paired(before, after), scipy_stats.ttest_rel(after, before)
    assert [found.t, found.p] == pytest.approx([theirs.statistic, theirs.pvalue], rel=CLOSE)
    assert significance.paired([*before, NAN, 1.0], [*after, 1.0, NAN]) == found


@given(samples, samples)
def test_two_samples_are_those_of_scipy(before, after):
    assume(len(set(before)) > 1 or len(set(after)) > 1)
    found = significance.two_sample(before, [*after, NAN])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy warns of a sample that does not vary
        theirs = scipy_stats.ttest_ind(after, before)
    low, high = theirs.confidence_interval(0.95)
    assert found.n == len(before) + len(after)
    assert [found.t, found.p] == pytest.approx([theirs.statistic, theirs.pvalue], rel=CLOSE)
    assert [found.low, found.high] == pytest.approx([low, high], rel=CLOSE, abs=1e-9)


@given(answers)
def test_mcnemar_counts_every_way_the_changes_could_have_gone(pairs):
    before, after = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    found = significance.mcnemar(before, after)
    lost = sum(a and not b for a, b in pairs)
    gained = sum(b and not a for a, b in pairs)
    assert (found.lost, found.gained, found.n) == (lost, gained, len(pairs))
    if not pairs:
        assert found.p is None
        return
    theirs = scipy_stats.binomtest(lost, lost + gained).pvalue if lost + gained else 1.0
    assert found.p == pytest.approx(theirs, rel=CLOSE)


def test_mcnemar_leaves_gaps_out_and_bears_many_cases():
    assert significance.mcnemar([1, NAN, 0], [NAN, 1, 0]) == significance.McNemar(0, 0, 1, 1.0)
    many = significance.mcnemar(np.ones(5000), np.zeros(5000))
    assert (many.lost, many.p) == (5000, 0.0)  # 2 ** -4999, which no float can tell from 0
    assert significance.mcnemar([1] * 6, [0] * 6).p == pytest.approx(2 / 64, rel=CLOSE)
    # What was not tested is not counted.
    assert significance.benjamini_hochberg([0.01, None, 0.04, NAN]) == [0.02, None, 0.04, None]


chances = st.lists(st.one_of(st.none(), st.integers(0, 1000).map(lambda n: n / 1000)), max_size=25)


@given(chances)
def test_the_correction_is_that_of_scipy(ps):
    tested = [p for p in ps if p is not None]
    expected = list(scipy_stats.false_discovery_control(tested)) if tested else []
    adjusted = significance.benjamini_hochberg(ps)
    assert [a is None for a in adjusted] == [p is None for p in ps]
    assert [a for a in adjusted if a is not None] == pytest.approx(expected)


@pytest.mark.parametrize("test", [significance.paired, significance.mcnemar])
def test_what_is_not_paired_is_refused(test):
    """One value would be taken from all, and the result look like one of three pairs."""
    for before, after in (([1.0], [1.0, 0.0, 0.0]), ([1.0, 0.0, 0.0], [1.0]), ([], [1.0])):
        with pytest.raises(ValueError, match="are no pairs"):
            test(before, after)
