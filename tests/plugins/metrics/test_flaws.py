"""The flaws of descriptions and what is said of their judge, against naive versions and by hand."""

import math
from statistics import mean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from support.seesaw_cases import CLOSE, case, cells, compared, description, person, sure, tables

from edit_harness import Generate, Key, Probe, Text, Verdict
from edit_harness_plugins.intervals import bootstrap
from edit_harness_plugins.metrics.people.flaws import FLAWS, Flaws
from edit_harness_plugins.metrics.verdicts.judging import Judging
from edit_harness_plugins.significance import one_sample

METRIC, JUDGING = Flaws(), Judging()
OLD = Text("before")
PENDING, UNPARSED = compared("pending"), compared("unparsed", served="m", usage={"tokens": 5})


def rated(score=1.0, served="", swapped=None, usage=None, **ratings):
    return compared(ratings=ratings, score=score, served=served, swapped=swapped, usage=usage or {})


def values_of(*answers, metric=METRIC):
    one = case(*[description()] * len(answers))
    return metric.measure(one, [OLD] * len(answers), list(answers))


# A case


def test_means_are_over_pairs_and_what_is_no_verdict_counts_nowhere():
    values = values_of(
        rated(sexism=1.0, religion=-1.0),
        rated(sexism=1.0, religion=0.0, score=0.0),
        rated(sexism=1.0, score=0.5),
        rated(sexism=0.0),
    )
    posts = {name: value for name, value in values.items() if name.startswith("post_")}
    assert posts == pytest.approx(
        {"post_Sexism": 3 / 4, "post_Religion": -0.5, "post_Reflected": 2 / 4}, abs=CLOSE
    )
    assert values["pairs Sexism, edit reflected"] == 2, "none that reflects it in part"
    assert values["sum Religion, edit reflected"] == -1
    assert METRIC.failed(case(description()), [OLD]) == {}
    unasked = METRIC.measure(case(description(reflected=False)), [OLD], [rated(sexism=1.0)])
    assert unasked["post_Sexism"] == 1
    assert not any("eflected" in name for name in unasked)
    assert values_of(PENDING, compared("undecided", score=0.0), Text("text")) == {}
    values = values_of(UNPARSED, rated(sexism=1.0, served="m"))
    assert values["post_Sexism"] == values["pairs Sexism"] == 1
    assert (values["unparsed"], values["verdicts"]) == (1, 2)
    cases = [case(description()), case(person()), case(description())]
    answers = [([OLD], [PENDING]), ([sure(0.0)], [sure(0.1)]), ([OLD], [UNPARSED])]
    assert tables(METRIC, cases, answers) == {}


# Many cases

verdicts = st.lists(
    st.tuples(st.sampled_from([-1.0, 0.0, 1.0]), st.booleans(), st.booleans()), max_size=5
)
runs = st.lists(st.tuples(st.sampled_from(["P21", "P27"]), verdicts), max_size=8)


def made(run):
    """Return cases of pairs: what is said of sexism, whether the edit shows, whether it is said."""
    cases = [
        case(*[description()] * len(pairs), name=str(i), edited=of)
        for i, (of, pairs) in enumerate(run)
    ]
    answers = [
        (
            [OLD] * len(pairs),
            [rated(float(shows), sexism=r) if told else PENDING for r, shows, told in pairs],
        )
        for _, pairs in run
    ]
    return cases, answers


@given(runs)
def test_the_tests_are_over_pairs_and_over_cases(run):
    found = tables(METRIC, *made(run))
    edited = {of for of, _ in run}
    for name in ("P21", "P27", *([""] if len(edited) == 2 else [])):
        here = [[p for p in pairs if p[2]] for of, pairs in run if name in (of, "")]
        here = [pairs for pairs in here if pairs]
        suffix = f", {name}" if name else ""
        for title, values in (
            (f"flaws{suffix}", [r for pairs in here for r, _, _ in pairs]),
            (f"flaws{suffix}, edit reflected", [r for pairs in here for r, s, _ in pairs if s]),
            (f"flaws by case{suffix}", [mean(r for r, _, _ in pairs) for pairs in here]),
        ):
            assert (title in found) == bool(values)
            if values:
                (row,) = found[title]
                assert row["flaw"] == "Sexism"
                assert row["cases" if "by case" in title else "pairs"] == len(values)
                test = one_sample(values)
                found_here = [row[head] for head in ("mean", "t", "p", "p BH")]
                assert found_here == pytest.approx([test.mean, test.t, test.p, test.p], abs=CLOSE)


def test_the_correction_is_for_the_flaws():
    rng = np.random.default_rng(0)
    cases = [case(description(), name=str(i), edited="P101") for i in range(30)]
    ratings = rng.choice([-1.0, 0.0, 1.0], size=(30, len(FLAWS)), p=[0.2, 0.3, 0.5])
    named = [dict(zip(map(str.lower, FLAWS), row, strict=True)) for row in ratings.tolist()]
    found = tables(METRIC, cases, [([OLD], [rated(**each)]) for each in named])
    rows = found["flaws, P101"]
    ps = [scipy_stats.ttest_1samp(values, 0).pvalue for values in ratings.T]
    assert [row["flaw"] for row in rows] == list(FLAWS)
    assert len(FLAWS) == 7, "every flaw of the paper has a number"
    assert [row["p"] for row in rows] == pytest.approx(ps, rel=1e-9)
    corrected = scipy_stats.false_discovery_control(ps)
    assert [row["p BH"] for row in rows] == pytest.approx(list(corrected), rel=1e-9)
    title, *_ = found
    assert title == "flaws by edited property, over pairs; * p < 0.05, ** BH too"
    stars = (np.array([ps, corrected]) < 0.05).sum(axis=0)
    assert {*stars.tolist()} == {0, 1, 2}
    means = [f"{row['mean']:.3g}" + "*" * n for row, n in zip(rows, stars, strict=True)]
    assert [row["P101"] for row in found[title]] == means


def test_the_judge_s_failings_and_cost_stand_beside_the_flaws():
    def row_of(*answers):
        cases = [case(description(), name=str(i), edited="P21") for i in range(len(answers))]
        (row,) = tables(METRIC, cases, [([OLD], [each]) for each in answers])["flaws, P21"]
        return row

    judged = [
        rated(sexism=1.0, served="m", swapped=True, usage={"tokens": 10, "usd": 0.5}),
        rated(sexism=0.0, served="m", swapped=False, usage={"tokens": 20, "usd": 0.25}),
        rated(sexism=0.0, served="m"),
    ]
    row = row_of(*judged, UNPARSED)
    assert (row["unparsed"], row["swapped"], row["tokens"]) == (0.25, 0.5, 35)
    row = row_of(*judged)
    assert (row["unparsed"], row["swapped"], row["USD"]) == (0, 0.5, 0.75)
    assert math.isnan(row_of(rated(sexism=0.0, served="m"))["swapped"])
    assert "unparsed" not in row_of(rated(sexism=0.0)), "by a judge that is no model"


# The judge


def judging(*answers):
    """Return the judge's own numbers of cases, with intervals."""
    cases = [case(*[description()] * len(each), name=str(i)) for i, each in enumerate(answers)]
    columns = cells(JUDGING, cases, [([OLD] * len(each), each) for each in answers])
    return bootstrap(columns, JUDGING.summarize, resamples=50)


def test_the_judge_s_own_numbers_are_over_all_verdicts():
    """Not the mean over cases, since a case may have one text or many."""
    found = judging(
        [rated(served="m", swapped=True, usage={"tokens": 10}), UNPARSED],
        [rated(served="m", swapped=False, usage={"tokens": 30})] * 4,
        [rated(served="m", swapped=None)],
    )
    assert {name: (pytest.approx(each.value), each.n) for name, each in found.items()} == {
        "post_Unparsed": (1 / 7, 3), "post_Swapped": (1 / 5, 2), "post_Tokens": (135, 2),
    }  # fmt: skip


@pytest.mark.parametrize("priced", [{0, 1, 2}, {0, 1}, {2}])
def test_dollars_are_of_all_tokens_or_are_not_shown(priced):
    """One case has two texts, one has one, and another one that took no tokens."""
    usage = [{"tokens": 10} | ({"usd": 0.5} if i in priced else {}) for i in range(3)]
    paid = [rated(served="m", swapped=False, usage=each) for each in usage]
    found = judging(paid[:2], [*paid[2:], rated(served="m")])
    assert found["post_Tokens"].value == 30
    assert ("post_USD" in found) == (len(priced) == 3)
    if "post_USD" in found:
        assert (found["post_USD"].value, found["post_USD"].n) == (1.5, 2)


def test_texts_before_the_edit_are_judged_too_and_a_judge_that_is_no_model_is_not_told_of():
    one = case(Probe("efficacy", Generate("a"), key=Key("formula", "x")))
    paid = Text("t", Verdict("decided", 1.0, served="m", usage={"tokens": 3}))
    assert JUDGING.measure(one, [paid], [paid])["post_Tokens"] == 6
    assert JUDGING.failed(one, [paid])["post_Tokens"] == 3
    others = [rated(sexism=1.0), PENDING, compared("undecided", score=0.0), Text("text")]
    assert values_of(*others, metric=JUDGING) == {}
    assert JUDGING.failed(case(), []) == {}
