"""What a model prefers: scores of pairs of objects, of single answers, and what drifts near them."""

import math

import numpy as np
import pytest
from support.builders import case, scores

from edit_harness import Choose, Divergence, Drift, Probe, Scores
from edit_harness_plugins.metrics.drift import NeighborhoodKL
from edit_harness_plugins.metrics.preference import (
    ROLES,
    Accuracy,
    Magnitude,
    Success,
    TokenAccuracy,
    Unchanged,
)

PAIR = ("Paris", "Rome")


def choose(role, *objects):
    return Probe(role, Choose("A prompt", objects or PAIR))


ALL = case(*map(choose, ROLES))
NEW, TRUE = scores([0.5], [0.25]), scores([0.25], [0.5])
"""The new or the true object is the likelier."""
TIE = scores([0.5], [0.5])


def test_success_asks_for_the_new_object_where_the_fact_is_and_for_the_true_one_elsewhere():
    assert Success().measure(ALL, [TRUE] * 5, [NEW] * 5) == {
        "pre_ES": 0, "pre_PS": 0, "pre_NS": 1, "pre_NS+": 1, "pre_AS": 0,
        "post_ES": 1, "post_PS": 1, "post_NS": 0, "post_NS+": 0, "post_AS": 1,
    }  # fmt: skip
    assert Magnitude().measure(ALL, [TIE] * 5, [NEW] * 5) == pytest.approx({
        "pre_EM": 0, "pre_PM": 0, "pre_NM": 0, "pre_NM+": 0, "pre_AM": 0,
        "post_EM": 0.25, "post_PM": 0.25, "post_NM": -0.25, "post_NM+": -0.25, "post_AM": 0.25,
    })  # fmt: skip
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


def test_accuracy_wants_every_token_of_the_right_object():
    """Of an object that is offered alone too: it is the right one."""
    probes = case(choose("efficacy"), choose("neighborhood"), choose("neighborhood-plus", "Paris"))
    slip = scores([0.5, 0.4, 0.3], [0.5, 0.1], wrong=[0])
    whole = scores([0.5, 0.4, 0.3], [0.5, 0.1], wrong=[1])
    assert Accuracy().measure(probes, [slip] * 3, [whole] * 3) == {
        "pre_EA": 0, "pre_NA": 1, "pre_NA+": 0, "post_EA": 1, "post_NA": 0, "post_NA+": 1,
    }  # fmt: skip


def test_what_offers_too_few_objects_or_plays_no_role_is_skipped():
    mixed = case(
        Probe("neighborhood", Drift("A prompt")),
        choose("efficacy", "Paris"),
        choose("portability"),
        choose("paraphrase"),
    )
    answers = [Divergence(0.1, 0.1, 2), scores([0.5]), NEW, NEW]
    names_of = [
        (Success(), {"PS"}), (Magnitude(), {"PM"}), (Accuracy(), {"EA", "PA"}),
        (TokenAccuracy(), {"ET", "PT"}),
    ]  # fmt: skip
    for metric, names in names_of:
        values = metric.measure(mixed, answers, answers)
        assert set(values) == {f"{when}_{name}" for when in ("pre", "post") for name in names}
    assert Unchanged().measure(mixed, answers, answers) == {}
    assert Success().failed(mixed, answers) == {"pre_PS": 1, "post_PS": 0}
    with pytest.raises(ValueError, match="shorter"):
        Success().measure(ALL, [NEW] * 5, [NEW] * 4)


def test_a_failed_edit_is_a_failure_everywhere_and_keeps_what_was_before():
    probes = case(choose("efficacy"), choose("neighborhood"))
    assert Success().failed(probes, [TRUE, TRUE]) == {
        "pre_ES": 0, "pre_NS": 1, "post_ES": 0, "post_NS": 0,
    }  # fmt: skip
    assert Accuracy().failed(probes, [TRUE, TRUE]) == {
        "pre_EA": 1, "pre_NA": 1, "post_EA": 0, "post_NA": 0,
    }  # fmt: skip
    assert Magnitude().failed(probes, [TRUE, TRUE]) == {"pre_EM": -0.25, "pre_NM": 0.25}
    assert Unchanged().failed(probes, [TRUE, TRUE]) == {"post_NU": 0}
    assert Unchanged().failed(case(choose("efficacy")), [TRUE]) == {}


@pytest.mark.parametrize(
    ("metric", "letter", "mean"), [(Success(), "S", "S"), (TokenAccuracy(), "T", "ST")]
)
def test_s_is_the_harmonic_mean_of_the_means_of_three_and_nought_if_any_is(metric, letter, mean):
    columns = {
        f"post_E{letter}": np.array([1, 0.8]),
        f"post_P{letter}": np.array([0.9, 0.7]),
        f"post_N{letter}": np.array([0.5, 0.9]),
        f"post_N{letter}+": np.zeros(2),
        f"pre_E{letter}": np.zeros(2),
    }
    means = metric.summarize(columns)
    assert means[f"post_{mean}"] == pytest.approx(0.7916, abs=5e-5)  # of 90, 80 and 70
    assert means[f"post_N{letter}+"] == 0
    assert f"pre_{mean}" not in means
    dead = metric.summarize(columns | {f"post_N{letter}": np.zeros(2)})
    assert dead[f"post_{mean}"] == 0


# Answers of which a part may be right

QUESTIONS = case(
    *(choose(role, "an answer") for role in ("efficacy", "paraphrase", "neighborhood"))
)


def said(right, likeliest):
    """Answer with the tokens of one right answer, and what the model finds likeliest."""
    return Scores((tuple(right),), ((-1.0,) * len(right),), (tuple(likeliest),))


RIGHT = said([7, 8, 9], [7, 8, 9])
TWO_OF_THREE = said([7, 8, 9], [7, 8, 1])
NONE_OF_THREE = said([7, 8, 9], [8, 9, 7])


def test_two_right_tokens_of_three_are_two_thirds_of_an_answer_and_no_whole_one():
    answers = [RIGHT, TWO_OF_THREE, TWO_OF_THREE]
    before = [NONE_OF_THREE] * 3
    assert TokenAccuracy().measure(QUESTIONS, before, answers) == {
        "pre_ET": 0, "pre_PT": 0, "pre_NT": 0,
        "post_ET": 1, "post_PT": 2 / 3, "post_NT": 2 / 3,
    }  # fmt: skip
    exact = Accuracy().measure(QUESTIONS, before, answers)
    assert (exact["post_EA"], exact["post_PA"], exact["post_NA"]) == (1, 0, 0)
    pairs = case(choose("efficacy"), choose("neighborhood"))
    new_half_right = Scores(((1, 2), (3,)), ((-1.0, -1.0), (-1.0,)), ((1, 9), (3,)))
    values = TokenAccuracy().measure(pairs, [new_half_right] * 2, [new_half_right] * 2)
    assert (values["post_ET"], values["post_NT"]) == (0.5, 1), "of two objects the right one"


def test_unchanged_counts_places_right_or_wrong_and_the_neighbourhood_only():
    def unchanged(before, after):
        return Unchanged().measure(QUESTIONS, [RIGHT, RIGHT, before], [TWO_OF_THREE] * 2 + [after])

    assert unchanged(NONE_OF_THREE, NONE_OF_THREE) == {"post_NU": 1}
    assert unchanged(NONE_OF_THREE, RIGHT) == {"post_NU": 0}
    assert unchanged(RIGHT, TWO_OF_THREE) == {"post_NU": pytest.approx(2 / 3)}
    # An answer that falls into other tokens behind an edit's prefix: a missing place differs.
    assert unchanged(RIGHT, said([7, 8], [7, 8])) == {"post_NU": pytest.approx(2 / 3)}
    before = Scores(((1,), (2,)), ((-1.0,), (-1.0,)), ((1,), (1,)))
    after = Scores(((1,), (2,)), ((-1.0,), (-1.0,)), ((1,), (2,)))
    pair = case(choose("neighborhood"))
    assert Unchanged().measure(pair, [before], [after]) == {"post_NU": 0}, "of the true object"
    # Shares are means over questions, however long.
    near = case(*[QUESTIONS.probes[2]] * 2)
    before = [said([7, 8], [7, 1]), said([7, 8, 9, 9], [7, 8, 9, 1])]
    after = [said([7, 8], [7, 8]), said([7, 8, 9, 9], [7, 1, 9, 1])]
    values = TokenAccuracy().measure(near, before, after)
    assert values == {"pre_NT": (1 / 2 + 3 / 4) / 2, "post_NT": (1 + 1 / 2) / 2}
    assert Unchanged().measure(near, before, after) == {"post_NU": (1 / 2 + 3 / 4) / 2}
    assert Accuracy().measure(near, before, after)["post_NA"] == 1 / 2


# Drift, of P = (1/2, 1/2) and P* = (1/4, 3/4)

NEAR = Probe("neighborhood", Drift("A prompt"))
FORWARD = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
REVERSE = 0.25 * math.log(0.5) + 0.75 * math.log(1.5)
SHIFT, STILL = Divergence(FORWARD, REVERSE, 2), Divergence(0.0, 0.0, 2)


def test_the_three_kinds_of_divergence_with_and_without_the_fact_in_front():
    """Other probes, and what is no number, are left out."""
    behind = Probe("neighborhood-plus", Drift("A fact. A prompt"))
    asked = case(NEAR, NEAR, behind, choose("neighborhood"), Probe("efficacy", Drift("A prompt")))
    after = [SHIFT, STILL, Divergence(3.0, 4.0, 8), TIE, SHIFT]
    expected = {
        "post_NKL": 0.14384 / 2, "post_NKL-reverse": 0.13081 / 2, "post_NKL-paper": 0.06541 / 2,
        "post_NKL+": 3, "post_NKL+-reverse": 4, "post_NKL+-paper": 0.5,
    }  # fmt: skip
    assert NeighborhoodKL().measure(asked, after, after) == pytest.approx(expected, abs=5e-6)
    nan = NeighborhoodKL().measure(case(NEAR), [STILL], [Divergence(math.nan, 1.0, 2)])
    assert nan == {"post_NKL-reverse": 1, "post_NKL-paper": 0.5}
    assert NeighborhoodKL().failed(case(NEAR), [STILL]) == {}
