"""Texts, verdicts, and judges that fail."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import pytest

from edit_harness import (
    Case,
    Choose,
    DataError,
    Generate,
    Judge,
    Key,
    Probe,
    Reply,
    Request,
    Text,
    UsageError,
    Verdict,
)
from edit_harness.run import judging
from edit_harness.run.judging import NO_JUDGE, judged

RIGHT, WRONG = Verdict("decided", 1.0), Verdict("decided", 0.0)
KEYED = Probe("efficacy", Generate("1 + 1 ="), key=Key("number", "2", "3"))
LIKE = Probe("neighborhood", Generate("2 + 2 ="), key=Key("same"))
PLAIN = Probe("generation", Generate("Ada"))
CASE = Case("0", (Request("{} is", "1 + 1", "2"),), (KEYED, PLAIN, LIKE))


@dataclass
class Equal(Judge):
    """Right is what has the right answer in it; notes what it was asked."""

    asked: list[Reply] = field(default_factory=list)
    fails: Exception | None = None

    def judge(self, replies: Sequence[Reply]) -> list[Verdict]:
        self.asked += replies
        if self.fails:
            raise self.fails
        return [RIGHT if reply.key.right in reply.text else WRONG for reply in replies]


RAISED = f"test_judging.py:{Equal.judge.__code__.co_firstlineno + 3}"


def answers(*texts: str) -> list[Text]:
    return [Text(text) for text in texts]


BEFORE, AFTER = answers("3", "went", "4"), answers("2", "goes", "5")


def verdicts(side):
    return [answer.verdict for answer in side]


def unjudged(side):
    return [Text(answer.text) for answer in side]


def test_texts_with_a_key_are_judged_before_and_after():
    judge = Equal()
    ((before, after),) = judged(judge, [(CASE, (BEFORE, AFTER))])
    assert verdicts(before) == [WRONG, None, None]
    assert verdicts(after) == [RIGHT, None, WRONG]
    assert (unjudged(before), unjudged(after)) == (BEFORE, AFTER)


def test_a_key_without_an_answer_asks_for_what_the_unedited_model_said():
    judge = Equal()
    judged(judge, [(CASE, (BEFORE, AFTER))])
    (asked,) = [reply for reply in judge.asked if reply.key.kind == "same"]
    assert asked == Reply("2 + 2 =", "5", Key("same", "4"))


def test_all_cases_are_judged_in_one_call():
    judge = Equal()
    calls = []
    judge.judge = lambda replies: calls.append(replies) or [WRONG] * len(replies)
    judged(judge, [(CASE, (BEFORE, AFTER)), (CASE, (AFTER, BEFORE))])
    assert [len(call) for call in calls] == [6]


def test_nothing_to_judge_asks_nobody():
    judge = Equal(fails=RuntimeError("asked"))
    plain = Case("0", (), (PLAIN, Probe("efficacy", Choose("a", ("b",)))))
    assert judged(judge, [(plain, (BEFORE[:2], AFTER[:2]))]) == [(BEFORE[:2], AFTER[:2])]
    assert judged(judge, [(CASE, ((), ()))]) == [([], [])]
    assert judge.asked == []


def test_without_a_judge_verdicts_are_pending():
    ((before, after),) = judged(None, [(CASE, (BEFORE, AFTER))])
    assert verdicts(before) == [NO_JUDGE, None, None]
    assert verdicts(after) == [NO_JUDGE, None, NO_JUDGE]
    assert NO_JUDGE.score is None


@pytest.mark.parametrize(
    "returned",
    [
        None, [], [RIGHT], [1.0] * 3, [Verdict("pending", 0.0)] * 3, [Verdict("decided")] * 3,
        [Verdict("decided", 1.5)] * 3, [Verdict("undecided", float("nan"))] * 3,
        [Verdict("sure", 1.0)] * 3, [Verdict("undecided", 0.5)] * 3,
        [Verdict("decided", 1.0, "no")] * 3, [Verdict("decided", 1.0, raw=object())] * 3,
        [Verdict("decided", "1")] * 3,
    ],
)  # fmt: skip
def test_a_judge_that_returns_no_verdicts_leaves_all_pending(returned):
    judge = Equal()
    judge.judge = lambda replies: returned
    ((before, after),) = judged(judge, [(CASE, (BEFORE, AFTER))])
    (first, _, _), (second, _, third) = verdicts(before), verdicts(after)
    for verdict in (first, second, third):
        assert (verdict.status, verdict.score) == ("pending", None)
        assert verdict.note.startswith("the judge failed: ")


def test_a_judge_that_fails_leaves_verdicts_pending_and_is_asked_again_for_them_alone():
    pending = judged(Equal(fails=OSError("no server")), [(CASE, (BEFORE, AFTER))])
    assert verdicts(pending[0][1])[0].note == f"the judge failed: OSError: no server ({RAISED})"
    half = [
        (pending[0][0], [Text("2", RIGHT), *pending[0][1][1:]]),
    ]
    judge = Equal()
    ((_, after),) = judged(judge, [(CASE, half[0])])
    assert verdicts(after) == [RIGHT, None, WRONG]
    assert [reply.text for reply in judge.asked] == ["3", "5"]


def test_a_judge_that_exits_leaves_verdicts_pending():
    ((_, after),) = judged(Equal(fails=SystemExit(3)), [(CASE, (BEFORE, AFTER))])
    assert verdicts(after)[0].note == f"the judge failed: SystemExit: 3 ({RAISED})"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BaseExceptionGroup("two", [SystemExit(0)]), "BaseExceptionGroup: two (1 sub-exception)"),
    ],
)
def test_whatever_a_judge_raises_leaves_verdicts_pending(error, said):
    ((_, after),) = judged(Equal(fails=error), [(CASE, (BEFORE, AFTER))])
    assert verdicts(after)[0].note == f"the judge failed: {said} ({RAISED})"


def test_ctrl_c_is_not_the_judges():
    with pytest.raises(KeyboardInterrupt):
        judged(Equal(fails=KeyboardInterrupt()), [(CASE, (BEFORE, AFTER))])


def test_a_key_that_the_judge_cannot_use_ends_the_run():
    with pytest.raises(DataError, match="no formula"):
        judged(Equal(fails=DataError("no formula")), [(CASE, (BEFORE, AFTER))])


def test_a_verdict_is_of_one_of_four_kinds():
    decided = Verdict("decided", 1.0, ratings={"sexism": -1.0}, swapped=False)
    assert judging.sound(decided)
    assert judging.sound(Verdict("unparsed"))
    assert not judging.sound(Verdict("unparsed", 0.0)), "what nobody said is no wrong answer"
    assert not judging.sound(replace(decided, ratings={"sexism": 1.5}))
    assert not judging.sound(replace(decided, ratings={"sexism": float("nan")}))
    assert [Verdict(s).counts for s in ("undecided", "unparsed", "pending")] == [True, False, False]


def test_a_judge_that_does_not_know_a_kind_is_named():
    class Narrow(Judge):
        kinds: ClassVar = {"formula": "nothing"}

        def judge(self, replies):
            return []

    case = Case("1", (), (Probe("x", Generate("p"), key=Key("compare")),))
    with pytest.raises(UsageError, match="judge narrow does not know what the kind 'compare'"):
        judging.check_kinds(Narrow(), "narrow", [case])
    judging.check_kinds(Narrow(), "narrow", [])
