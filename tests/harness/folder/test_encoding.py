"""Cases and answers, there and back."""

import json

import pytest

from edit_harness import (
    Case,
    Choose,
    Distribution,
    Divergence,
    Drift,
    Generate,
    Key,
    NextToken,
    Probe,
    Request,
    Scores,
    Text,
    Verdict,
)
from edit_harness.files import dumps
from edit_harness.folder.encoding import decode_answer, decode_case, encode_answer, encode_case

CASE = Case(
    "7",
    (Request("{} is", "Ada", "Paris", "Rome"), Request("{} was", "Bob", "Oslo")),
    (
        Probe("efficacy", Choose("Ada is", ("Paris", "Rome")), {"kind": "x"}),
        Probe("neighborhood", Drift("Bob is")),
        Probe("neighborhood", NextToken("Bob is")),
        Probe(
            "instance",
            Generate("1 + 1 =", 5, 2, 3, max_tokens=9, to_the_end=True, stop="\n"),
            key=Key("number", "2", "3", {"unit": "", "steps": True}),
        ),
    ),
    {"relation": "P1"},
)


@pytest.mark.parametrize("case", [CASE, Case("8", (), (), problem="no subject")])
def test_cases_come_back_as_they_were(case):
    assert decode_case(json.loads(dumps(encode_case(case)))) == case


@pytest.mark.parametrize(
    "answer",
    [
        Text("in Paris {} \u2028 \ud800"),
        Text("x + y", Verdict("undecided", 0.0, True, "not read", "raw")),
        Text("", Verdict("pending")),
        Text("", Verdict("unparsed", raw="I cannot say")),
        Text("x", Verdict("decided", 0.0, ratings={"sexism": -1.0}, served="a/b", swapped=False, usage={"tokens": 12})),
        Divergence(0.5, 0.25, 7),
        Scores(((1, 2), (3,)), ((-0.5, -1.0), (-2.0,)), ((1, 9), (4,))),
    ],
)  # fmt: skip
def test_answers_come_back_as_they_were(answer):
    assert decode_answer(json.loads(dumps(encode_answer(answer)))) == answer


def test_distributions_are_not_stored():
    assert encode_answer(Distribution([0.0], 1.0)) is None
    assert decode_answer(None) is None
