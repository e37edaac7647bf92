"""Whether tokens that are told as the likeliest can be: of all contexts of an answer, not of each token alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from edit_harness.cases import Scores

MASS = 1e-4
"""How far probabilities may be off, in all."""


@dataclass
class Place:
    """What an answer says of the token that comes after one context."""

    known: dict[int, float] = field(default_factory=dict)
    """Log-probabilities of candidates' tokens."""
    likeliest: set[int] = field(default_factory=set)


def places(scores: Scores) -> Iterator[Place]:
    """Yield what an answer says of each context; candidates that begin alike share some."""
    found: dict[tuple[int, ...], Place] = {}
    for tokens, logprobs, best in zip(scores.tokens, scores.logprobs, scores.argmax, strict=True):
        for number, token in enumerate(tokens):
            place = found.setdefault(tokens[:number], Place())
            place.likeliest.add(best[number])
            if logprobs[number] is not None:
                place.known[token] = logprobs[number]
    yield from found.values()


def impossible(scores: Scores, slack: float) -> str:
    """Return why a token cannot be the likeliest, or has to be; empty if all can be.

    ``slack`` is how far two measurements of one log-probability may be apart, in nats.
    """
    for place in places(scores):
        if place.known and (why := _of_place(place, slack)):
            return why
    return ""


def _of_place(place: Place, slack: float) -> str:
    top = max(place.known.values())
    for token in place.likeliest:
        if token in place.known and place.known[token] < top - slack:
            said = math.exp(place.known[token])
            return f"a token of probability {said:.3g} is the likeliest beside one of {math.exp(top):.3g}"
    left = 1 - math.fsum(map(math.exp, place.known.values())) + MASS
    if not place.likeliest & place.known.keys() and left < math.exp(top - slack):
        return f"a token of probability {math.exp(top):.3g} that is not the likeliest"
    return ""


def torn(scores: Scores) -> tuple[int, int]:
    """Return how many contexts have several likeliest tokens, and how many contexts there are."""
    found = list(places(scores))
    return sum(len(place.likeliest) > 1 for place in found), len(found)
