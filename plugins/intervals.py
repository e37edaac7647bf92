"""The papers' intervals: percentiles of a bootstrap.

They are too narrow where cases are few or skewed, and are for tables that are held against printed
ones; `edit_harness.stats` makes all others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean
from typing import ClassVar

import click
import numpy as np

from edit_harness.folder.record import OK
from edit_harness.folder.table import RunTable
from edit_harness.interfaces import Metric
from edit_harness.run.estimates import LEVEL, Estimator
from edit_harness.stats import Columns, Estimate, Limits, Summary, count
from edit_harness_plugins.reading import answers


class Percentile(Estimator):
    """Draws whole cases, or batches of them."""

    intervals_are = "percentile"
    published: ClassVar[bool] = False

    def intervals(
        self,
        columns: Columns,
        summarize: Summary,
        limits: Limits,
        groups: np.ndarray | None = None,
    ) -> dict[str, Estimate]:
        """Return a summary with this kind of intervals."""
        return bootstrap(columns, summarize, groups=groups, published=self.published)


class Published(Percentile):
    """Draws cases and then their prompts, as the code of CounterFact+ does (``e2e_analyze.py``)."""

    intervals_are = "published"
    published = True

    def of_metric(self, name: str, metric: Metric, rows: RunTable) -> dict[str, Estimate]:
        """Return a metric's estimates, over single prompts.

        A value that is no mean over the case's prompts gets a row of its own.
        """
        found: list[Mapping[str, float]] = []
        owners: list[int] = []
        for number, record in enumerate(rows):
            case, whole = self.by_id[record.case], dict(record.values[name])
            before, after = answers(record)
            each = [
                metric.measure(one, before[i : i + 1], after[i : i + 1])
                if record.status == OK
                else metric.failed(one, before[i : i + 1])
                for i, one in enumerate(replace(case, probes=(probe,)) for probe in case.probes)
            ]
            means = {key: [one[key] for one in each if key in one] for key in whole}
            kept = {k for k, own in means.items() if own and math.isclose(fmean(own), whole[k])}
            each = [{k: v for k, v in one.items() if k in kept} for one in each]
            each.append({k: v for k, v in whole.items() if k not in kept})
            found += filter(None, each)
            owners += [number] * sum(map(bool, each))
        names = dict.fromkeys(key for row in found for key in row)
        columns = {n: np.array([row.get(n, math.nan) for row in found], dtype=float) for n in names}
        return self.intervals(columns, metric.summarize, {}, np.array(owners, dtype=int))


KINDS: Mapping[str, type[Estimator]] = {
    kind.intervals_are: kind for kind in (Estimator, Percentile, Published)
}
option = click.option(
    "--interval", type=click.Choice(list(KINDS)), default="student", show_default=True,
    help="Student's, right for skewed values; or a bootstrap, as papers print it.",
)  # fmt: skip


def bootstrap(
    columns: Columns,
    summarize: Summary,
    *,
    groups: np.ndarray | None = None,
    published: bool = False,
    resamples: int = 1000,
) -> dict[str, Estimate]:
    """Return percentile intervals of draws of whole cases, or ``groups`` of them. The seed is constant.

    As ``published`` rows are prompts and groups are cases; of the drawn cases' prompts as many are drawn
    again, and a case that was drawn twice counts once.
    """
    rng = np.random.default_rng(0)
    rows = len(next(iter(columns.values()), ()))
    labels = np.arange(rows) if groups is None else np.unique(groups, return_inverse=True)[1]
    members = np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels))[:-1])

    def of(drawn: np.ndarray) -> Columns:
        some = {name: values[drawn] for name, values in columns.items()}
        if not published:
            return some
        # The mean of each group's rows that have a value, for the groups that are there.
        units = np.unique(labels[drawn], return_inverse=True)[1]
        with np.errstate(invalid="ignore"):
            return {
                name: np.bincount(units, np.where(np.isnan(values), 0.0, values))
                / np.bincount(units, ~np.isnan(values))
                for name, values in some.items()
            }

    draws = []
    for _ in range(resamples if len(members) > 1 else 0):
        picked = rng.integers(len(members), size=len(members))
        drawn = picked if groups is None else np.concatenate([members[i] for i in picked])
        draws.append(summarize(of(rng.choice(drawn, len(drawn)) if published else drawn)))
    tails, plain = [50 * (1 - LEVEL), 50 * (1 + LEVEL)], of(np.arange(rows))
    found = {}
    for name, value in summarize(plain).items():
        x = np.array([draw.get(name, math.nan) for draw in draws])
        known = x[~np.isnan(x)]
        low, high = np.percentile(known, tails).tolist() if len(known) else (math.nan, math.nan)
        found[name] = Estimate(value, low, high, count(plain, name))
    return found
