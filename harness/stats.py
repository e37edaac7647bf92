"""Estimates with intervals, of per-case values: pure functions of numpy arrays, without any chance.

The unit is the case, since the probes of one case are not independent, or the edit, where cases
share one. ``benchmarks/coverage.py`` measures how often such intervals hold the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

BLOCKS = 1000
"""Parts that are left out in turn at most, of a summary that is none of means."""
STEP = 1e-4
"""The step of a derivative by a mean, in standard deviations of the column."""
ROUNDING = 1e-12
"""A spread of less than this part of a value's size is of rounding alone."""
UNBOUNDED, SHARE = (-math.inf, math.inf), (0.0, 1.0)
Columns = Mapping[str, np.ndarray]
Summary = Callable[[Columns], Mapping[str, float]]
Limits = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Estimate:
    """A value, the ends of its confidence interval, NaN if it has none, and the number of cases."""

    value: float
    low: float
    high: float
    n: int


def column_means(columns: Columns) -> dict[str, float]:
    """Return the mean of each column over the cases that have a value, NaN if none has."""
    present = {name: values[~np.isnan(values)] for name, values in columns.items()}
    return {name: float(v.mean()) if len(v) else math.nan for name, v in present.items()}


def harmonic_mean(values: Sequence[float]) -> float:
    """Return the harmonic mean; 0 if any value is not above 0, NaN if any is NaN."""
    if any(np.isnan(values)):
        return math.nan
    return len(values) / sum(1 / value for value in values) if min(values) > 0 else 0.0


def estimates(
    columns: Columns,
    summarize: Summary,
    limits: Limits | None = None,
    *,
    level: float = 0.99,
    groups: np.ndarray | None = None,
) -> dict[str, Estimate]:
    """Return any summary of columns with intervals; ``limits`` say what each can come to.

    - A share of single yes or no answers has the exact interval of Clopper and Pearson (1934).
    - Where no unit moves a summary, its interval is what so many units that agree leave possible.
    - All else has Student's interval, bent for skewness by Hall's transformation (1992); that of a
      mean between limits is no wider than a share's of that size (above 0 and below apart). That of
      a summary of means is widened, in squares, by what columns leave open whose units agree.

    One unit has none. ``groups`` labels cases; those of one label are one unit: they share an edit.
    """
    whole, found = summarize(columns), {}
    for name, moves in influences(columns, summarize, groups).items():
        value, (least, most) = whole[name], (limits or {}).get(name, UNBOUNDED)
        if len(moves) < 2 or math.isnan(value):
            low = high = math.nan
        elif np.abs(moves).max() <= ROUNDING * abs(value):
            low, high = _agreed(value, len(moves), (least, most), level)
        else:
            low, high = _bent(value, moves, level)
            if groups is None and math.isfinite(most - least):
                units = value + moves
                ends = _bounds(units, (least, most), level)
                exact = (least, most) == SHARE and np.isclose(units * (1 - units), 0).all()
                low, high = ends if exact else (max(low, ends[0]), min(high, ends[1]))
                if name not in columns:
                    down, up = _unmoved(name, value, columns, summarize, limits or {}, level)
                    low = value - math.hypot(value - low, down)
                    high = value + math.hypot(high - value, up)
        n = 0 if math.isnan(value) else count(columns, name)
        found[name] = Estimate(value, max(low, least), min(high, most), n)
    return found


def influences(
    columns: Columns, summarize: Summary, groups: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Return how each unit with a value moves each summary: numbers around 0.

    Of a summary of the columns' means they follow from its derivatives; of any other, from leaving
    out units in turn (a jackknife), of more than `BLOCKS` units random parts.
    """
    cases = _length(columns)
    units = np.arange(cases) if groups is None else np.unique(groups, return_inverse=True)[1]
    if (slopes := _slopes(columns, summarize)) is None:
        return _left_out(columns, summarize, units)
    found = {}
    for name, own in slopes.items():
        terms, there = np.zeros((len(own), cases)), np.zeros(cases, bool)
        for term, (column, slope) in zip(terms, own.items(), strict=True):
            if (present := ~np.isnan(columns[column])).any():
                values = columns[column][present]
                term[present] = slope / len(values) * (values - values.mean())
                there |= present
        moves = terms[0]
        if len(own) > 1:
            # Exact sums: whatever the order of the columns, and nothing is left of what cancels out.
            moves = np.array([math.fsum(of_case) for of_case in terms.T.tolist()])
        if groups is not None:
            moves, there = np.bincount(units, moves), np.bincount(units, there) > 0
        found[name] = moves[there] * there.sum()
    return found


def _slopes(columns: Columns, summarize: Summary) -> dict[str, dict[str, float]] | None:
    """Return each summary's derivatives by the columns' means; None if it is none of means.

    It is one if it says of the means what it says of the columns, all of them and halves.
    """
    trials = []
    for part in (slice(None), slice(0, None, 2), slice(_length(columns) // 2, None)):
        some = {name: values[part] for name, values in columns.items()}
        plain, means = summarize(some), column_means(some)
        try:
            quick = summarize(_one(means))
        except Exception:
            return None
        if quick.keys() != plain.keys() or not all(_same(quick[n], plain[n]) for n in plain):
            return None
        trials.append((plain, means))
    whole, means = trials[0]
    own = {n for n in whole if n in means and all(_same(p.get(n), m[n]) for p, m in trials)}
    found = {name: {name: 1.0} if name in own else {} for name in whole}
    for column in means if len(own) < len(whole) else ():
        step = STEP * float(np.nanstd(columns[column])) if not math.isnan(means[column]) else 0.0
        if step:
            up, down = (
                summarize(_one({**means, column: means[column] + d})) for d in (step, -step)
            )
            for name in found.keys() - own:
                # Rounded, so that what is taken from its like leaves nothing.
                if slope := float(f"{(up[name] - down[name]) / (2 * step):.9g}"):
                    found[name][column] = slope
    every = dict.fromkeys(columns, 0.0)
    return {name: slopes or every for name, slopes in found.items()}


def _one(means: Mapping[str, float]) -> Columns:
    return {name: np.array([mean]) for name, mean in means.items()}


def _same(one: float | None, other: float) -> bool:
    return one is not None and bool(np.isclose(one, other, 1e-9, 1e-12, equal_nan=True))


def _left_out(columns: Columns, summarize: Summary, units: np.ndarray) -> dict[str, np.ndarray]:
    """Return influences from the summaries without each unit, or each part of them."""
    count = int(units.max(initial=-1)) + 1
    if count > BLOCKS:
        # At random: cases may be sorted, and parts at equal distances would then be all alike.
        units, count = (np.random.default_rng(0).permutation(count) % BLOCKS)[units], BLOCKS
    left = [
        summarize({name: values[units != unit] for name, values in columns.items()})
        for unit in range(count)
        if count > 1
    ]
    found = {}
    for name in summarize(columns):
        there = np.bincount(units, ~np.isnan(columns.get(name, units)), count) > 0
        x = np.array([each.get(name, math.nan) for each in left] or [math.nan] * count)[there]
        x = x[~np.isnan(x)]
        found[name] = (len(x) - 1) * (x.mean() - x) if len(x) else x
    return found


def _length(columns: Columns) -> int:
    return len(next(iter(columns.values()), ()))


def count(columns: Columns, name: str) -> int:
    """Return how many cases a summary counts: those with a value, of one of several columns all."""
    return int((~np.isnan(columns[name])).sum()) if name in columns else _length(columns)


def _bounds(x: np.ndarray, limits: tuple[float, float], level: float) -> tuple[float, float]:
    """Return the widest interval of a mean between limits: what is above 0 and below as two shares."""
    # Values that stand in for a summary of several means may go beyond its limits.
    least, most = min(limits[0], float(x.min())), max(limits[1], float(x.max()))
    zero = min(max(0.0, least), most)
    ends = []
    for part, span in ((x - zero, most - zero), (zero - x, zero - least)):
        share = part.clip(0).mean() / span if span else 0.0
        ends.append([span * end for end in _exact(share, len(x), level)])
    above, below = ends
    return zero + above[0] - below[1], zero + above[1] - below[0]


def _exact(share: float, n: int, level: float) -> tuple[float, float]:
    """Return the interval of Clopper and Pearson."""
    from scipy.special import betaincinv  # scipy.stats has the same, and takes long to import

    ones, tail = n * min(float(share), 1.0), (1 - level) / 2
    low = betaincinv(ones, n - ones + 1, tail) if ones > 0 else 0.0
    high = betaincinv(ones + 1, n - ones, 1 - tail) if ones < n else 1.0
    return float(low), float(high)


def _agreed(value: float, n: int, limits: tuple[float, float], level: float) -> tuple[float, float]:
    """Return an interval where n units agree: the share that may not agree could be at a limit."""
    if not all(map(math.isfinite, limits)):
        return math.nan, math.nan
    rest = 1 - ((1 - level) / 2) ** (1 / n)
    low, high = (value + rest * (end - value) for end in limits)
    return low, high


def _unmoved(
    name: str, value: float, columns: Columns, summarize: Summary, limits: Limits, level: float
) -> tuple[float, float]:
    """Return how far a summary of means could fall and rise by the columns whose units agree."""
    means = column_means(columns)
    lows, highs = dict(means), dict(means)

    def at(changed: Mapping[str, float]) -> float:
        return summarize(_one({**means, **changed}))[name]

    try:
        if not _same(at({}), value):
            return 0.0, 0.0
    except Exception:
        return 0.0, 0.0
    for column, values in columns.items():
        present = values[~np.isnan(values)]
        if len(present) and np.ptp(present) == 0 and column in limits:
            ends = _agreed(means[column], len(present), limits[column], level)
            rising = at({column: ends[0]}) <= at({column: ends[1]})
            lows[column], highs[column] = ends if rising else ends[::-1]
    return max(value - at(lows), 0.0), max(at(highs) - value, 0.0)


def _bent(value: float, moves: np.ndarray, level: float) -> tuple[float, float]:
    """Return Student's interval of skewed values, by the moments of what moves them.

    Hall's cubic bends its quantiles; the kurtosis gives the degrees of freedom (O'Neill 2014).
    """
    from scipy.special import stdtrit

    n, apart = len(moves), moves - moves.mean()
    square = apart * apart
    squares = float(square.sum())
    if not ((squares / n) ** 2):  # so little a spread that its moments are no numbers
        return value, value
    skew = float(square @ apart) / n / (squares / n) ** 1.5
    kurtosis = float(square @ square) / n / (squares / n) ** 2
    freedom = min(n - 1, 2 * n / (kurtosis - (n - 3) / (n - 1)))
    t, error = float(stdtrit(freedom, (1 + level) / 2)), math.sqrt(squares / (n - 1) / n)

    def end(quantile: float) -> float:
        # Hall's cbrt(1 + x) - 1 over the skewness, in a form that holds for none.
        centred = quantile - skew / (6 * math.sqrt(n))
        root = float(np.cbrt(1 + skew * centred / math.sqrt(n)))
        return value - error * 3 * centred / (root * root + root + 1)

    return end(t), end(-t)
