"""What fails in a run: memory, devices, plugins, and judges, whose verdicts are then pending."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import ClassVar

import pytest
import torch
from support.loops import CASES, Push, ran, worked

import edit_harness as eh
from edit_harness.edits import Edit
from edit_harness.errors import PluginError, ResourceError
from edit_harness.folder.record import STATUSES
from edit_harness.interfaces import Regime
from edit_harness.model.tokens import TooLongError
from edit_harness.run import failures, judging
from edit_harness.run.clean import CleanPass
from edit_harness.run.failures import DeviceLostError, NoEditError
from edit_harness.run.judging import NO_JUDGE, judged
from edit_harness.run.plan import steps

LOST = torch.AcceleratorError("CUDA error: an illegal memory access was encountered")

PLAN = list(steps(CASES, Regime()))


def same(records, expected):
    assert {r.status for r in records} == {"ok"}
    for one, other in zip(records, expected, strict=True):
        assert one.values["probability"] == pytest.approx(other.values["probability"], abs=1e-4)


@pytest.mark.parametrize(
    ("error", "edit", "expected"),
    [
        (TooLongError("9 tokens"), False, "too_long"),
        (torch.OutOfMemoryError(), False, "oom"),
        (MemoryError(), True, "oom"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), True, "oom"),
        (NoEditError("the editor returned None"), True, "plugin_error"),
        (PluginError("no parameter"), False, "plugin_error"),
        (PluginError("a request like this has no edit"), True, "edit_failed"),
        (torch.linalg.LinAlgError("singular"), True, "edit_failed"),
        (ValueError("no key"), False, "error"),
    ],
)
def test_an_error_has_a_status(error, edit, expected):
    status, message = failures.status(error, object(), edit=edit)
    assert status == expected
    assert status in STATUSES
    assert message


@pytest.mark.parametrize("error", [LOST, RuntimeError("CUDA error: device-side assert triggered")])
def test_a_device_that_failed_is_told_from_other_errors(error):
    with pytest.raises(DeviceLostError):
        failures.check_device(error)
    failures.check_device(ValueError("CUDA error"))
    failures.check_device(torch.OutOfMemoryError("CUDA error: out of memory"))


@pytest.mark.parametrize("stage", ["edit", "evaluation"])
def test_a_device_that_failed_ends_the_run_without_rows_of_what_was_at_work(model, stage):
    class Breaks(Push):
        def edit(self, model, requests):
            def fail(inputs, outputs, rows):
                raise LOST

            if requests[0].subject != "Ann":
                return super().edit(model, requests)
            if stage == "edit":
                raise LOST
            return Edit({}, {model.architecture.projection(1).name: fail})

    chunks = worked(model, Breaks(), PLAN, size=2)
    assert [(r.case, r.status) for r in next(chunks)] == [("Ada", "ok"), ("Bob", "ok")]
    with pytest.raises(ResourceError, match="illegal memory access") as caught:
        next(chunks)
    assert caught.value.code == 5


@pytest.mark.parametrize(("nth", "rows"), [(1, 0), (4, 0), (10, 0), (19, 0), (0, 2)])
def test_wherever_memory_is_short_the_numbers_stay(model, monkeypatch, nth, rows):
    """Once, at some pass, or whenever a batch has more than two rows."""
    expected = ran(model, Push())
    plain, budget, passes, told = type(model).logits, model.batch_tokens, count(1), []

    def short(self, batch, *args, **kwargs):
        if next(passes) == nth or (rows and len(batch.ids) > rows):
            raise torch.OutOfMemoryError
        return plain(self, batch, *args, **kwargs)

    before = CleanPass(model)
    with monkeypatch.context() as patch:
        patch.setattr(type(model), "logits", short)
        (records,) = worked(model, Push(), PLAN, before, tell=told.append)
    before.guard.verify()
    assert not rows or model.batch_tokens < budget
    assert not rows or "memory did not suffice: batches are of" in " ".join(told)
    same(records, expected)


RIGHT, WRONG = eh.Verdict("decided", 1.0), eh.Verdict("decided", 0.0)
KEYED = eh.Probe("efficacy", eh.Generate("1 + 1 ="), key=eh.Key("number", "2", "3"))
LIKE = eh.Probe("neighborhood", eh.Generate("2 + 2 ="), key=eh.Key("same"))
FREE = eh.Probe("generation", eh.Generate("Ada"))
CASE = eh.Case("0", (eh.Request("{} is", "1 + 1", "2"),), (KEYED, FREE, LIKE))


@dataclass
class Equal(eh.Judge):
    """Right is what has the right answer in it; notes what it was asked."""

    asked: list[eh.Reply] = field(default_factory=list)
    fails: Exception | None = None
    calls: int = 0

    def judge(self, replies: Sequence[eh.Reply]) -> list[eh.Verdict]:
        self.asked += replies
        self.calls += 1
        if self.fails:
            raise self.fails
        return [RIGHT if reply.key.right in reply.text else WRONG for reply in replies]


RAISED = f"test_failures.py:{Equal.judge.__code__.co_firstlineno + 4}"


def answers(*texts: str) -> list[eh.Text]:
    return [eh.Text(text) for text in texts]


BEFORE, AFTER = answers("3", "went", "4"), answers("2", "goes", "5")


def verdicts(side):
    return [answer.verdict for answer in side]


def test_texts_with_a_key_are_judged_before_and_after():
    """All in one call; a key without an answer asks for what the unedited model said."""
    judge = Equal()
    (before, after), _ = judged(judge, [(CASE, (BEFORE, AFTER)), (CASE, (AFTER, BEFORE))])
    assert verdicts(before) == [WRONG, None, None]
    assert verdicts(after) == [RIGHT, None, WRONG]
    assert [eh.Text(answer.text) for answer in (*before, *after)] == [*BEFORE, *AFTER]
    (asked, _) = [reply for reply in judge.asked if reply.key.kind == "same"]
    assert asked == eh.Reply("2 + 2 =", "5", eh.Key("same", "4"))
    assert (judge.calls, len(judge.asked)) == (1, 6)


def test_without_a_judge_verdicts_are_pending_and_nothing_to_judge_asks_nobody():
    ((before, after),) = judged(None, [(CASE, (BEFORE, AFTER))])
    assert verdicts(before) == [NO_JUDGE, None, None]
    assert verdicts(after) == [NO_JUDGE, None, NO_JUDGE]
    assert NO_JUDGE.score is None
    judge = Equal(fails=RuntimeError("asked"))
    plain = eh.Case("0", (), (FREE, eh.Probe("efficacy", eh.Choose("a", ("b",)))))
    assert judged(judge, [(plain, (BEFORE[:2], AFTER[:2]))]) == [(BEFORE[:2], AFTER[:2])]
    assert judged(judge, [(CASE, ((), ()))]) == [([], [])]
    assert judge.asked == []


@pytest.mark.parametrize(
    "returned",
    [
        None, [RIGHT], [1.0] * 3, [eh.Verdict("pending", 0.0)] * 3, [eh.Verdict("decided")] * 3,
        [eh.Verdict("decided", 1.5)] * 3, [eh.Verdict("undecided", 0.5)] * 3, [eh.Verdict("sure", 1.0)] * 3,
        [eh.Verdict("decided", 1.0, raw=object())] * 3, [eh.Verdict("decided", 1.0, "no")] * 3,
        [eh.Verdict("unparsed", 0.0)] * 3, [eh.Verdict("decided", 1.0, ratings={"flow": 1.5})] * 3,
        [eh.Verdict("decided", 1.0, ratings={"flow": float("nan")})] * 3,
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


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError("no server"), "OSError: no server"),
        (SystemExit(3), "SystemExit: 3"),
        (BaseExceptionGroup("two", [SystemExit(0)]), "BaseExceptionGroup: two (1 sub-exception)"),
    ],
)
def test_a_judge_that_fails_leaves_verdicts_pending_and_is_asked_again_for_them_alone(error, said):
    ((before, after),) = judged(Equal(fails=error), [(CASE, (BEFORE, AFTER))])
    assert verdicts(before)[0].note == f"the judge failed: {said} ({RAISED})"
    judge = Equal()
    half = (before, [eh.Text("2", RIGHT), *after[1:]])
    ((_, after),) = judged(judge, [(CASE, half)])
    assert verdicts(after) == [RIGHT, None, WRONG]
    assert [reply.text for reply in judge.asked] == ["3", "5"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), eh.DataError("no formula")])
def test_what_is_not_the_judges_ends_the_run(error):
    """Ctrl-C, or a key that no judge could use."""
    with pytest.raises(type(error)):
        judged(Equal(fails=error), [(CASE, (BEFORE, AFTER))])


def test_a_judge_that_does_not_know_a_kind_is_named():
    class Narrow(eh.Judge):
        kinds: ClassVar = {"formula": "nothing"}

        def judge(self, replies):
            return []

    case = eh.Case("1", (), (eh.Probe("x", eh.Generate("p"), key=eh.Key("compare")),))
    with pytest.raises(eh.UsageError, match="judge narrow does not know what the kind 'compare'"):
        judging.check_kinds(Narrow(), "narrow", [case])
    judging.check_kinds(Narrow(), "narrow", [])
