"""How far a number of ours may be from a printed one, and what that says: pure functions of numbers.

A tolerance comes from both intervals, ours and the printed one, as of two independent samples, and
from the rounding of what was printed. What is so wide that it would let most of a table pass says
nothing, and is no pass. Where the numbers come from stands in `edit_harness_plugins.commands.studies.reproduce.replication`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from edit_harness.stats import Estimate

Verdict = Literal["within", "outside", "too few cases to tell", "not comparable"]
WITHIN: Verdict = "within"
OUTSIDE: Verdict = "outside"
UNTOLD: Verdict = "too few cases to tell"
APART: Verdict = "not comparable"
LEAST = 20
"""Cases below which a comparison with a printed number is not to be trusted."""
TELLING = 4
"""A tolerance of more than the spread of a column's printed numbers by this says nothing."""


@dataclass(frozen=True)
class Ruling:
    """What is said of one number."""

    verdict: Verdict
    why: str = ""
    tolerance: float = math.nan


def scaled(half: float, level: float, to: float) -> float:
    """Return the half-width that a normal interval of one level has at another."""
    one, two = (NormalDist().inv_cdf((1 + each) / 2) for each in (level, to))
    return half * two / one


def width(ours: Estimate, printed: float) -> float:
    """Return how wide our interval is on the side of a printed number; infinite if there is none."""
    far = abs((ours.high if printed > ours.value else ours.low) - ours.value)
    return math.inf if math.isnan(far) else far


def tolerance(ours: float, theirs: float | None, rounding: float) -> float:
    """Return how far apart two numbers may be, from the half-widths of their intervals.

    The intervals are of independent samples; with none printed, theirs counts for nothing.
    """
    return rounding + math.hypot(ours, theirs or 0.0)


def coarsest(others: Sequence[float], rounding: float) -> float:
    """Return the greatest tolerance that says something, where a column has these printed numbers.

    A quarter of their spread, and twice the rounding where they are all alike.
    """
    spread = max(others) - min(others) if others else 0.0
    return max(spread / TELLING, 2 * rounding)


def of_value(
    ours: Estimate, printed: float, allowed: float, most: float, *, least: int = LEAST
) -> Ruling:
    """Say whether a number is within a tolerance, if so many cases can tell."""
    if math.isnan(ours.value):
        return Ruling(APART, "the run has no such number")
    if ours.n < least:
        return Ruling(UNTOLD, f"n = {ours.n}, and {least} is the least", allowed)
    if abs(ours.value - printed) > allowed:
        return Ruling(OUTSIDE, "", allowed)
    if not allowed <= most:
        return Ruling(UNTOLD, f"± {allowed:.2g}, and up to {most:.2g} tells something", allowed)
    return Ruling(WITHIN, "", allowed)


def of_figure(ours: Estimate, printed: float, n: int, within: float) -> Ruling:
    """Say whether a figure of the same cases came out again; of other cases it is another figure."""
    if ours.n != n:
        return Ruling(APART, f"the figure is of {n} cases, and here are {ours.n}", within)
    return Ruling(WITHIN if abs(ours.value - printed) <= within else OUTSIDE, "", within)


def apart(one: float, other: float, n: int, level: float) -> bool:
    """Tell whether two printed shares of n cases differ by more than chance, as of independent samples.

    By Agresti and Caffo: a right and a wrong case more on each side.
    """
    if not n:
        return False
    shares = [(n * share + 1) / (n + 2) for share in (one, other)]
    error = math.sqrt(sum(share * (1 - share) for share in shares) / (n + 2))
    return abs(shares[0] - shares[1]) > NormalDist().inv_cdf((1 + level) / 2) * error


def of_order(difference: float, p: float | None, level: float, n: int) -> Ruling:
    """Say whether an editor that was printed above another is above it here: by ``p`` of the difference."""
    if p is None or p > 1 - level or math.isnan(difference):
        return Ruling(UNTOLD, f"n = {n}: the difference of ours may be chance")
    return Ruling(WITHIN if difference > 0 else OUTSIDE)
