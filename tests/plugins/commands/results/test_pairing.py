"""Pairs of runs: which cases are compared, and the tests against scipy's and by hand."""

import numpy as np
import pytest
from scipy import stats as scipy_stats
from support.builders import replace, with_entries
from support.loops import Push
from support.made_runs import NAMES, made
from support.oracles import bent

from edit_harness import Metric, Regime, stats
from edit_harness.folder.table import RunTable
from edit_harness.interfaces import Measure
from edit_harness_plugins import pairing
from edit_harness_plugins.pairing import ALPHA, Pairing


@pytest.fixture(scope="module")
def runs(folder):
    return made(folder, Push()), made(folder, "prompt")


@pytest.fixture(scope="module")
def compared(runs):
    return contrasts(*runs)


def contrasts(*runs):
    return {each.name: each for each in Pairing(*runs).contrasts}


def values(run, metric, name):
    return RunTable.of(run.records).columns(metric)[name]


def test_means_are_tested_as_scipy_does_and_shares_by_the_cases_that_changed(runs, compared):
    found = compared["NM"]
    one, two = (values(run, "magnitude", "post_NM") for run in runs)
    assert found.test == pairing.T_TEST
    assert found.p == pytest.approx(scipy_stats.ttest_rel(two, one).pvalue)
    assert (found.first, found.second) == (pytest.approx(one.mean()), pytest.approx(two.mean()))
    assert found.difference.value == pytest.approx((two - one).mean())
    assert found.effect == pytest.approx((two - one).mean() / (two - one).std(ddof=1))
    assert found.difference.n == len(NAMES)
    found = compared["ES"]
    one, two = (values(run, "success", "post_ES") for run in runs)
    assert set(one) | set(two) <= {0.0, 1.0}
    assert (found.gained, found.lost) == (int((two > one).sum()), int((two < one).sum()))
    assert found.test == pairing.MCNEMAR
    assert found.gained + found.lost  # or the next line would show nothing
    expected = scipy_stats.binomtest(found.gained, found.gained + found.lost).pvalue
    assert found.p == pytest.approx(expected)


def test_the_interval_is_that_of_the_differences(runs, compared):
    """By the rule of all intervals, whatever the test of p is: no wider than two exact shares leave."""
    for name, metric in [("NM", "magnitude"), ("ES", "success")]:
        found = compared[name].difference
        one, two = (values(run, metric, f"post_{name}") for run in runs)
        span = 2.0 if name == "NM" else 1.0
        low, high = bent(two - one)
        more, less = (10 * np.clip(x / span, 0, 1).mean() for x in (two - one, one - two))
        beta = scipy_stats.beta.ppf
        ends = [
            [beta(0.005, k, 11 - k) if k else 0, beta(0.995, k + 1, 10 - k)] for k in (more, less)
        ]
        low = max(low, span * (ends[0][0] - ends[1][1]))
        high = min(high, span * (ends[0][1] - ends[1][0]))
        assert (found.low, found.high) == pytest.approx((low, high))


def test_a_run_does_not_differ_from_itself(runs):
    for found in contrasts(runs[0], runs[0]).values():
        low, high = found.measure.limits
        assert found.difference.value == 0
        rest = 1 - 0.005 ** (1 / found.difference.n)
        if np.isfinite(high):
            assert found.difference.high == pytest.approx(rest * (high - low))
        else:
            assert np.isnan(found.difference.high)
        assert not found.differs
        assert found.p in (None, 1.0)


def test_corrected_ps_are_those_of_all_measures_and_a_harmonic_mean_has_its_standard_error(
    compared, runs
):
    found = compared
    tested = [each for each in found.values() if each.p is not None]
    expected = scipy_stats.false_discovery_control([each.p for each in tested])
    assert [each.adjusted for each in tested] == pytest.approx(list(expected))
    assert all(each.differs == (each.adjusted <= ALPHA) for each in tested)
    # By its derivatives, h² / 3m², written out; it is corrected like all others.
    found = compared["S"]
    moves = np.zeros(10)
    for sign, run in zip((-1, 1), runs, strict=True):
        columns = [values(run, "success", f"post_{m}S") for m in "EPN"]
        h = stats.harmonic_mean([column.mean() for column in columns])
        if h:  # it is 0 whatever one case says
            moves += sign * sum(h**2 / (3 * c.mean() ** 2) * (c - c.mean()) for c in columns)
    t = found.difference.value / (moves.std(ddof=1) / np.sqrt(10))
    assert (found.test, found.units, found.effect) == (pairing.JACKKNIFE, 10, None)
    assert found.p == pytest.approx(2 * scipy_stats.t.sf(abs(t), 9), rel=1e-6)
    assert found.differs == (found.adjusted <= ALPHA)


class Pooled(Metric):
    """Right answers of all checks, which cases have different numbers of."""

    measures = {"P": Measure("pooled", unit="")}  # noqa: RUF012

    def measure(self, case, before, after):
        raise NotImplementedError

    def summarize(self, columns):
        return {"post_P": float((columns["post_P"] * columns["post_P checks"]).sum())}


def test_what_is_no_mean_over_cases_is_not_tested_as_one(runs):
    def pooled(run, top):
        rows = [
            replace(r, values={"pooled": {"post_P": p, "post_P checks": 2.0}})
            for r, p in zip(run.everything, np.linspace(0, top, 10), strict=True)
        ]
        return replace(run, metrics={"pooled": Pooled()}, everything=rows)

    (found,) = Pairing(pooled(runs[0], 0.5), pooled(runs[1], 1.0)).contrasts
    assert found.test == pairing.JACKKNIFE
    assert found.difference.value == pytest.approx(2 * 10 * 0.25)


def test_cases_of_one_run_alone_or_that_asked_or_answered_something_else_are_left_out(runs):
    one, two = (
        replace(run, everything=[r for r in run.everything if r.case not in missing])
        for run, missing in zip(runs, ("3", "01"), strict=True)
    )
    pair = Pairing(one, two)
    assert [one.case for one, _ in pair.records] == ["2", "4", "5", "6", "7", "8", "9"]
    assert pair.left_out == {"measured in A alone": 2, "measured in B alone": 1}
    cases = [replace(c, tags={"new": "tag"}) if c.id == "2" else c for c in runs[1].cases]
    (record,) = [r for r in runs[1].everything if r.case == "4"]
    logprobs = [[p - 0.01 for p in row] for row in record.before[0]["logprobs"]]
    before = [{**record.before[0], "logprobs": logprobs}, *record.before[1:]]
    rows = [replace(r, before=before) if r is record else r for r in runs[1].everything]
    other = replace(runs[1], everything=rows)
    other.__dict__.update(cases=cases, by_id={case.id: case for case in cases})
    pair = Pairing(runs[0], other)
    assert not {"2", "4"} & {one.case for one, _ in pair.records}
    assert pair.left_out == {"of another content": 1, "unlike before the edit": 1}
    manifest = with_entries(runs[1].manifest, identity={"model": {"digest": "another"}})
    another = replace(runs[1], everything=rows, manifest=manifest)
    assert not Pairing(runs[0], another).left_out, "another model may say something else"


def test_what_one_run_has_no_value_of_is_left_out_of_both(folder, runs):
    """A failed edit has no magnitude, and counts as a failure in success."""
    failing = made(folder, Push(fails=("Ann",)))
    found = contrasts(failing, runs[1])
    assert found["NS"].difference.n == len(NAMES)
    assert found["NM"].difference.n == len(NAMES) - 1
    kept = np.array([r.case != "2" for r in runs[1].records])
    assert found["NM"].second == pytest.approx(values(runs[1], "magnitude", "post_NM")[kept].mean())


def test_batches_are_what_is_tested(folder, runs):
    """Ten cases, three at once: four batches, of which the means are compared."""
    batches = made(folder, Push(), regime=Regime("batch", 3)), runs[1]
    pair = Pairing(*batches)
    assert pair.clusters.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
    found = {each.name: each for each in pair.contrasts}["NM"]
    sides = [values(run, "magnitude", "post_NM") for run in batches]
    changes = sides[1] - sides[0]
    sums = [(changes[i : i + 3] - changes.mean()).sum() for i in (0, 3, 6, 9)]
    numbers = changes.mean() + np.array(sums) * 4 / 10
    assert found.difference.value == pytest.approx(changes.mean()) == numbers.mean()
    assert found.p == pytest.approx(scipy_stats.ttest_1samp(numbers, 0).pvalue)
    assert found.units == 4
    assert pairing.MCNEMAR not in {each.test for each in pair.contrasts}
    whole = made(folder, Push(), regime=Regime("batch", 0))
    assert Pairing(whole, whole).clusters is None, "one batch leaves its cases to be compared"
    # Batches of both sides are joined.
    assert pairing._joined([0, 0, 1, 1, 2], [7, 8, 8, 9, 5]).tolist() == [0, 0, 0, 0, 1]
    assert len(set(pairing._joined([0, 1, 2], [2, 1, 0]).tolist())) == 3


def test_a_difference_that_is_the_same_everywhere_is_found(runs):
    """t is not defined without a spread, and ten cases of ten are no chance."""
    rows = [
        replace(r, values={"magnitude": {"post_NM": r.values["magnitude"]["post_NM"] + 0.5}})
        for r in runs[0].everything
    ]
    found = contrasts(runs[0], replace(runs[1], everything=rows))["NM"]
    assert found.test == pairing.SIGN
    assert found.p == pytest.approx(2 / 2**10)
    rest = 1 - 0.005 ** (1 / 10)
    ends = [0.5 + rest * (limit - 0.5) for limit in (-2, 2)]
    assert [found.difference.low, found.difference.high] == pytest.approx(ends)
