"""How often a nominal 99 % interval holds the truth, by the product's own function and by others.

    python -m benchmarks.coverage

Six kinds of measures are simulated, whose true values are known, of 30 and of 100 cases: shares of a
case's prompts (NS), differences of probabilities (NM), a harmonic mean of three (S), single yes or
no answers of 90 and of 99 % (ES), and skewed divergences (NKL). Beside the rule stand the papers'
percentile bootstrap, and two that are meant for skewed values: BCa and the studentised one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import click
import numpy as np

from edit_harness.stats import Columns, column_means, estimates, harmonic_mean

LEVEL = 0.99
SIZES = (30, 100)
RESAMPLES = 1000
OTHERS = ("percentile", "BCa", "studentised")
SKEW = 1.15
"""The spread of a divergence's logarithm: of 30, percentile intervals hold the truth in 91 %."""


class Kind(NamedTuple):
    """A kind of measure: its values of n cases, and the truth that they are drawn from."""

    drawn: Callable[[np.random.Generator, int], Columns]
    truth: float
    limits: tuple[float, float]


class Covered(NamedTuple):
    """How many of so many intervals hold the truth, and how wide they are on average."""

    held: int
    trials: int
    width: float

    @property
    def share(self) -> float:
        """The coverage."""
        return self.held / self.trials

    @property
    def error(self) -> float:
        """The standard error of the coverage."""
        return math.sqrt(self.share * (1 - self.share) / self.trials)


def _prompts(rng: np.random.Generator, n: int, mean: float, prompts: int = 10) -> np.ndarray:
    """Return shares of a case's prompts, whose chances differ by case."""
    return rng.binomial(prompts, rng.beta(3 * mean, 3 * (1 - mean), n)) / prompts


def _answers(rng: np.random.Generator, n: int, mean: float) -> np.ndarray:
    return (rng.random(n) < mean).astype(float)


def _three(rng: np.random.Generator, n: int) -> Columns:
    parts = _answers(rng, n, 0.95), _prompts(rng, n, 0.8, 2), _prompts(rng, n, 0.7)
    return dict(zip("EPN", parts, strict=True))


def _alike(rng: np.random.Generator, n: int) -> Columns:
    succeeded = _answers(rng, n, 0.95)
    return {"E": succeeded, "P": succeeded, "N": _prompts(rng, n, 0.9)}


KINDS: Mapping[str, Kind] = {
    "NS": Kind(lambda rng, n: {"x": _prompts(rng, n, 0.78)}, 0.78, (0, 1)),
    "NM": Kind(lambda rng, n: {"x": rng.beta(2, 1.5, n) - rng.beta(1.2, 6, n)},
               2 / 3.5 - 1.2 / 7.2, (-1, 1)),
    "S": Kind(_three, harmonic_mean([0.95, 0.8, 0.7]), (0, 1)),
    "S, ES = PS": Kind(_alike, harmonic_mean([0.95, 0.95, 0.9]), (0, 1)),
    "ES, p = .9": Kind(lambda rng, n: {"x": _answers(rng, n, 0.9)}, 0.9, (0, 1)),
    "NKL, lognormal": Kind(lambda rng, n: {"x": rng.lognormal(0, SKEW, n)}, math.exp(SKEW**2 / 2),
                           (0, math.inf)),
    "ES, p = .99": Kind(lambda rng, n: {"x": _answers(rng, n, 0.99)}, 0.99, (0, 1)),
}  # fmt: skip


def summarize(columns: Columns) -> dict[str, float]:
    """Return the mean, or the harmonic mean of three."""
    means = column_means(columns)
    return means if len(means) == 1 else {**means, "x": harmonic_mean(list(means.values()))}


def rule(kind: Kind, n: int, trials: int) -> Covered:
    """Return how often the product's intervals hold the truth."""
    rng = np.random.default_rng(n)
    limits = dict.fromkeys("xEPN", kind.limits)
    every = (
        estimates(kind.drawn(rng, n), summarize, limits, level=LEVEL)["x"] for _ in range(trials)
    )
    return _counted(kind, [(each.low, each.high) for each in every])


def others(kind: Kind, n: int, trials: int) -> dict[str, Covered]:
    """Return the same of the bootstraps, of which all have the same cases and draws."""
    rng, chance = np.random.default_rng(n), np.random.default_rng(0)
    every = [_bootstrapped(kind.drawn(rng, n), chance) for _ in range(trials)]
    return {name: _counted(kind, [each[name] for each in every]) for name in OTHERS}


def _counted(kind: Kind, intervals: Sequence[tuple[float, float]]) -> Covered:
    ends = np.clip(np.array(intervals), *kind.limits)
    held = (ends[:, 0] <= kind.truth + 1e-12) & (kind.truth - 1e-12 <= ends[:, 1])
    return Covered(int(held.sum()), len(ends), float(np.mean(ends[:, 1] - ends[:, 0])))


def _bootstrapped(columns: Columns, chance: np.random.Generator) -> dict[str, tuple[float, float]]:
    """Return percentile, BCa and studentised intervals of means, or of the harmonic mean of three."""
    from scipy.stats import norm

    values, parts, whole = np.array(list(columns.values())), len(columns), summarize(columns)["x"]
    n, means = values.shape[1], values.mean(axis=1)
    slopes = whole**2 / parts / means**2 if parts > 1 else np.ones(1)
    moves = slopes @ (values - means[:, None])
    if not moves.any():
        return dict.fromkeys(OTHERS, (whole, whole))
    tails = np.array([(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    times = chance.multinomial(n, np.full(n, 1 / n), size=RESAMPLES)
    found = times @ values.T / n
    drawn = found[:, 0] if parts == 1 else parts / (1 / np.maximum(found, 1e-300)).sum(axis=1)
    below = ((drawn < whole).mean() + (drawn <= whole).mean()) / 2
    bias = norm.ppf(min(max(below, 0.5 / RESAMPLES), 1 - 0.5 / RESAMPLES))
    bend, z = (moves**3).sum() / (6 * (moves**2).sum() ** 1.5), bias + norm.ppf(tails)
    mean = times @ moves / n
    spread = np.maximum(times @ moves**2 / n - mean**2, 0) / (n - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ts = np.where(spread > 1e-18, mean / np.sqrt(spread), np.sign(mean) * math.inf)
    high, low = np.quantile(ts, tails, method="inverted_cdf") * moves.std(ddof=1) / math.sqrt(n)
    ends = {
        "percentile": np.quantile(drawn, tails),
        "BCa": np.quantile(drawn, norm.cdf(bias + z / (1 - bend * z))),
        "studentised": (whole - low, whole - high),
    }
    return {name: (float(low), float(high)) for name, (low, high) in ends.items()}


@click.command()
@click.option("--trials", type=click.IntRange(10), default=20_000, show_default=True,
              help="Of the rule; a tenth of it of the others, which draw.")  # fmt: skip
def main(trials: int) -> None:
    """Simulate, and print the table."""
    print(f"| measure | n | rule | {' | '.join(OTHERS)} |")
    print("|---" * (len(OTHERS) + 3) + "|")
    errors = {"rule": 0.0, "others": 0.0}
    for n in SIZES:
        for name, kind in KINDS.items():
            found = {"rule": rule(kind, n, trials), **others(kind, n, trials // 10)}
            for route, each in found.items():
                which = route if route == "rule" else "others"
                errors[which] = max(errors[which], each.error)
            cells = (f"{100 * each.share:.1f} ({each.width:.3f})" for each in found.values())
            print(f"| {name} | {n} | {' | '.join(cells)} |", flush=True)
    print(f"% of nominal {LEVEL:.0%} intervals that hold the truth (mean width); standard errors of "
          f"at most {100 * errors['rule']:.2f} of {trials:,} trials of the rule, and "
          f"{100 * errors['others']:.2f} of {trials // 10:,} of the others")  # fmt: skip


if __name__ == "__main__":
    main()
