import numpy as np
import pytest
from support.builders import case

from edit_harness import Choose, Drift, Probe, Scores
from edit_harness_plugins.metrics.preference import Accuracy, TokenAccuracy, Unchanged

ROLES = ("efficacy", "paraphrase", "neighborhood")
QUESTIONS = case(*(Probe(role, Choose("A question?", ("an answer",))) for role in ROLES))


def said(right, likeliest):
    """Answer with the tokens of one right answer, and what the model finds likeliest."""
    assert len(right) == len(likeliest)
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


def test_of_two_objects_the_right_one_is_counted():
    pairs = case(*(Probe(role, Choose("A prompt", ("Paris", "Rome"))) for role in ROLES))
    new_half_right = Scores(((1, 2), (3,)), ((-1.0, -1.0), (-1.0,)), ((1, 9), (3,)))
    values = TokenAccuracy().measure(pairs, [new_half_right] * 3, [new_half_right] * 3)
    assert values["post_ET"] == values["post_PT"] == 0.5
    assert values["post_NT"] == 1


def test_st_is_the_harmonic_mean_of_the_means_and_nought_if_any_is():
    columns = {
        "post_ET": np.array([1, 0.8]),
        "post_PT": np.array([0.9, 0.7]),
        "post_NT": np.array([0.5, 0.9]),
    }
    means = TokenAccuracy().summarize(columns)
    assert means["post_ST"] == pytest.approx(0.7916, abs=5e-5)  # of 90, 80 and 70
    assert "pre_ST" not in means
    dead = TokenAccuracy().summarize(columns | {"post_NT": np.zeros(2)})
    assert dead["post_ST"] == 0


def test_unchanged_counts_places_right_or_wrong_and_the_neighbourhood_only():
    def unchanged(before, after):
        return Unchanged().measure(QUESTIONS, [RIGHT, RIGHT, before], [TWO_OF_THREE] * 2 + [after])

    assert unchanged(NONE_OF_THREE, NONE_OF_THREE) == {"post_NU": 1}
    assert unchanged(NONE_OF_THREE, RIGHT) == {"post_NU": 0}
    assert unchanged(RIGHT, TWO_OF_THREE) == {"post_NU": pytest.approx(2 / 3)}
    # An answer that falls into other tokens behind an edit's prefix: a missing place differs.
    assert unchanged(RIGHT, said([7, 8], [7, 8])) == {"post_NU": pytest.approx(2 / 3)}


def test_unchanged_looks_at_the_true_object_of_a_pair():
    near = case(Probe("neighborhood", Choose("A prompt", ("Paris", "Rome"))))
    before = Scores(((1,), (2,)), ((-1.0,), (-1.0,)), ((1,), (1,)))
    after = Scores(((1,), (2,)), ((-1.0,), (-1.0,)), ((1,), (2,)))
    assert Unchanged().measure(near, [before], [after]) == {"post_NU": 0}


def test_a_failed_edit_is_a_failure_everywhere_and_keeps_what_was_before():
    before = [RIGHT, TWO_OF_THREE, RIGHT]
    assert TokenAccuracy().failed(QUESTIONS, before) == {
        "pre_ET": 1, "pre_PT": 2 / 3, "pre_NT": 1, "post_ET": 0, "post_PT": 0, "post_NT": 0,
    }  # fmt: skip
    assert Unchanged().failed(QUESTIONS, before) == {"post_NU": 0}
    assert Unchanged().failed(case(QUESTIONS.probes[0]), before[:1]) == {}


def test_what_is_no_choice_is_skipped():
    mixed = case(Probe("neighborhood", Drift("A prompt")), Probe("unheard-of", Choose("A", ("b",))))
    for metric in (TokenAccuracy(), Unchanged()):
        assert metric.measure(mixed, [RIGHT, RIGHT], [RIGHT, RIGHT]) == {}


def test_shares_are_means_over_questions_however_long():
    near = case(*[QUESTIONS.probes[2]] * 2)
    before = [said([7, 8], [7, 1]), said([7, 8, 9, 9], [7, 8, 9, 1])]
    after = [said([7, 8], [7, 8]), said([7, 8, 9, 9], [7, 1, 9, 1])]
    values = TokenAccuracy().measure(near, before, after)
    assert values == {"pre_NT": (1 / 2 + 3 / 4) / 2, "post_NT": (1 + 1 / 2) / 2}
    assert Unchanged().measure(near, before, after) == {"post_NU": (1 / 2 + 3 / 4) / 2}
    assert Accuracy().measure(near, before, after)["post_NA"] == 1 / 2
