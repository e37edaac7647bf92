import math

import pytest
from support.builders import case, scores

from edit_harness import Choose, Divergence, Drift, Probe
from edit_harness_plugins.metrics.drift import NeighborhoodKL

NEAR = Probe("neighborhood", Drift("A prompt"))
FACT_IN_FRONT = Probe("neighborhood-plus", Drift("A fact. A prompt"))
FORWARD = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
REVERSE = 0.25 * math.log(0.5) + 0.75 * math.log(1.5)
# P = (1/2, 1/2) and P* = (1/4, 3/4)
SHIFT = Divergence(FORWARD, REVERSE, 2)
STILL = Divergence(0.0, 0.0, 2)


def test_the_three_kinds_of_divergence():
    values = NeighborhoodKL().measure(case(NEAR), [STILL], [SHIFT])
    assert values == pytest.approx(
        {"post_NKL": 0.14384, "post_NKL-reverse": 0.13081, "post_NKL-paper": 0.06541}, abs=5e-6
    )
    values = NeighborhoodKL().measure(case(NEAR, NEAR), [STILL] * 2, [STILL] * 2)
    assert values == {"post_NKL": 0, "post_NKL-reverse": 0, "post_NKL-paper": 0}


def test_prompts_behind_the_fact_are_averaged_apart():
    after = [SHIFT, STILL, Divergence(3.0, 4.0, 8)]
    values = NeighborhoodKL().measure(case(NEAR, NEAR, FACT_IN_FRONT), after, after)
    assert values == pytest.approx(
        {
            "post_NKL": FORWARD / 2,
            "post_NKL-reverse": REVERSE / 2,
            "post_NKL-paper": REVERSE / 4,
            "post_NKL+": 3.0,
            "post_NKL+-reverse": 4.0,
            "post_NKL+-paper": 0.5,
        }
    )
    assert {name.partition("_")[2] for name in values} == set(NeighborhoodKL.measures)


def test_other_probes_are_left_alone():
    others = case(
        Probe("neighborhood", Choose("A prompt", ("Paris", "Rome"))),
        Probe("efficacy", Drift("A prompt")),
    )
    answers = [scores([0.5], [0.5]), SHIFT]
    assert NeighborhoodKL().measure(others, answers, answers) == {}
    assert NeighborhoodKL().measure(case(), [], []) == {}


def test_a_failed_edit_has_no_divergence():
    assert NeighborhoodKL().failed(case(NEAR), [STILL]) == {}


def test_a_divergence_that_is_no_number_is_left_out():
    nan = Divergence(math.nan, 1.0, 2)
    assert set(NeighborhoodKL().measure(case(NEAR), [STILL], [nan])) == {
        "post_NKL-reverse",
        "post_NKL-paper",
    }
