"""The metric, against numbers computed by hand."""

import math

import pytest
from edit_harness import Case, Choose, Probe, Request, Scores

from edit_harness_reversal.metric import Reversed

INVERSE = Probe("reversed", Choose("Rome is the capital of", ("France", "Italy")))
OTHER = Probe("efficacy", Choose("The capital of France is", ("Rome", "Paris")))


def case(*probes):
    return Case("0", (Request("The capital of {} is", "France", "Rome", "Paris"),), probes)


def scores(*candidates):
    """Answer with the given probability for each token of each candidate."""
    tokens = tuple(tuple(range(len(probs))) for probs in candidates)
    return Scores(tokens, tuple(tuple(map(math.log, probs)) for probs in candidates), tokens)


FORMER = scores([0.125], [0.5])  # ln 2 - ln 8 = -ln 4
EDITED = scores([0.5], [0.25, 0.0625])  # (ln 4 + ln 16) / 2 - ln 2 = ln 4
TIE = scores([0.5, 0.125], [0.25])  # ln 4 - (ln 2 + ln 8) / 2 = 0


def test_the_margin_is_of_mean_log_probabilities():
    values = Reversed().measure(case(OTHER, INVERSE), [EDITED, FORMER], [FORMER, EDITED])
    expected = {"pre_Rev": 0.0, "pre_RevM": -math.log(4), "post_Rev": 1.0, "post_RevM": math.log(4)}
    assert values == pytest.approx(expected)


def test_a_tie_is_a_failure():
    values = Reversed().measure(case(INVERSE), [TIE], [TIE])
    assert values["post_Rev"] == 0.0
    assert values["post_RevM"] == pytest.approx(0.0)


def test_a_case_is_the_mean_of_its_inverse_prompts():
    values = Reversed().measure(case(INVERSE, INVERSE), [FORMER, FORMER], [EDITED, FORMER])
    assert values["post_Rev"] == 0.5
    assert values["post_RevM"] == pytest.approx(0.0)


def test_a_failed_edit_is_not_reversed_and_has_no_margin():
    values = Reversed().failed(case(OTHER, INVERSE), [FORMER, FORMER])
    assert values == pytest.approx({"pre_Rev": 0.0, "pre_RevM": -math.log(4), "post_Rev": 0.0})
    assert Reversed().failed(case(OTHER), [FORMER]) == {}
