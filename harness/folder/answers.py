"""Whether an edit changed an answer, as far as a table could show it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..data import Answer, Distribution, Divergence, Scores, Text

VISIBLE, FAR = 5e-4, 1e-2
"""What a probability changes by to be another number in a table, in %; how far a distribution moves
that is another one, in nats."""


def unchanged(before: Sequence[Answer | None], after: Sequence[Answer | None]) -> bool:
    """Tell whether an edit changed no answer: what `edit_harness.folder.record.Record.noop` says.

    Texts are the same, and so are the likeliest candidate, and which tokens are right (of a candidate
    without a rival: which are the likeliest); no probability changes by `VISIBLE`, no divergence comes to
    `FAR`. Verdicts and distributions, which are not stored, are not looked at.
    """
    return all(map(_same, before, after))


def _same(one: Answer | None, other: Answer | None) -> bool:
    if isinstance(one, Scores) and isinstance(other, Scores):
        if one.tokens != other.tokens or _decided(one) != _decided(other):
            return False
        sides = ([p for part in side.logprobs for p in part] for side in (one, other))
        return all(abs(math.exp(a) - math.exp(b)) < VISIBLE for a, b in zip(*sides, strict=True))
    if isinstance(one, Divergence) and isinstance(other, Divergence):
        return max(abs(one.forward - other.forward), abs(one.reverse - other.reverse)) < FAR
    if isinstance(one, Text) and isinstance(other, Text):
        return one.text == other.text
    return isinstance(one, Distribution | None) or one == other


def _decided(scores: Scores) -> object:
    """Return what measures read of scores besides probabilities."""
    if len(scores.tokens) == 1:
        return scores.argmax
    said = zip(scores.tokens, scores.argmax, strict=True)
    right = [[a == b for a, b in zip(*pair, strict=True)] for pair in said]
    return min(range(len(right)), key=scores.nll, default=0), right
