"""Tests of means and of shares, and their correction where there are many: functions of numbers.

They are the tests that papers print. The intervals of a run's own estimates are made elsewhere
(`edit_harness.stats`), and which numbers are tested is the affair of a metric's tables.

Besides, how large a difference must be for a test to show it.

Where a test says nothing there is None in the place of its numbers, never a number that could be
taken for a result: with fewer than two values, and with values that do not vary, of which t is not
defined.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Numbers = Sequence[float] | np.ndarray
LEVEL = 0.95
ROUNDING = 1e-12
"""Values whose spread is less than this part of their size do not vary: it is of rounding alone."""
PRECISION = 1e-4
"""How close the least difference of two shares is searched."""


@dataclass(frozen=True)
class TTest:
    """A mean, or a difference of means, and whether it is other than 0."""

    mean: float | None
    """None if there are no values."""
    low: float | None
    """With ``high``, the confidence interval of the mean."""
    high: float | None
    t: float | None
    p: float | None
    """Two-sided."""
    n: int
    """Values behind it, those of both samples together if there are two."""


def one_sample(values: Numbers, level: float = LEVEL) -> TTest:
    """Test whether a mean is 0, by Student (1908); NaN is left out.

    It is scipy's ``ttest_1samp``, which the code of Seesaw-CF calls, but for the values that do not
    vary: of those it makes a p of 0.
    """
    x = _present(values)
    if len(x) < 2:
        return TTest(float(x[0]) if len(x) else None, None, None, None, None, len(x))
    return _tested(float(x.mean()), _spread(x), 1 / len(x), len(x) - 1, len(x), level)


def of_sums(n: int, total: float, squares: float, level: float = LEVEL) -> TTest:
    """Return what `one_sample` does of ``n`` values, from their sum and the sum of their squares.

    Meant for values of few digits, such as -1, 0 and 1, whose sums are exact.
    """
    if n < 2:
        return TTest(total / n if n else None, None, None, None, None, n)
    spread = squares - total * total / n
    spread = spread if spread > ROUNDING * squares else 0.0
    return _tested(total / n, spread, 1 / n, n - 1, n, level)


def paired(before: Numbers, after: Numbers, level: float = LEVEL) -> TTest:
    """Test whether the mean of ``after - before`` is 0, over the pairs of which both are there.

    Raises `ValueError` if there are not as many before as after.
    """
    return one_sample(_changes(before, after), level)


def two_sample(before: Numbers, after: Numbers, level: float = LEVEL) -> TTest:
    """Test whether two means are one, by Student's test for equal variances; NaN is left out.

    It is what scipy's ``ttest_ind`` does unless it is told otherwise, and papers print it for pairs
    too, for which `paired` is stronger. The mean is that after less that before.
    """
    one, two = _present(before), _present(after)
    n = len(one) + len(two)
    difference = float(two.mean() - one.mean()) if len(one) and len(two) else None
    if difference is None or min(len(one), len(two)) < 2:
        return TTest(difference, None, None, None, None, n)
    spread = _spread(one) + _spread(two)
    return _tested(difference, spread, 1 / len(one) + 1 / len(two), n - 2, n, level)


def _changes(before: Numbers, after: Numbers) -> np.ndarray:
    # One value would be subtracted from all of the others.
    if len(before) != len(after):
        raise ValueError(f"{len(before)} values before and {len(after)} after are no pairs")
    return np.asarray(after, dtype=float) - np.asarray(before, dtype=float)


def _present(values: Numbers) -> np.ndarray:
    x = np.asarray(values, dtype=float)
    return x[~np.isnan(x)]


def _spread(x: np.ndarray) -> float:
    """Return the sum of squared deviations from the mean, 0 if it is of rounding alone."""
    deviations = x - x.mean()
    if np.abs(deviations).max() <= ROUNDING * np.abs(x).max():
        return 0.0
    return float(deviations @ deviations)


def _tested(mean: float, spread: float, weight: float, freedom: int, n: int, level: float) -> TTest:
    """Test a mean whose variance is ``weight * spread / freedom``."""
    error = math.sqrt(weight * spread / freedom)
    if not error:
        return TTest(mean, None, None, None, None, n)
    # scipy.stats has the same under other names, and takes twice as long to import.
    from scipy.special import stdtr, stdtrit

    t = mean / error
    half = float(stdtrit(freedom, (1 + level) / 2)) * error
    return TTest(mean, mean - half, mean + half, t, 2 * float(stdtr(freedom, -abs(t))), n)


@dataclass(frozen=True)
class McNemar:
    """How many answers became wrong and right, and whether these are more than those."""

    lost: int
    """Right before and wrong after."""
    gained: int
    n: int
    """Pairs, those that stayed as they were among them."""
    p: float | None
    """Two-sided and exact; 1 if no answer changed, None if there are no pairs."""


def mcnemar(before: Numbers, after: Numbers) -> McNemar:
    """Test whether pairs of right (1) and wrong (0) answers became better or worse.

    McNemar (1947), by the binomial distribution itself instead of its approximation: of the pairs
    that changed, half are lost by chance. Pairs with a NaN are left out. Raises `ValueError` if
    there are not as many before as after.
    """
    changes = _present(_changes(before, after))
    lost, gained = int((changes < 0).sum()), int((changes > 0).sum())
    if not len(changes):
        return McNemar(0, 0, 0, None)
    return McNemar(lost, gained, len(changes), sign(lost + gained, gained))


def sign(n: int, above: int) -> float:
    """Return the two-sided p of the exact sign test: of ``n`` differences other than 0, some are above.

    1 if there is no difference.
    """
    tail = sum(math.comb(n, k) for k in range(min(above, n - above) + 1))
    return min(1.0, 2 * tail / 2**n)


def benjamini_hochberg(ps: Sequence[float | None]) -> list[float | None]:
    """Return p-values corrected for their number, in their order.

    Benjamini and Hochberg (1995): a share of at most q of those at or below q are false finds, as is
    to be expected. What is None or NaN was not tested, and is neither counted nor corrected.
    """
    tested = sorted((p, i) for i, p in enumerate(ps) if p is not None and not math.isnan(p))
    adjusted: list[float | None] = [None] * len(ps)
    least = 1.0
    for rank in range(len(tested), 0, -1):
        p, place = tested[rank - 1]
        least = min(least, p * (len(tested) / rank))
        adjusted[place] = least
    return adjusted


def effect_size(before: Numbers, after: Numbers) -> float | None:
    """Return Cohen's d_z: the mean of ``after - before`` in standard deviations of these differences.

    None where the differences do not vary. Raises `ValueError` as `paired` does.
    """
    x = _present(_changes(before, after))
    spread = _spread(x) if len(x) > 1 else 0.0
    return float(x.mean()) / math.sqrt(spread / (len(x) - 1)) if spread else None


def detectable_mean(before: Numbers, after: Numbers, alpha: float, power: float) -> float | None:
    """Return the least mean difference that a paired t-test would show with this power.

    It is for as many pairs as there are, whose differences vary as these do; ``alpha`` is the level
    of the two-sided test. None where the differences do not vary, since nothing is known of how much
    others would. Raises `ValueError` as `paired` does.
    """
    x = _present(_changes(before, after))
    spread = _spread(x) if len(x) > 1 else 0.0
    if not spread:
        return None
    from scipy.special import nctdtrinc, stdtrit

    freedom = len(x) - 1
    error = math.sqrt(spread / freedom / len(x))
    # The other side's share of the power is left out: it is below alpha / 2 and vanishes with power.
    return float(nctdtrinc(freedom, 1 - power, stdtrit(freedom, 1 - alpha / 2))) * error


def detectable_share(found: McNemar, alpha: float, power: float) -> float | None:
    """Return the least difference of two shares that McNemar's exact test would show with this power.

    It is for as many pairs as there are, of which as many change as did, or as few more as the
    difference takes. In (0, 1]; None if there are too few pairs for any difference.
    """
    changed = (found.lost + found.gained) / found.n if found.n else 0.0

    def enough(difference: float) -> bool:
        return _power(found.n, max(changed, difference), difference, alpha) >= power

    if not found.n or not enough(1.0):
        return None
    low, high = 0.0, 1.0
    while high - low > PRECISION:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _power(n: int, changed: float, difference: float, alpha: float) -> float:
    """Return the probability that McNemar's exact test of ``n`` pairs has a p of at most ``alpha``.

    ``changed`` is the probability that a pair changes, ``difference`` by how much gains are the likelier.
    """
    from scipy.special import bdtr

    changes = np.arange(n + 1)
    probability = np.diff(bdtr(changes, n, changed), prepend=0.0)
    changes, probability = changes[probability > ROUNDING], probability[probability > ROUNDING]
    most = _critical(changes, alpha)
    gains = (changed + difference) / (2 * changed)
    rejected = bdtr(most, changes, gains) + bdtr(most, changes, 1 - gains)
    return float(probability @ np.where(most < 0, 0.0, rejected))


def _critical(changes: np.ndarray, alpha: float) -> np.ndarray:
    """Return how many of so many changes may go the rarer way at a p of at most ``alpha``; -1: none."""
    from scipy.special import bdtr

    low, high = np.full(len(changes), -1), changes // 2
    while (low < high).any():
        middle = (low + high + 1) // 2
        fits = 2 * bdtr(middle, changes, 0.5) <= alpha
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    return low
