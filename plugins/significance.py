"""Tests of means and of shares, as papers print them, and their correction where there are many.

A test of fewer than two values, or of values that do not vary, has None in the place of its numbers.
scipy.stats is imported when a test is made, since that takes long.
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


def one_sample(values: Numbers) -> TTest:
    """Test whether a mean is 0, by Student (1908); NaN is left out."""
    x = _present(values)
    n = len(x)
    return _tested(float(x.mean()) if n else None, _spread(x), 1 / max(n, 1), n - 1, n)


def of_sums(n: int, total: float, squares: float) -> TTest:
    """Return what `one_sample` does of ``n`` values, from their sum and the sum of their squares.

    Meant for values of few digits, such as -1, 0 and 1, whose sums are exact.
    """
    spread = squares - total * total / max(n, 1)
    spread = spread if spread > ROUNDING * squares else 0.0
    return _tested(total / n if n else None, spread, 1 / max(n, 1), n - 1, n)


def paired(before: Numbers, after: Numbers) -> TTest:
    """Test whether the mean of ``after - before`` is 0, over the pairs of which both are there.

    Raises `ValueError` if there are not as many before as after.
    """
    return one_sample(_changes(before, after))


def two_sample(before: Numbers, after: Numbers) -> TTest:
    """Test whether two means are one, by Student's test for equal variances; NaN is left out.

    The mean is that after less that before. Papers print it for pairs too, for which `paired` is stronger.
    """
    one, two = _present(before), _present(after)
    n = len(one) + len(two)
    if not len(one) or not len(two):
        return TTest(None, None, None, None, None, n)
    spread = _spread(one) + _spread(two) if min(len(one), len(two)) > 1 else 0.0
    weight = 1 / len(one) + 1 / len(two)
    return _tested(float(two.mean() - one.mean()), spread, weight, n - 2, n)


def _changes(before: Numbers, after: Numbers) -> np.ndarray:
    if len(before) != len(after):  # one value would be subtracted from all of the others
        raise ValueError(f"{len(before)} values before and {len(after)} after are no pairs")
    return np.asarray(after, dtype=float) - np.asarray(before, dtype=float)


def _present(values: Numbers) -> np.ndarray:
    x = np.asarray(values, dtype=float)
    return x[~np.isnan(x)]


def _spread(x: np.ndarray) -> float:
    """Return the sum of squared deviations from the mean, 0 if it is of rounding alone."""
    deviations = x - x.mean() if len(x) > 1 else np.zeros(1)
    if np.abs(deviations).max() <= ROUNDING * np.abs(x).max(initial=0.0):
        return 0.0
    return float(deviations @ deviations)


def _tested(mean: float | None, spread: float, weight: float, freedom: int, n: int) -> TTest:
    """Test a mean whose variance is ``weight * spread / freedom``."""
    if mean is None or not spread:
        return TTest(mean, None, None, None, None, n)
    from scipy import stats

    error = math.sqrt(weight * spread / freedom)
    half = float(stats.t.ppf((1 + LEVEL) / 2, freedom)) * error
    p = 2 * float(stats.t.sf(abs(mean) / error, freedom))
    return TTest(mean, mean - half, mean + half, mean / error, p, n)


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
    """Test whether pairs of right (1) and wrong (0) answers became better or worse (McNemar 1947).

    It is exact: of the pairs that changed, half are lost by chance. Pairs with a NaN are left out. Raises
    `ValueError` if there are not as many before as after.
    """
    changes = _present(_changes(before, after))
    lost, gained = int((changes < 0).sum()), int((changes > 0).sum())
    p = sign(lost + gained, gained) if len(changes) else None
    return McNemar(lost, gained, len(changes), p)


def sign(n: int, above: int) -> float:
    """Return the two-sided p of the exact sign test: of ``n`` differences other than 0, some are above."""
    from scipy import stats

    return float(stats.binomtest(above, n).pvalue) if n else 1.0


def benjamini_hochberg(ps: Sequence[float | None]) -> list[float | None]:
    """Return p-values corrected for their number, in their order.

    Benjamini and Hochberg (1995): a share of at most q of those at or below q are false finds, as is
    to be expected. What is None or NaN was not tested, and is neither counted nor corrected.
    """
    from scipy import stats

    tested = {i: p for i, p in enumerate(ps) if p is not None and not math.isnan(p)}
    found = stats.false_discovery_control([*tested.values()]) if tested else []
    adjusted = dict(zip(tested, map(float, found), strict=True))
    return [adjusted.get(i) for i in range(len(ps))]
