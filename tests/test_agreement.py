"""How far answers are apart: in everything that a metric can read."""

from math import inf

import pytest

from edit_harness.encoding import decode_answer
from edit_harness_plugins.commands.leaderboard.agreement import distance, reconciled, same_value


def scores(logprobs, argmax, tokens=((1, 2), (3,))):
    return {"tokens": tokens, "logprobs": logprobs, "argmax": argmax}


def text(said, **verdict):
    judged = {"verdict": {"status": "decided", "score": 1.0, **verdict}} if verdict else {}
    return {"text": said, **judged}


MEASURED = scores([[-1.0, -2.0], [-1.0005]], [[1, 9], [1]])


def apart(claimed, again, judged=True):
    one, two = decode_answer(claimed), decode_answer(again)
    return distance(one, reconciled(one, two, 1e-3, judged=judged))


@pytest.mark.parametrize(
    ("claimed", "again", "off"),
    [
        ([0.5, 0.25, 9], [0.5, 0.26, 9], 0.01),
        ([0.5, 0.25, 8], [0.5, 0.25, 9], inf),
        ([None, 0.25, 9], [0.5, 0.25, 9], inf),
        ([None, 0.25, 9], [None, 0.25, 9], 0.0),
        (text("a"), text("b"), inf),
        (text("a"), [0.5, 0.25, 9], inf),
        (None, None, 0.0),
        (None, text("a"), inf),
        (text("a", note="so"), text("a", note="thus"), 0.0),
        (text("a", score=1.0), text("a", score=0.0), inf),
        (text("a", reverted=True), text("a", reverted=False), inf),
        (text("a", ratings={"flow": 1.0}), text("a", ratings={"flow": 0.5}), inf),
        (text("a", note="so"), text("a"), inf),
        (MEASURED, MEASURED, 0.0),
        (scores([[-1.5, -1.5], [-1.0005]], [[1, 9], [1]]), MEASURED, 0.5),
        (scores([[-1.0, -2.0], [-1.0005]], [[1, 2], [1]]), MEASURED, inf),
        (scores([[-1.0, -2.0], [-1.0005]], [[3, 9], [3]]), MEASURED, 0.0),
        (scores([[-1.0, -2.0], [-1.0005]], [[8, 9], [1]]), MEASURED, inf),
        (scores([[-1.0, -2.0], [-1.0005]], [[1, 9], [1]], ((1, 5), (3,))), MEASURED, inf),
        (scores([[-1.0, -2.0], [None]], [[1, 9], [1]]), MEASURED, inf),
    ],
)
def test_how_far_answers_are_apart(claimed, again, off):
    assert apart(claimed, again) == pytest.approx(off)


def test_a_tie_is_told_by_what_was_measured_and_not_by_what_is_claimed():
    near = scores([[-1.0, -2.0], [-1.0]], [[3, 9], [3]])
    far = scores([[-1.0, -2.0], [-1.5]], [[1, 9], [1]])
    assert apart(near, far) == inf


def test_verdicts_of_who_is_not_asked_again_are_taken_as_claimed():
    claimed, again = text("a", score=1.0), text("a", status="pending", score=None)
    assert apart(claimed, again) == inf
    assert apart(claimed, again, judged=False) == 0.0


@pytest.mark.parametrize(
    ("claimed", "again", "same"),
    [
        (1.0, 1.0, True),
        (1.0, 0.0, False),
        (0.5, 0.5004, True),
        (0.5, 0.51, False),
        (1, 0.9999, True),
    ],
)
def test_decisions_are_equal_and_numbers_near(claimed, again, same):
    assert same_value(claimed, again, 1e-3) is same
