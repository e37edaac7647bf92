"""Requests, cases and answers, and their way into a run folder and back."""

import json
import math
from dataclasses import asdict, replace

import pytest
from support.builders import scores

import edit_harness as eh
from edit_harness.files import dumps
from edit_harness.folder.encoding import (
    decode_answer,
    decode_case,
    encode_answer,
    encode_case,
    unchanged,
)


@pytest.mark.parametrize(
    ("prompt", "subject", "text", "before_end"),
    [
        ("In {}, {0} is", "a {} b", "In a {} b, {0} is", "In a {} b"),
        ("Where is {}?", "Ada", "Where is Ada?", "Where is Ada"),
    ],
)
def test_the_subject_is_put_in_as_it_is(prompt, subject, text, before_end):
    request = eh.Request(prompt, subject, "Paris")
    assert (request.text, request.statement) == (text, f"{text} Paris")
    assert request.text[: request.subject_end] == before_end
    assert request.target_true == ""


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (("Ada lives in", "Ada", "Paris"), "has 0 places"),
        (("{} and {}", "Ada", "Paris"), "has 2 places"),
        (("", "", "Paris"), "empty prompt"),
        (("{} lives in", "Ada", ""), "empty target_new"),
    ],
)
def test_a_request_that_makes_no_sense(fields, problem):
    with pytest.raises(eh.DataError, match=problem):
        eh.Request(*fields)


def test_a_request_may_have_no_subject():
    """Braces are text then; the cases of a folder of before there were tags come back, and stay as they are."""
    request = eh.Request.of(" What does dict = {} do? ", "It is empty.")
    assert request == eh.Request("What does dict = {} do?", target_new="It is empty.")
    assert request.statement == "What does dict = {} do? It is empty."
    with pytest.raises(eh.DataError, match="has no subject"):
        _ = request.subject_end
    tagged = eh.Case("1", (replace(request, tags={"unrelated": "Grass is"}), request), ())
    stored = encode_case(tagged)
    assert decode_case(json.loads(dumps(stored))) == tagged
    assert [each.get("tags") for each in stored["requests"]] == [{"unrelated": "Grass is"}, None]


def test_white_space_around_texts_is_left_out():
    """Item 1 of issue I: both spellings are one request, one query."""
    bare = eh.Request("{} lives in", "Ada", "Paris", "Rome")
    spaced = eh.Request(" {} lives in ", "Ada\t", " Paris", "Rome\n")
    assert (spaced, spaced.text, asdict(spaced)) == (bare, bare.text, asdict(bare))
    assert eh.Choose("Ada lives in ", (" Paris", "Rome")) == eh.Choose(
        "Ada lives in", ("Paris", "Rome")
    )
    assert (eh.Drift("a "), eh.NextToken(" a\n")) == (eh.Drift("a"), eh.NextToken("a"))
    assert eh.Generate(" Ada lives in ") == eh.Generate("Ada lives in")
    assert eh.Generate("\nAda lives in\n ").prompt == "\nAda lives in\n", "a new line is meant"
    assert eh.Generate("").prompt == ""


@pytest.mark.parametrize(
    ("probabilities", "mean"), [([0.25], 0.25), ([0.5, 0.125], 0.25), ([0.1, 0.2, 0.4], 0.2)]
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


def test_what_an_edit_leaves_as_it_is():
    """Item 10 of issue I: no measure shows another number."""

    def alone(value, argmax=3):
        return [eh.Scores(((5,),), ((value,),), ((argmax,),))]

    def pair(new, true, argmax=3):
        return [eh.Scores(((5,), (6,)), ((new,), (true,)), ((argmax,), (argmax,)))]

    assert unchanged(alone(-1.0), alone(-1.0 + 1e-4))
    assert not unchanged(alone(-1.0), alone(-1.0 + 1e-2))
    assert unchanged(alone(-9.0), alone(-8.9))
    assert not unchanged(alone(-9.0), alone(-9.0, 4))
    assert unchanged(pair(-9.0, -8.0), pair(-8.9, -8.1))
    assert not unchanged(pair(-9.0, -8.0), pair(-8.9, -8.1, argmax=4))
    assert not unchanged(pair(-9.0, -8.0), pair(-8.0, -9.0)), "another is likelier"
    assert not unchanged(pair(-9.0, -8.0), pair(-9.0, -8.0, argmax=6)), "the true one is right now"
    assert unchanged([eh.Divergence(0.0, 0.0, 9)], [eh.Divergence(1e-3, 1e-3, 9)])
    assert not unchanged([eh.Divergence(0.0, 0.0, 9)], [eh.Divergence(0.1, 0.1, 9)])
    assert unchanged([eh.Text("a")], [eh.Text("a", eh.Verdict("pending"))])
    assert not unchanged([eh.Text("a")], [eh.Text("b")])


CASE = eh.Case(
    "7",
    (eh.Request("{} is", "Ada", "Paris", "Rome"), eh.Request("{} was", "Bob", "Oslo")),
    (
        eh.Probe("efficacy", eh.Choose("Ada is", ("Paris", "Rome")), {"kind": "x"}),
        eh.Probe("neighborhood", eh.Drift("Bob is")),
        eh.Probe("neighborhood", eh.NextToken("Bob is")),
        eh.Probe(
            "instance",
            eh.Generate("1 + 1 =", 5, 2, 3, max_tokens=9, to_the_end=True, stop="\n"),
            key=eh.Key("number", "2", "3", {"unit": "", "steps": True}),
        ),
        eh.Probe("efficacy", eh.Generate("Who?", stop=(".", "\n"))),
    ),
    {"relation": "P1"},
)


@pytest.mark.parametrize("case", [CASE, eh.Case("8", (), (), problem="no subject")])
def test_cases_come_back_as_they_were(case):
    assert decode_case(json.loads(dumps(encode_case(case)))) == case


@pytest.mark.parametrize(
    "answer",
    [
        eh.Text("in Paris {} \u2028 \ud800"),
        eh.Text("x + y", eh.Verdict("undecided", 0.0, True, "not read", "raw")),
        eh.Text("", eh.Verdict("pending")),
        eh.Text("x", eh.Verdict("pending"), (3, 4)),
        eh.Text("x", tokens=(3,)),
        eh.Text("", eh.Verdict("unparsed", raw="I cannot say")),
        eh.Text("x", eh.Verdict("decided", 0.0, ratings={"sexism": -1.0}, served="a/b", swapped=False, usage={"tokens": 12})),
        eh.Divergence(0.5, 0.25, 7),
        eh.Scores(((1, 2), (3,)), ((-0.5, -1.0), (-2.0,)), ((1, 9), (4,))),
    ],
)  # fmt: skip
def test_answers_come_back_as_they_were(answer):
    assert decode_answer(json.loads(dumps(encode_answer(answer)))) == answer


def test_one_stop_and_a_text_without_tokens_are_stored_as_ever():
    query = encode_case(CASE)["probes"][3]["query"]
    assert (query["stop"], encode_answer(eh.Text("x"))) == ("\n", {"text": "x"})
    assert query.keys() == {
        "prompt", "max_new_tokens", "top_k", "seed", "max_tokens", "to_the_end", "stop", "ask",
    }  # fmt: skip


def test_distributions_are_not_stored():
    assert encode_answer(eh.Distribution([0.0], 1.0)) is None
    assert decode_answer(None) is None
