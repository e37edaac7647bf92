"""The suite for judges; see `edit_harness.testing` for how to use it."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from dataclasses import asdict

import pytest

from edit_harness.cases import Key, Reply, Verdict
from edit_harness.errors import HarnessError
from edit_harness.fields import build, defaults
from edit_harness.interfaces import Judge
from edit_harness.judging import sound


class JudgeTests:
    """What every judge must do."""

    judge: Judge
    replies: Sequence[Reply]
    """Replies that it can judge, to which it gives different scores."""

    def test_verdicts_are_sound(self) -> None:
        """There is one for each reply, with a score in [0, 1] unless it is pending."""
        verdicts = self.judge.judge(self.replies)
        assert len(verdicts) == len(self.replies)
        for verdict in verdicts:
            assert sound(verdict), verdict
        assert self.judge.judge([]) == []

    def test_tells_replies_apart(self) -> None:
        """Not everything is right, and not everything is wrong."""
        verdicts = self.judge.judge(self.replies)
        assert len({verdict.score for verdict in verdicts if verdict.status == "decided"}) > 1

    def test_verdicts_do_not_depend_on_the_other_replies(self) -> None:
        """A verdict is filled in later for single replies, in any order."""
        together = self.judge.judge(self.replies)
        assert self.judge.judge(self.replies[::-1]) == together[::-1]
        assert [self.judge.judge([reply])[0] for reply in self.replies] == together

    def test_is_deterministic(self) -> None:
        """A fresh judge says the same, whatever the global random state, which it leaves alone."""
        first = self.judge.judge(self.replies)
        state = random.getstate()
        try:
            random.seed(1)
            seeded = random.getstate()
            assert copy.deepcopy(self.judge).judge(self.replies) == first
            assert random.getstate() == seeded
        finally:
            random.setstate(state)

    def test_bears_any_text(self) -> None:
        """A model may write anything; that is a verdict, not an error."""
        keys = {reply.key.kind: reply.key for reply in self.replies}.values()
        hostile = [Reply("", text, key) for key in keys for text in HOSTILE]
        for verdict in self.judge.judge(hostile):
            assert sound(verdict), verdict

    def test_verdicts_are_json(self) -> None:
        """Verdicts are stored with the answers, in strict JSON."""
        for verdict in self.judge.judge(self.replies):
            assert Verdict(**json.loads(json.dumps(asdict(verdict), allow_nan=False))) == verdict

    def test_refuses_a_kind_that_it_does_not_know(self) -> None:
        """That is the task's mistake, so it must not look like a model's."""
        with pytest.raises(HarnessError):
            self.judge.judge([Reply("", "", Key("no-such-kind"))])

    def test_says_what_it_is(self) -> None:
        """The record of a run identifies the judge; tasks find the kinds that it knows."""
        assert self.judge.kinds
        assert {reply.key.kind for reply in self.replies} <= self.judge.kinds.keys()
        assert isinstance(self.judge.version, str)
        fields = {name: getattr(self.judge, name) for name in defaults(type(self.judge))}
        json.dumps([fields, dict(self.judge.provenance)], allow_nan=False)
        assert build(type(self.judge), fields, "judge") == self.judge


HOSTILE = (
    "", " \n\t ", "\0", "\ud800", "é" * 5_000, "(" * 5_000, "9**9**9**9", "1/0", "{" * 500, "\\frac{",
    "\\" * 500, "x^" * 500, "import os", "__import__('os')", "'\"`$" * 100, "nan", "-inf", "1e999",
)  # fmt: skip
