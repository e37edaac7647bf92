"""The suite for judges; see `edit_harness.testing` for how to use it."""

from __future__ import annotations

import copy
import errno
import json
import random
import socket
from collections.abc import Sequence
from dataclasses import asdict
from typing import NoReturn

import numpy as np
import pytest

from ..data import Key, Reply, Verdict
from ..errors import HarnessError
from ..interfaces import Judge
from ..registry.settings import build, defaults
from ..run.judging import sound
from .suite import Suite, left_alone


class JudgeTests(Suite):
    """What every judge must do.

    Verdicts are in range, depend on their own reply alone, are deterministic and strict JSON; a key of another kind
    is refused. What fails is never scored: with every connection refused a verdict is as before, or pending, or
    unparsed. Nothing global changes.
    """

    judge: Judge
    replies: Sequence[Reply]
    """Replies that it can judge: right ones and wrong ones."""

    def test_verdicts_are_sound(self) -> None:
        """There is one for each reply, in strict JSON, with a score in [0, 1] unless it is pending."""
        verdicts = self.judge.judge(self.replies)
        assert len(verdicts) == len(self.replies), "return a verdict for each reply, in order"
        for verdict in verdicts:
            assert sound(verdict), (
                f"{verdict}: a decided one has a score in [0, 1], an undecided one 0, the others None"
            )
            stored = Verdict(**json.loads(json.dumps(asdict(verdict), allow_nan=False)))
            assert stored == verdict, f"{stored} is what strict JSON makes of {verdict}"
        assert self.judge.judge([]) == [], "no replies have no verdicts"

    def test_verdicts_do_not_depend_on_the_other_replies(self) -> None:
        """A verdict is filled in later for single replies, in any order."""
        together = self.judge.judge(self.replies)
        how = "a verdict depends on its own reply alone"
        assert self.judge.judge(self.replies[::-1]) == together[::-1], f"order matters: {how}"
        alone = [self.judge.judge([reply])[0] for reply in self.replies]
        assert alone == together, f"the others matter: {how}"

    def test_is_deterministic(self) -> None:
        """A fresh judge says the same, whatever the global random states."""
        first = self.judge.judge(self.replies)
        random.seed(1)
        np.random.seed(1)
        again = copy.deepcopy(self.judge).judge(self.replies)
        assert again == first, "a fresh judge says something else: seed what is drawn"

    def test_leaves_the_process_as_it_was(self) -> None:
        """Judging changes no random state, no environment, no handler of signals."""
        with left_alone():
            self.judge.judge(self.replies)

    def test_failures_are_never_scored(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where every connection is refused, a verdict is the same as before, or has no score."""
        before = self.judge.judge(self.replies)
        judge = copy.deepcopy(self.judge)
        with monkeypatch.context() as patch:
            unplug(patch)
            try:
                found = judge.judge(self.replies)
            except HarnessError as error:
                pytest.fail(f"an error for users ends the run, others leave it pending: {error}")
            except Exception:
                return  # all verdicts of the call are pending then
        for one, two in zip(before, found, strict=True):
            unscored = two.status in ("pending", "unparsed") and two.score is None
            assert unscored or two == one, (
                f"without a network the verdict is {two}: what could not be judged is Verdict('pending')"
            )

    def test_refuses_a_kind_that_it_does_not_know(self) -> None:
        """That is the task's mistake, so it must not look like a model's."""
        try:
            found = self.judge.judge([Reply("", "", Key("no-such-kind"))])
        except HarnessError:
            return
        pytest.fail(f"a key of another kind got {found}: raise a UsageError")

    def test_says_what_it_is(self) -> None:
        """The record of a run identifies the judge; tasks find the kinds that it knows."""
        assert self.judge.kinds, "say in `kinds` by which keys it can judge"
        assert {reply.key.kind for reply in self.replies} <= self.judge.kinds.keys()
        assert isinstance(self.judge.version, str)
        fields = {name: getattr(self.judge, name) for name in defaults(type(self.judge))}
        json.dumps([fields, dict(self.judge.provenance)], allow_nan=False)
        assert build(type(self.judge), fields, "judge") == self.judge


def unplug(patch: pytest.MonkeyPatch) -> None:
    """Refuse every connection from now on, and every look-up of a name."""

    def refuse(*args: object, **kwargs: object) -> NoReturn:
        raise ConnectionRefusedError(errno.ECONNREFUSED, "refused by a check of judges")

    for name in ("connect", "connect_ex"):
        patch.setattr(socket.socket, name, refuse)
    for name in ("create_connection", "getaddrinfo"):
        patch.setattr(socket, name, refuse)
