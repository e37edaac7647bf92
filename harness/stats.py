"""Means and bootstrap intervals of per-case values: pure functions of numpy arrays.

The unit that is resampled is the case, since the probes of one case are not independent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

MANY, TRIALS = 2000, 3
"""Cases from which on it is worth to try whether draws can be counted, and draws that are tried."""
LARGE, GROUPS = 50_000, 20_000
"""Cases from which on means are drawn by random groups of them, and how many groups there are."""
FEW = 10
"""Groups below which percentiles are far too narrow: of two alike ones, half of the intervals miss."""
Columns = Mapping[str, np.ndarray]
Summary = Callable[[Columns], Mapping[str, float]]


@dataclass(frozen=True)
class Estimate:
    """A value with the ends of its confidence interval and the number of cases behind it."""

    value: float
    low: float
    high: float
    n: int

    def within(self, limits: tuple[float, float]) -> Estimate:
        """Return the same with an interval that does not go beyond what the value can be."""
        least, most = limits
        return replace(self, low=max(self.low, least), high=min(self.high, most))


def agreed(n: int, level: float) -> float:
    """Return how far a share may be from that of n cases that all agree: the exact binomial interval.

    The bootstrap has no width there. Of no case it is all that there is: 1.
    """
    return float(1 - ((1 - level) / 2) ** (1 / n)) if n else 1.0


def column_means(columns: Columns) -> dict[str, float]:
    """Return the mean of each column over the cases that have a value, NaN if none has."""
    means = {}
    for name, values in columns.items():
        present = values[~np.isnan(values)]
        means[name] = float(present.mean()) if len(present) else float("nan")
    return means


def harmonic_mean(values: Sequence[float]) -> float:
    """Return the harmonic mean; 0 if any value is not above 0, NaN if any is NaN."""
    if any(np.isnan(values)):
        return float("nan")
    if min(values) <= 0:
        return 0.0
    return len(values) / sum(1 / value for value in values)


def bootstrap(
    columns: Columns,
    summarize: Summary,
    *,
    level: float = 0.99,
    resamples: int = 1000,
    seed: int = 0,
    distinct: bool = False,
    groups: np.ndarray | None = None,
) -> dict[str, Estimate]:
    """Return percentile intervals of any summary, resampling whole cases.

    ``groups`` has a label for every case; cases of one label are drawn together, since they share
    an edit. Of fewer than `FEW` groups with values the interval is Student's, from the draws'
    standard deviation; it may go beyond what the summary can be.

    ``distinct`` counts a case that was drawn twice once, as the published CounterFact+ intervals
    do, which makes an interval about 24 % too narrow; the published ones are so by about 14 %,
    since their code also resamples the prompts. With fewer than two cases, or groups, an interval
    is the value itself.

    Of `LARGE` cases or more, a summary of means is drawn by `GROUPS` groups into which the cases were
    put at random, for the groups' sums vary as those of single cases do. The width of an interval is
    then known to 0.5 %, which is less than what 1,000 draws leave open.
    """
    whole = summarize(columns)
    draws = _summaries(columns, summarize, whole, resamples, seed, distinct, groups)
    cases = len(next(iter(columns.values()), ()))
    found = {}
    for name, value in whole.items():
        if groups is not None and 1 < (units := _units(columns, name, groups)) < FEW:
            ends = student(value, _error(draws[name], units), units - 1, level)
        else:
            ends = _interval(draws[name], value, 100 * (1 - level) / 2)
        found[name] = Estimate(value, *ends, n=_count(columns, name, cases))
    return found


def errors(
    columns: Columns,
    summarize: Summary,
    *,
    resamples: int = 1000,
    seed: int = 0,
    groups: np.ndarray | None = None,
) -> dict[str, float]:
    """Return bootstrapped standard errors of any summary, for a t of one degree less than units.

    Units are the cases, or their ``groups``. With fewer than two of them an error is NaN.
    """
    draws = _summaries(columns, summarize, summarize(columns), resamples, seed, False, groups)
    labels = np.arange(len(next(iter(columns.values()), ()))) if groups is None else groups
    return {name: _error(found, _units(columns, name, labels)) for name, found in draws.items()}


def student(value: float, error: float, freedom: int, level: float) -> tuple[float, float]:
    """Return the ends of Student's interval of a value with a standard error."""
    from scipy.special import stdtrit  # takes a while to import, and most runs need none

    half = float(stdtrit(freedom, (1 + level) / 2)) * error
    return value - half, value + half


def _error(draws: Sequence[float], units: int) -> float:
    """Return a standard error from draws, which vary by one unit less than there are."""
    present = np.asarray(draws)[~np.isnan(draws)] if len(draws) else np.empty(0)
    if units < 2 or not len(present):
        return float("nan")
    return float(present.std() * np.sqrt(units / (units - 1)))


def _units(columns: Columns, name: str, groups: np.ndarray) -> int:
    """Return how many groups have a value; of a summary of several columns, all of them."""
    present = ~np.isnan(columns[name]) if name in columns else slice(None)
    return len(np.unique(groups[present]))


def _summaries(
    columns: Columns,
    summarize: Summary,
    whole: Mapping[str, float],
    resamples: int,
    seed: int,
    distinct: bool,
    groups: np.ndarray | None,
) -> dict[str, list[float]]:
    """Return what each summary comes to in every draw; none with fewer than two units."""
    cases = len(next(iter(columns.values()), ()))
    members = None if groups is None else _members(groups)
    units = cases if members is None else len(members)
    rng = np.random.default_rng(seed)
    draws: dict[str, list[float]] = {name: [] for name in whole}
    drawn = _draws(rng, units, resamples, distinct, members)
    plain = distinct or members is not None or cases < MANY
    drawn_columns: Iterator[Columns]
    if plain or not _goes_by_means(columns, summarize):
        drawn_columns = ({n: v[picked] for n, v in columns.items()} for picked in drawn)
    elif cases < LARGE:
        drawn_columns = _means(columns, drawn, cases)
    else:
        drawn_columns = _grouped_means(columns, rng, resamples)
    for found in map(summarize, drawn_columns):
        for name in found.keys() & draws.keys():
            draws[name].append(found[name])
    return draws


def _draws(
    rng: np.random.Generator,
    units: int,
    resamples: int,
    distinct: bool,
    members: Sequence[np.ndarray] | None,
) -> Iterator[np.ndarray]:
    """Yield the cases of each draw of as many units as there are; none of fewer than two."""
    for _ in range(resamples if units > 1 else 0):
        picked = rng.integers(units, size=units)
        picked = np.unique(picked) if distinct else picked
        yield picked if members is None else np.concatenate([members[i] for i in picked])


def _goes_by_means(columns: Columns, summarize: Summary) -> bool:
    """Tell whether a summary of many cases is one of the columns' means, by trying it.

    Then a draw needs no copy of the columns: how often it has each case is enough.
    """
    step = len(next(iter(columns.values()))) // LARGE or 1
    columns = {name: values[::step] for name, values in columns.items()}
    cases = len(next(iter(columns.values())))
    rng = np.random.default_rng(0)
    tried = [rng.integers(cases, size=cases) for _ in range(TRIALS)]
    for picked, means in zip(tried, _means(columns, iter(tried), cases), strict=True):
        plain = summarize({name: values[picked] for name, values in columns.items()})
        try:
            quick = summarize(means)
        except Exception:
            return False
        same = (np.isclose(quick[k], v, 1e-9, 1e-12, equal_nan=True) for k, v in plain.items())
        if quick.keys() != plain.keys() or not all(same):
            return False
    return True


def _means(columns: Columns, drawn: Iterator[np.ndarray], cases: int) -> Iterator[Columns]:
    """Yield the mean of each column over each draw's cases, as a column of one."""
    values = np.array([np.nan_to_num(column) for column in columns.values()])
    present = {i: ~np.isnan(column) for i, column in enumerate(columns.values())}
    partly = [i for i, there in present.items() if not there.all()]
    there = np.array([present[i] for i in partly], dtype=float).reshape(len(partly), cases)
    for picked in drawn:
        times = np.bincount(picked, minlength=cases).astype(float)
        numbers = np.full(len(values), float(cases))
        numbers[partly] = there @ times
        with np.errstate(invalid="ignore"):
            means = values @ times / numbers
        yield {name: means[i : i + 1] for i, name in enumerate(columns)}


def _grouped_means(columns: Columns, rng: np.random.Generator, resamples: int) -> Iterator[Columns]:
    """Yield the mean of each column over draws of random groups of cases, as a column of one."""
    cases = len(next(iter(columns.values())))
    labels = rng.permutation(cases) % GROUPS
    totals = [np.bincount(labels, np.nan_to_num(column)) for column in columns.values()]
    numbers = [np.bincount(labels, ~np.isnan(column)) for column in columns.values()]
    both = np.array([*totals, *numbers])
    for _ in range(resamples):
        picked = rng.integers(GROUPS, size=GROUPS)
        found = both @ np.bincount(picked, minlength=GROUPS).astype(float)
        with np.errstate(invalid="ignore"):
            means = found[: len(totals)] / found[len(totals) :]
        yield {name: means[i : i + 1] for i, name in enumerate(columns)}


def _members(groups: np.ndarray) -> list[np.ndarray]:
    """Return the numbers of the cases of each group."""
    return [np.flatnonzero(groups == label) for label in np.unique(groups)]


def _interval(draws: Sequence[float], value: float, tail: float) -> tuple[float, float]:
    present = np.asarray(draws)[~np.isnan(draws)] if len(draws) else np.array([value])
    if not len(present):
        return float("nan"), float("nan")
    low, high = np.percentile(present, [tail, 100 - tail])
    return float(low), float(high)


def _count(columns: Columns, name: str, cases: int) -> int:
    """Return how many cases have a value; a summary of several columns counts all cases."""
    return int((~np.isnan(columns[name])).sum()) if name in columns else cases
