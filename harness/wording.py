"""Counts with their nouns, as messages say them. It knows no message."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: ``1 case``, ``1,200 cases``; ``many`` is an irregular plural."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
