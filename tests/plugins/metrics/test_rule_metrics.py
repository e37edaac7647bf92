"""The measures of RULE-EDIT, against cases by hand and naive versions; verdicts are made up."""

import math

import numpy as np
import pytest
from support.builders import REQUEST
from support.seesaw_cases import cells

from edit_harness import Case, Generate, Key, Probe, Text, Verdict
from edit_harness_plugins.intervals import bootstrap
from edit_harness_plugins.metrics.verdicts.rules import (
    RuleAnswers,
    RuleHierarchy,
    RuleLocality,
    agreement,
)

RIGHT = Verdict("decided", 1.0)
WRONG = Verdict("decided", 0.0)
REVERTED = Verdict("decided", 0.0, reverted=True)
UNDECIDED = Verdict("undecided", 0.0)
PENDING = Verdict("pending")
KEY = Key("formula", "x", "y")
EXACT = 1e-12
"""Means of a few numbers differ by roundings of their order alone."""


def probe(role, **tags):
    return Probe(role, Generate("a"), tags, KEY)


def case(*probes):
    return Case("0", (REQUEST,), probes)


def texts(*verdicts, text="A = x"):
    return [Text(text, verdict) for verdict in verdicts]


FORMULA = case(
    probe("efficacy"), probe("paraphrase"), probe("paraphrase"),
    probe("instance", kind="direct"), probe("instance", kind="direct"),
    probe("instance", kind="steps"), probe("understanding", of="description"),
    probe("neighborhood", kind="same_shape"),
)  # fmt: skip
LINKED = case(
    probe("efficacy"), probe("hierarchy", of="formula", link="published"),
    probe("hierarchy", of="instance", link="published"),
    probe("hierarchy", of="instance", link="ours"),
)  # fmt: skip


# Answers


def test_shares_of_right_answers_by_hand():
    before = texts(REVERTED, REVERTED, WRONG, WRONG, WRONG, WRONG, WRONG, None)
    after = texts(RIGHT, RIGHT, REVERTED, RIGHT, UNDECIDED, WRONG, RIGHT, RIGHT)
    values = RuleAnswers().measure(FORMULA, before, after)
    assert values == pytest.approx({
        "pre_Rel": 0, "pre_Gen": 0, "pre_IP": 0, "pre_IP-direct": 0, "pre_IP-steps": 0,
        "pre_RU": 0, "pre_RU-d": 0, "pre_Rev": 2 / 7, "pre_Undecided": 0,
        "post_Rel": 1, "post_Gen": 1 / 2, "post_IP": 1 / 3, "post_IP-direct": 1 / 2,
        "post_IP-steps": 0, "post_RU": 1, "post_RU-d": 1, "post_Rev": 1 / 7,
        "post_Undecided": 1 / 7,
    }, rel=EXACT)  # fmt: skip
    # A failed edit counts as wrong.
    values = RuleAnswers().failed(FORMULA, texts(RIGHT, *[WRONG] * 6, None))
    assert {n: v for n, v in values.items() if n.startswith("post_")} == {
        "post_Rel": 0, "post_Gen": 0, "post_IP": 0, "post_IP-direct": 0, "post_IP-steps": 0,
        "post_RU-d": 0, "post_RU": 0,
    }  # fmt: skip
    assert values["pre_Rel"] == 1
    assert not any(name.startswith("pre_") for name in RuleAnswers().failed(FORMULA, []))
    unkeyed = case(Probe("efficacy", Generate("a")), Probe("neighborhood", Generate("a")))
    for metric in (RuleAnswers(), RuleLocality(), RuleHierarchy()):
        assert metric.failed(unkeyed, []) == {}, "questions of other tasks"


@pytest.mark.parametrize(
    ("formula", "description", "expected"),
    [
        (RIGHT, WRONG, {"RU-f": 1, "RU-d": 0, "RU": 1 / 2, "Rev": 0, "Undecided": 0}),
        (UNDECIDED, REVERTED, {"RU-f": 0, "RU-d": 0, "RU": 0, "Rev": 1 / 2, "Undecided": 1 / 2}),
        (PENDING, RIGHT, {"RU-d": 1, "Rev": 0, "Undecided": 0}),
        (PENDING, PENDING, {}),
    ],
)
def test_understanding_is_the_mean_of_both_where_both_are_known(formula, description, expected):
    one = case(*(probe("understanding", of=of) for of in ("formula", "description")))
    values = RuleAnswers().measure(one, texts(None, None), texts(formula, description))
    assert values == {f"post_{name}": value for name, value in expected.items()}


# Localities


NEIGHBORS = case(
    probe("neighborhood", kind="same_shape"), probe("neighborhood", kind="other_shape"),
    probe("efficacy"),
)  # fmt: skip


def test_localities_by_hand():
    before = [Text(" A = 2*x"), Text(" pi times"), Text("x")]
    after = [Text(" A = 3*x", WRONG), Text(" pi times ", RIGHT), Text("y", WRONG)]
    values = RuleLocality().measure(NEIGHBORS, before, after)
    assert values == pytest.approx({
        "post_Loc": (4 / 5 + 1) / 2, "post_Loc-exact": 1 / 2, "post_Loc-sem": 1 / 2,
        "post_Loc-same-shape": 4 / 5, "post_Loc-other-shape": 1, "post_Loc-undecided": 0,
    }, rel=EXACT)  # fmt: skip
    failed = values.keys() - {"post_Loc-undecided"}
    assert RuleLocality().failed(NEIGHBORS, []) == dict.fromkeys(failed, 0.0)


def test_what_the_judge_has_not_said_is_left_out_and_texts_are_compared():
    after = [Text("a", PENDING), Text("a", UNDECIDED), Text("a", RIGHT)]
    values = RuleLocality().measure(NEIGHBORS, texts(None, None, None, text="a"), after)
    assert values == {
        "post_Loc": 1, "post_Loc-exact": 1, "post_Loc-sem": 0, "post_Loc-same-shape": 1,
        "post_Loc-other-shape": 1, "post_Loc-undecided": 1,
    }  # fmt: skip
    unjudged = RuleLocality().measure(NEIGHBORS, *[texts(None, None, None)] * 2)
    assert "post_Loc" in unjudged
    assert "post_Loc-sem" not in unjudged


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("A = x*y", "A = x*y", 1), ("A = x*y", "A=x * y", 1), ("A = x*y", "A = x+y", 4 / 5),
        ("A = x*y", "A = x*y. And more", 1), ("A = x*y", "A =", 2 / 5), ("A = x*y", "", 0),
        ("", "", 1), ("", "x", 0), (" \n", "", 1), ("2πr²", "2πr", 0), ("78.54", "78.5", 2 / 3),
        ("one two", "two one", 0), ("a_1 b1", "a_2 b1", 1 / 2), ("x", "x y", 1), ("(x).", "(x)!", 3 / 4),
    ],
)  # fmt: skip
def test_agreement_by_hand(old, new, expected):
    assert agreement(old, new) == pytest.approx(expected, rel=EXACT)


# What depends on a rule


def test_checks_by_hand():
    values = RuleHierarchy().measure(
        LINKED, texts(RIGHT, REVERTED, WRONG, PENDING), texts(RIGHT, RIGHT, UNDECIDED, RIGHT)
    )
    post = {n.removeprefix("post_"): v for n, v in values.items() if n.startswith("post_")}
    assert post == pytest.approx({
        "HG": 2 / 3, "HG checks": 3, "HG-f": 1, "HG-f checks": 1, "HG-i": 1 / 2,
        "HG-i checks": 2, "HG-published": 1 / 2, "HG-published checks": 2, "HG-ours": 1,
        "HG-ours checks": 1,
    }, rel=EXACT)  # fmt: skip
    assert (values["pre_HG"], values["pre_HG checks"]) == (0, 2)
    assert "pre_HG-ours" not in values
    # A failed edit fails every check.
    values = RuleHierarchy().failed(LINKED, [])
    assert (values["post_HG"], values["post_HG checks"]) == (0, 3)
    assert values.keys() == RuleHierarchy().measure(
        LINKED, texts(*[None] * 4), texts(*[RIGHT] * 4)
    ).keys()  # fmt: skip


def test_checks_are_pooled_over_cases_and_resampled_with_them():
    ours, published = ({"of": "formula", "link": "ours"}, {"of": "instance", "link": "published"})
    checks = [[(ours, RIGHT)] * 3, [(published, WRONG)], [(ours, RIGHT), (ours, PENDING)]]
    cases = [case(*(probe("hierarchy", **tags) for tags, _ in each)) for each in checks]
    verdicts = [[verdict for _, verdict in each] for each in checks]
    answers = [(texts(*[None] * len(each)), texts(*each)) for each in verdicts]
    table = cells(RuleHierarchy(), cases, answers)
    assert RuleHierarchy().summarize(table) == pytest.approx({
        "post_HG": 4 / 5, "post_HG-f": 1, "post_HG-i": 0, "post_HG-ours": 1,
        "post_HG-published": 0,
    }, rel=EXACT)  # fmt: skip
    found = bootstrap(table, RuleHierarchy().summarize, resamples=200)["post_HG"]
    assert found.value == pytest.approx(4 / 5, rel=EXACT)
    assert found.n == 3
    assert 0 <= found.low < 4 / 5 < found.high <= 1
    nothing = {n: np.full(2, np.nan) for n in ("post_HG", "post_HG checks")}
    assert math.isnan(RuleHierarchy().summarize(nothing)["post_HG"])
