"""Tells by algebra whether a formula, a number or a description is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edit_harness import Judge, Reply, Verdict


@dataclass
class Symbolic(Judge):
    """Formulas are compared as algebra, numbers within a tolerance."""

    def judge(self, replies: Sequence[Reply]) -> list[Verdict]:
        """Return a verdict for each reply."""
        raise NotImplementedError
