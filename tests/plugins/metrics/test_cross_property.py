"""CP of Seesaw-CF, against naive versions and by hand."""

import math
from statistics import mean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders import scores
from support.seesaw_cases import CLOSE, WORK, case, effect, person, sure, tables

from edit_harness_plugins.metrics.people.cross_property import CrossProperty
from edit_harness_plugins.significance import mcnemar, two_sample

METRIC = CrossProperty()
GENDERS = ("male", "female")


def choosing(label, candidates=WORK):
    """An answer that finds one candidate the likeliest."""
    return scores(*([0.5] if each == label else [0.1] for each in candidates))


def of(probe, answer):
    """Return the values of a case with one probe after the edit, without their prefix."""
    values = METRIC.measure(case(probe), [answer], [answer])
    return {name.removeprefix("post_"): v for name, v in values.items() if name[:4] == "post"}


# A case


ASTRO = ("astrophysics", "law")
IS = "Ada's gender is"
TIE, NAN = scores([0.4], [0.4], [0.1], [0.1]), scores([0.4], [math.nan], [0.1], [0.1])


@pytest.mark.parametrize(
    ("probe", "answer", "expected"),
    [
        # By the published convention a part of the text will do, the prompt's too.
        (effect("male", GENDERS, IS), choosing("female", GENDERS), (0, 1)),
        (effect("male", GENDERS, IS), choosing("male", GENDERS), (1, 1)),
        (effect("female", GENDERS, IS), choosing("male", GENDERS), (0, 0)),
        (effect("physics", ASTRO), choosing("astrophysics", ASTRO), (0, 1)),
        (effect("law", prompt="Jude Lawson's law office is"), choosing("music"), (0, 1)),
        # Any label will do.
        (effect("law|music"), choosing("music"), (1, 1)),
        (effect("law|music"), choosing("physics"), (0, 0)),
        # A tie is wrong, and so are scores that are no numbers.
        (effect(WORK[0]), TIE, (0, 0)),
        (effect(WORK[1]), TIE, (0, 0)),
        (effect(WORK[0]), NAN, (0, 0)),
    ],
)
def test_the_likeliest_is_right_or_wrong(probe, answer, expected):
    right, published = expected
    assert of(probe, answer) == {"CP": right, "CP-norm": right, "CP-published": published}


def test_long_labels_by_sum_and_by_mean():
    long = scores([0.5, 0.5, 0.5], [0.3], [0.1], [0.1])  # 0.125 in all, 0.5 a token
    first, second = effect(WORK[0]), effect(WORK[1])
    assert (of(first, long)["CP"], of(first, long)["CP-norm"]) == (0, 1)
    assert (of(second, long)["CP"], of(second, long)["CP-norm"]) == (1, 0)


def test_several_prompts_of_a_case_are_one_value():
    """What is not known to be true is not asked."""
    one = case(effect("law"), effect("music"), effect(), person())
    after = [choosing("law"), choosing("law"), choosing("law"), sure(0.5)]
    values = METRIC.measure(one, after, after)
    assert values["post_CP"] == 0.5
    assert values["chance"] == 0.25
    two = METRIC.measure(case(effect("law|music")), after[:1], after[:1])
    assert two["chance"] == 0.5, "what guessing yields"
    assert set(METRIC.summarize({name: np.ones(1) for name in two})) == two.keys() - {"chance"}
    unasked = case(effect())
    assert METRIC.measure(unasked, [choosing("law")], [choosing("law")]) == {}
    assert METRIC.failed(unasked, [choosing("law")]) == {}


def test_a_failed_edit_is_wrong():
    one = case(effect("law"))
    assert METRIC.failed(one, [choosing("law")]) == {
        "pre_CP": 1, "pre_CP-norm": 1, "pre_CP-published": 1, "chance": 0.25,
        "post_CP": 0, "post_CP-norm": 0, "post_CP-published": 0,
    }  # fmt: skip
    assert set(METRIC.failed(one, [])) == {"post_CP", "post_CP-norm", "post_CP-published"}


# Many cases

PAIRS = [("P19", "P101"), ("P21", "P101"), ("P27", "P101"), ("P27", "P21")]
runs = st.lists(st.tuples(st.sampled_from(PAIRS), st.booleans(), st.booleans()), max_size=25)


def made(run):
    """Return the cases of a run, each by its pair and whether it is right before and after."""
    cases = [
        case(effect("law"), name=str(i), edited=edited, effect=asked)
        for i, ((edited, asked), _, _) in enumerate(run)
    ]
    right = {True: choosing("law"), False: choosing("music")}
    return cases, [([right[b]], [right[a]]) for _, b, a in run]


@given(runs)
def test_pairs_are_means_over_their_cases(run):
    cases, answers = made(run)
    found = tables(METRIC, cases, answers)
    assert bool(found) == bool(run)
    pairs = {pair for pair, _, _ in run}
    rows = {(row["edited"], row["asked"]): row for row in found.get("CP by pair", ())}
    tests = {(row["edited"], row["asked"]): row for row in found.get("tests of CP by pair", ())}
    assert rows.keys() - {("mean of rows", "")} == tests.keys() == pairs
    shown = []
    for pair in pairs:
        before, after = ([each[i] for each in run if each[0] == pair] for i in (1, 2))
        row, test = rows[pair], tests[pair]
        shown.append((mean(before), mean(after)))
        assert row["cases"] == len(before)
        assert row["chance"] == 0.25
        assert (row["before"], row["after"]) == pytest.approx(shown[-1], abs=CLOSE)
        assert row["change"] == pytest.approx(mean(after) - mean(before), abs=CLOSE)
        changed, unpaired = mcnemar(before, after), two_sample(before, after)
        assert (test["lost"], test["gained"], test["p"]) == (
            changed.lost, changed.gained, changed.p,
        )  # fmt: skip
        assert (test["t unpaired"], test["p unpaired"]) == (unpaired.t, unpaired.p)
    if len(pairs) > 1:
        row, means = rows["mean of rows", ""], [mean(each) for each in zip(*shown, strict=True)]
        assert [row["before"], row["after"]] == pytest.approx(means, abs=CLOSE)


def test_the_correction_is_for_the_pairs():
    run = [(PAIRS[0], True, False)] * 8 + [(PAIRS[1], True, False)] * 6
    run += [(PAIRS[2], True, True)] * 3
    found = tables(METRIC, *made(run))["tests of CP by pair"]
    assert [row["p"] for row in found] == [2 / 2**8, 2 / 2**6, 1]
    assert [row["p BH"] for row in found] == pytest.approx([6 / 2**8, 3 / 2**6, 1])
    # The published numbers have a table of their own.
    female = [choosing("female", GENDERS)]
    own = case(effect("male", GENDERS), edited="P27", effect="P21")
    own_table = tables(METRIC, [own], [(female, female)])
    befores = [own_table[f"{name} by pair"][0]["before"] for name in ("CP", "CP-published")]
    assert befores == [0, 1]


def test_when_every_edit_failed_all_is_lost():
    cases, answers = made([(PAIRS[0], True, True)] * 3)
    values = [METRIC.failed(c, before) for c, (before, _) in zip(cases, answers, strict=True)]
    columns = {name: np.array([each[name] for each in values]) for name in values[0]}
    (row,) = METRIC.tables(cases, columns)["tests of CP by pair"]
    assert (row["lost"], row["gained"], row["p"]) == (3, 0, 0.25)
