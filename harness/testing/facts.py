"""What editors under test are asked to write; nothing here needs torch."""

from __future__ import annotations

from collections.abc import Sequence

from ..cases import Case, Choose, Drift, Probe, Request

FACTS = (
    Request("{} lives in", "Ann", "Rome", "Oslo"),
    Request("The firm of {} is", "Bob", "Saab", "Fiat"),
)
"""What editors are asked to write."""
ODD = (
    Request("{} lives in", "Zoë Müller-Łukasz", "Paris"),
    Request("The {so-called} home of {} is", "the {strange} one", "Rome", "{Oslo}"),
    Request("{} goes to", "X", "Rome, the capital of Italy, and then to Paris and to Oslo", "Oslo"),
    Request("Where does {} live? In", 'Ann "O\'Neil" \\ Bob', "Sankt Gallen"),
    Request("{} は", "東京", "大阪"),
)
"""Requests that a task may have: braces, accents, quotes, other scripts, a subject of one letter at the
very start, a long target, no true object."""
TOO_LONG = Request("word " * 3000 + "{} lives in", "Ann", "Rome", "Oslo")
"""A request that has more tokens than the tiny model has positions."""


def as_cases(requests: Sequence[Request]) -> list[Case]:
    """Return a case for each request, that asks for its objects and for a divergence elsewhere.

    Of a prompt that is too long the end is asked, so that what fails is the edit.
    """
    return [
        Case(
            f"case-{number}",
            (request,),
            (
                Probe("efficacy", Choose(request.text[-99:], (request.target_new, "Oslo"))),
                Probe("neighborhood", Drift("Ada plays")),
            ),
        )
        for number, request in enumerate(requests)
    ]
