"""Hands texts to a judge, and puts its verdicts beside them.

A judge that fails leaves verdicts pending, so that no text scores 0 for want of a verdict. It gets many
texts at once, and is not told which model wrote them under which edit.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ..data import Answers, Case, Reply, Text, Verdict
from ..errors import DataError, HarnessError, UsageError
from ..interfaces import Judge
from ..registry.guard import PASSING, said

LOG = logging.getLogger(__name__)
NO_JUDGE = Verdict("pending", note="no judge was asked")


def judged(judge: Judge | None, asked: Sequence[tuple[Case, Answers]]) -> list[Answers]:
    """Return the cases' answers with verdicts on the texts whose probe has a key.

    Texts keep a verdict that is not pending. Raises `HarnessError` if the judge does, for a key that it
    cannot use.
    """
    todo = [
        (number, when, place, reply)
        for number, (case, answers) in enumerate(asked)
        for when, place, reply in _replies(case, answers)
    ]
    verdicts = _verdicts(judge, [reply for *_, reply in todo])
    found = [(list(before), list(after)) for _, (before, after) in asked]
    for (number, when, place, _), verdict in zip(todo, verdicts, strict=True):
        text = found[number][when][place]
        assert isinstance(text, Text)
        found[number][when][place] = replace(text, verdict=verdict)
    return [*found]


def judged_apart(
    judge: Judge | None, asked: Sequence[tuple[Case, Answers]]
) -> list[Answers | DataError]:
    """Return the same, with the error in the place of a case whose key the judge cannot use."""
    try:
        return list(judged(judge, asked))
    except DataError as error:
        if len(asked) == 1:
            return [error]
        return [found for one in asked for found in judged_apart(judge, [one])]


def _replies(case: Case, answers: Answers) -> Iterator[tuple[int, int, Reply]]:
    """Yield what to judge: before (0) or after (1), the probe's number, the reply."""
    for i, probe in enumerate(case.probes):
        if probe.key is None:
            continue
        for when, given in enumerate(answers):
            text, key = given[i] if i < len(given) else None, probe.key
            if not isinstance(text, Text) or (text.verdict and text.verdict.status != "pending"):
                continue
            if not key.right:
                unedited = answers[0][i]
                if when == 0 or not isinstance(unedited, Text):
                    continue
                key = replace(key, right=unedited.text)
            yield when, i, Reply(probe.query.prompt, text.text, key)


def _verdicts(judge: Judge | None, replies: Sequence[Reply]) -> list[Verdict]:
    if judge is None or not replies:
        return [NO_JUDGE] * len(replies)
    try:
        verdicts = judge.judge(replies)
        _check(verdicts, len(replies))
    except (HarnessError, *PASSING):
        raise
    except BaseException as error:
        LOG.debug("the judge failed", exc_info=True)
        reason = f"the judge failed: {said(error, judge)}"
        return [Verdict("pending", note=reason)] * len(replies)
    return verdicts


def _check(verdicts: Sequence[Verdict], count: int) -> None:
    """Raise `TypeError` or `ValueError` if these are not so many verdicts with a score each."""
    if len(verdicts) != count or not all(isinstance(v, Verdict) for v in verdicts):
        raise TypeError(f"it returned {len(verdicts)} things for {count} replies, or no verdicts")
    for verdict in verdicts:
        if not sound(verdict):
            raise ValueError(f"{verdict} has a status, a score or a note that no verdict may have")


def sound(verdict: Verdict) -> bool:
    """Tell whether a verdict has one of the four statuses, and a score and ratings that fit it.

    Only a decided one has its own score; undecided is 0, the others None.
    """
    if not all(isinstance(text, str) for text in (verdict.note, verdict.raw, verdict.served)):
        return False
    if type(verdict.reverted) is not bool or verdict.swapped not in (None, True, False):
        return False
    if not all(-1 <= rating <= 1 for rating in verdict.ratings.values()):
        return False
    if verdict.status == "decided":
        return isinstance(verdict.score, float | int) and 0 <= verdict.score <= 1
    scores = {"undecided": 0.0, "unparsed": None, "pending": None}
    return scores.get(verdict.status, math.nan) == verdict.score


def check_kinds(judge: Judge, name: str, cases: Iterable[Case]) -> None:
    """Raise `UsageError` if a judge does not know a kind of key that the cases have."""
    kinds = {probe.key.kind for case in cases for probe in case.probes if probe.key}
    if unknown := sorted(kinds - judge.kinds.keys()):
        raise UsageError(
            f"judge {name} does not know what the kind {unknown[0]!r} of texts is",
            f"it knows {', '.join(judge.kinds)}; `edit-harness ls judges` lists others",
        )
