import math

import pytest
from builders import scores

from edit_harness import DataError, Request


def test_the_subject_is_put_in_as_it_is():
    request = Request("In {}, {0} is", "a {} b", "Paris")
    assert request.text == "In a {} b, {0} is"
    assert request.statement == "In a {} b, {0} is Paris"


@pytest.mark.parametrize(
    ("prompt", "subject", "before_end"),
    [("{} lives in", "Ada", "Ada"), ("Where is {}?", "Ada ", "Where is Ada"), ("{}", "é", "é")],
)
def test_where_the_subject_ends(prompt, subject, before_end):
    request = Request(prompt, subject, "Paris")
    assert request.text[: request.subject_end] == before_end


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (("Ada lives in", "Ada", "Paris"), "has 0 places"),
        (("{} and {}", "Ada", "Paris"), "has 2 places"),
        (("{} lives in", " ", "Paris"), "empty subject"),
        (("{} lives in", "Ada", ""), "empty target_new"),
    ],
)
def test_a_request_that_makes_no_sense(fields, problem):
    with pytest.raises(DataError, match=problem):
        Request(*fields)


def test_the_true_object_may_be_unknown():
    assert Request("{} lives in", "Ada", "Paris").target_true == ""


@pytest.mark.parametrize(
    ("probabilities", "mean"),
    [([0.25], 0.25), ([0.5, 0.125], 0.25), ([0.1, 0.2, 0.4], 0.2)],
)
def test_the_likelihood_of_an_object_is_the_mean_over_its_tokens(probabilities, mean):
    answer = scores([0.9], probabilities)
    assert answer.nll(1) == pytest.approx(-math.log(mean))
    assert answer.prob(1) == pytest.approx(mean)
    assert answer.prob(0) == pytest.approx(0.9)


def test_one_wrong_token_makes_an_object_inexact():
    answer = scores([0.9, 0.8, 0.7], [0.9, 0.8, 0.7], wrong=[1])
    assert answer.exact(0)
    assert not answer.exact(1)
