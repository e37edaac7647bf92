import math

import numpy as np
import pytest
from support.builders import case, scores

from edit_harness import Choose, Divergence, Drift, Probe
from edit_harness_plugins.metrics.preference import ROLES, Accuracy, Magnitude, Success

PAIR = ("Paris", "Rome")


def choose(role):
    return Probe(role, Choose("A prompt", PAIR))


ALL = case(*map(choose, ROLES))
NEW = scores([0.5], [0.25])
"""The new object is the likelier."""
TIE = scores([0.5], [0.5])


def test_success_asks_for_the_new_object_where_the_fact_is_and_for_the_true_one_elsewhere():
    true = scores([0.25], [0.5])
    assert Success().measure(ALL, [true] * 5, [NEW] * 5) == {
        "pre_ES": 0, "pre_PS": 0, "pre_NS": 1, "pre_NS+": 1, "pre_AS": 0,
        "post_ES": 1, "post_PS": 1, "post_NS": 0, "post_NS+": 0, "post_AS": 1,
    }  # fmt: skip
    probes = case(choose("efficacy"), *[choose("neighborhood")] * 4)
    values = Success().measure(probes, [NEW] * 5, [NEW] * 4 + [scores([0.1], [0.2])])
    assert values["post_NS"] == 0.25, "the mean runs over the prompts of a role"


@pytest.mark.parametrize("answer", [TIE, scores([math.nan], [0.5], wrong=[0, 1])])
def test_a_tie_fails_both_ways_and_so_does_what_is_no_number(answer):
    assert set(Success().measure(ALL, [answer] * 5, [answer] * 5).values()) == {0.0}
    sizes = Magnitude().measure(ALL, [answer] * 5, [answer] * 5)
    assert set(sizes.values()) == ({0.0} if answer is TIE else set())


@pytest.mark.parametrize(
    ("new", "true", "success"),
    [
        ([0.5], [0.4], 1),
        ([0.3], [0.5, 0.1], 1),  # sqrt(0.05) = 0.224
        ([0.2], [0.5, 0.1], 0),
        ([0.5, 0.5, 0.1], [0.3], 0),  # cube root of 0.025 = 0.292
        ([0.5, 0.5, 0.12], [0.3], 1),  # cube root of 0.03 = 0.311
        ([0.25, 0.25], [0.25], 0),
    ],
)
def test_objects_of_different_length_are_compared_by_the_mean_over_their_tokens(new, true, success):
    one = case(choose("efficacy"))
    answer = scores(new, true)
    assert Success().measure(one, [TIE], [answer])["post_ES"] == success
    size = math.prod(new) ** (1 / len(new)) - math.prod(true) ** (1 / len(true))
    assert Magnitude().measure(one, [TIE], [answer])["post_EM"] == pytest.approx(size)


def test_magnitude_is_the_right_probability_less_the_other():
    values = Magnitude().measure(ALL, [TIE] * 5, [NEW] * 5)
    assert values == pytest.approx(
        {"pre_EM": 0, "pre_PM": 0, "pre_NM": 0, "pre_NM+": 0, "pre_AM": 0}
        | {"post_EM": 0.25, "post_PM": 0.25, "post_NM": -0.25, "post_NM+": -0.25, "post_AM": 0.25}
    )


def test_accuracy_wants_every_token_of_the_right_object():
    probes = case(choose("efficacy"), choose("neighborhood"))
    slip = scores([0.5, 0.4, 0.3], [0.5, 0.1], wrong=[0])
    assert Accuracy().measure(probes, [slip, slip], [slip, slip]) == {
        "pre_EA": 0, "pre_NA": 1, "post_EA": 0, "post_NA": 1,
    }  # fmt: skip
    whole = scores([0.5, 0.4, 0.3], [0.5, 0.1], wrong=[1])
    assert Accuracy().measure(probes, [whole, whole], [whole, whole])["post_EA"] == 1


def test_an_object_that_is_offered_alone_is_the_right_one():
    probes = case(*(Probe(role, Choose("A prompt", ("Paris",))) for role in ROLES))
    right, slip = scores([0.5, 0.4]), scores([0.5, 0.4], wrong=[0])
    before, after = [slip] * 5, [right, right, right, slip, slip]
    assert Accuracy().measure(probes, before, after) == {
        "pre_EA": 0, "pre_PA": 0, "pre_NA": 0, "pre_NA+": 0, "pre_AA": 0,
        "post_EA": 1, "post_PA": 1, "post_NA": 1, "post_NA+": 0, "post_AA": 0,
    }  # fmt: skip
    assert Accuracy().failed(probes, [])["post_NA"] == 0


def test_what_offers_too_few_objects_or_plays_no_role_is_skipped():
    mixed = case(
        Probe("neighborhood", Drift("A prompt")),
        Probe("efficacy", Choose("A prompt", ("Paris",))),
        Probe("portability", Choose("A prompt", PAIR)),
        choose("paraphrase"),
    )
    answers = [Divergence(0.1, 0.1, 2), scores([0.5]), NEW, NEW]
    names_of = [(Success(), {"PS"}), (Magnitude(), {"PM"}), (Accuracy(), {"EA", "PA"})]
    for metric, names in names_of:
        values = metric.measure(mixed, answers, answers)
        assert set(values) == {f"{when}_{name}" for when in ("pre", "post") for name in names}
        assert metric.measure(case(), [], []) == {}
    assert Success().failed(mixed, answers) == {"pre_PS": 1, "post_PS": 0}


def test_answers_that_are_missing_are_not_overlooked():
    with pytest.raises(ValueError, match="shorter"):
        Success().measure(ALL, [NEW] * 5, [NEW] * 4)


def test_a_failed_edit_is_a_failure_everywhere_and_keeps_what_was_before():
    probes = case(choose("efficacy"), choose("neighborhood"))
    true = scores([0.25], [0.5])
    assert Success().failed(probes, [true, true]) == {
        "pre_ES": 0, "pre_NS": 1, "post_ES": 0, "post_NS": 0,
    }  # fmt: skip
    assert Accuracy().failed(probes, [true, true]) == {
        "pre_EA": 1, "pre_NA": 1, "post_EA": 0, "post_NA": 0,
    }  # fmt: skip
    assert Magnitude().failed(probes, [true, true]) == {"pre_EM": -0.25, "pre_NM": 0.25}


def test_s_is_the_harmonic_mean_of_the_means_of_three():
    columns = {
        "post_ES": np.array([1, 1, 1, 1, 0.5]),
        "post_PS": np.array([0.5, 1, 1, 1, 0.5]),
        "post_NS": np.array([0.7, 0.7, 0.7, 0.4, 1]),
        "post_NS+": np.array([0.0, 0, 0, 0, 0]),
        "pre_ES": np.array([0.0, 0, 0, 0, 0]),
    }
    means = Success().summarize(columns)
    assert means["post_S"] == pytest.approx(0.7916, abs=5e-5)  # of 90, 80 and 70
    assert means["post_NS+"] == 0
    assert "pre_S" not in means
