"""How far two stored answers are apart, one claimed and one measured again: in all that a metric can read.

What rounding alone decides is settled as it was claimed; whether it is rounding is told by the numbers
that were measured here, never by the claimed ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import Any

from edit_harness.cases import Answer, Divergence, Graded, Marks, Scores, Text, Verdict
from edit_harness.encoding import decode_answer
from edit_harness.folder.record import Record
from edit_harness.run.control import is_control
from edit_harness.run.effects import graded

from .baselines import TOLERANCE

LOOSER = 10
"""How many times the tolerance of a baseline an answer may be off: an edit adds to what machines differ by."""
EXACT = 1e-9
"""How far the scores of two verdicts may be apart: a judge by rules says the same anywhere."""


def tolerance_of(dtype: str) -> float:
    """Return how far two honest measurements of an edited model may be apart, in nats."""
    return LOOSER * TOLERANCE.get(dtype, 0.0)


def alike(one: Record, two: Record, dtype: str) -> bool:
    """Tell whether two records of a visit may be of one measurement."""
    sides = ((one.before, two.before), (one.after, two.after))
    if one.status != two.status or any(len(a) != len(b) for a, b in sides):
        return False
    most = tolerance_of(dtype)
    for first, second in chain.from_iterable(zip(*side, strict=True) for side in sides):
        if is_control(one.case):
            marks = graded(first), graded(second)
            same = all(agrees for _, agrees in graded_alike(*marks, most))
        else:
            claimed, again = decode_answer(first), decode_answer(second)
            same = distance(claimed, reconciled(claimed, again, most, judged=True)) <= most
        if not same:
            return False
    return True


def reconciled(
    claimed: Answer | None, again: Answer | None, tolerance: float, *, judged: bool
) -> Answer | None:
    """Return what was measured again, with ties and, unless they are judged here, verdicts as claimed.

    ``tolerance`` is in nats: a token is tied with the likeliest if both are candidates there, and are
    no further apart than that.
    """
    if isinstance(claimed, Scores) and isinstance(again, Scores):
        return _settled(claimed, again, tolerance) if claimed.tokens == again.tokens else again
    if isinstance(claimed, Text) and isinstance(again, Text) and not judged:
        return replace(again, verdict=claimed.verdict)
    return again


def _settled(claimed: Scores, again: Scores, tolerance: float) -> Scores:
    rows = []
    for number, (ours, theirs) in enumerate(zip(again.argmax, claimed.argmax, strict=True)):
        places = zip(ours, theirs, strict=True)
        rows.append(
            tuple(
                their if _tied(rivals(again, number, place), our, their, tolerance) else our
                for place, (our, their) in enumerate(places)
            )
        )
    return replace(again, argmax=tuple(rows))


def rivals(scores: Scores, number: int, place: int) -> dict[int, float | None]:
    """Return the log-probabilities of all candidates' tokens that stand where one of a candidate does."""
    before = scores.tokens[number][:place]
    return {
        tokens[place]: logprobs[place]
        for tokens, logprobs in zip(scores.tokens, scores.logprobs, strict=True)
        if len(tokens) > place and tokens[:place] == before
    }


def _tied(known: dict[int, float | None], best: int, other: int, tolerance: float) -> bool:
    one, two = known.get(best), known.get(other)
    return one is not None and two is not None and one - two <= tolerance


def distance(claimed: Answer | None, again: Answer | None) -> float:
    """Return how far two answers are apart, in nats; infinity for another text, token or verdict."""
    if isinstance(claimed, Scores) and isinstance(again, Scores):
        same = (claimed.tokens, claimed.argmax) == (again.tokens, again.argmax)
        return _largest(_differences(claimed, again)) if same else math.inf
    if isinstance(claimed, Divergence) and isinstance(again, Divergence):
        if claimed.vocabulary != again.vocabulary:
            return math.inf
        pairs = ((claimed.forward, again.forward), (claimed.reverse, again.reverse))
        return _largest(difference(one, two) for one, two in pairs)
    if isinstance(claimed, Text) and isinstance(again, Text):
        same = claimed.text == again.text and _as_judged(claimed.verdict, again.verdict)
        return 0.0 if same else math.inf
    return 0.0 if claimed is again is None else math.inf


def _differences(claimed: Scores, again: Scores) -> Iterator[float]:
    for one, two in zip(claimed.logprobs, again.logprobs, strict=True):
        if len(one) != len(two):
            yield math.inf
        yield from map(difference, one, two)


def _largest(differences: Iterator[float]) -> float:
    return max(differences, default=0.0)


def difference(one: float | None, two: float | None) -> float:
    """Return how far two numbers are apart; None stands for one that is not finite."""
    if one is None or two is None:
        return 0.0 if one is two else math.inf
    return abs(one - two)


def _as_judged(claimed: Verdict | None, again: Verdict | None) -> bool:
    """Tell whether two verdicts count the same; what they cost and how they are worded is no matter."""
    if claimed is None or again is None:
        return claimed is again
    one, two = ((v.status, v.reverted, sorted(v.ratings)) for v in (claimed, again))
    numbers = zip(_numbers(claimed), _numbers(again), strict=False)
    return one == two and all(difference(x, y) <= EXACT for x, y in numbers)


def _numbers(verdict: Verdict) -> Sequence[float | None]:
    return [verdict.score, *(verdict.ratings[name] for name in sorted(verdict.ratings))]


def graded_alike(claimed: Graded, again: Graded, tolerance: float) -> Iterator[tuple[str, bool]]:
    """Yield by measure, for each document of a control, whether two answers are of one measurement.

    ``tolerance`` is in nats: of log-likelihoods, for each token, word or byte that counts.
    """
    for name in sorted({*claimed.marks, *again.marks}):
        one, two = claimed.marks.get(name), again.marks.get(name)
        if one is None or two is None or _asked(claimed, one) != _asked(again, two):
            yield name, False
            continue
        for value, other, weight in zip(
            one.values, two.values, one.weights or repeat(1.0), strict=False
        ):
            most = tolerance * (1.0 if one.how == "mean" else max(weight, 1.0))
            yield name, difference(value, other) <= most


def _asked(of: Graded, marks: Marks) -> tuple[Any, ...]:
    return of.documents, marks.how, len(marks.values), marks.weights


def same_value(claimed: float, again: float, tolerance: float) -> bool:
    """Tell whether two values of a metric are of one measurement; decisions and counts have to be equal."""
    if float(claimed).is_integer() and float(again).is_integer():
        return claimed == again
    return math.isclose(claimed, again, rel_tol=tolerance, abs_tol=tolerance)
