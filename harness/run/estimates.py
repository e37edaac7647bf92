"""From answers to numbers: metrics' values of a case, and their summaries with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np

from .. import stats
from ..data import Answers, Case
from ..errors import DataError, PluginError
from ..folder.record import INVALID, OK, Record
from ..folder.table import RunTable
from ..interfaces import Measure, Metric
from ..registry.guard import blamed, named
from ..stats import Estimate

LEAVE_OUT = "leave it out with --metrics, or ask its author"


def values(
    case: Case, answers: Answers, metrics: Mapping[str, Metric], status: str
) -> dict[str, dict[str, float]]:
    """Return metrics' values of a case, by metric; none of a case without requests.

    Raises `PluginError` that names a metric that fails or gives something else than finite numbers; a
    `DataError` passes: the metric misses a file.
    """
    found = metrics.items() if case.requests else ()
    return {name: _measured(name, metric, case, answers, status) for name, metric in found}


def _measured(
    name: str, metric: Metric, case: Case, answers: Answers, status: str
) -> dict[str, float]:
    before, after = answers
    whose = named("metric", name, metric)
    with blamed(f"{whose} failed on case {case.id}", metric, LEAVE_OUT, passing=(DataError,)):
        ok = status == OK
        found = metric.measure(case, before, after) if ok else metric.failed(case, before)
        given = {str(key): value for key, value in found.items()}
    for key, value in given.items():
        if not (isinstance(value, Real | np.bool_) and abs(value) <= float(np.finfo(float).max)):
            raise PluginError(
                f"{whose} gives case {case.id} a {key} of {value!r:.60}, which is no finite number",
                LEAVE_OUT,
            )
    return {key: float(value) for key, value in given.items()}


def measures_of(metrics: Mapping[str, Metric]) -> dict[str, Measure]:
    """Return the measures of all metrics, in their order."""
    return {n: m for metric in metrics.values() for n, m in metric.measures.items()}


LEVEL = 0.99


@dataclass(frozen=True)
class Estimator:
    """Makes estimates of a run: by which metrics, over what units, with which intervals."""

    metrics: Mapping[str, Metric]
    by_id: Mapping[str, Case]
    batched: bool
    """Whether intervals are over batches, each of which is one edit."""
    intervals_are: ClassVar[str] = "student"

    def estimates(self, everything: RunTable) -> dict[str, Estimate]:
        """Return every summary with its interval.

        Raises `PluginError` for a metric that fails, or gives what another one gives.
        """
        found: dict[str, Estimate] = {}
        for name, metric in self.metrics.items():
            with summing(name, metric):
                estimates = self.of_metric(name, metric, valued(everything, name))
            if twice := found.keys() & estimates.keys():
                raise PluginError(
                    f"metric {name} gives {min(twice)}, which another metric gives too",
                    "choose one of them: --metrics",
                )
            found |= estimates
        return found

    def intervals(
        self,
        columns: stats.Columns,
        summarize: stats.Summary,
        limits: stats.Limits,
        groups: np.ndarray | None = None,
    ) -> dict[str, Estimate]:
        """Return a summary with intervals; see `edit_harness_plugins.intervals` for other kinds."""
        return stats.estimates(columns, summarize, limits, level=LEVEL, groups=groups)

    def of_metric(self, name: str, metric: Metric, rows: RunTable) -> dict[str, Estimate]:
        """Return a metric's estimates: over batches, or over cases where one batch has values.

        Before the edits there is no batch: the unedited model shares none.
        """
        columns, batches = measured(rows, name), rows.states

        def drawn(columns: stats.Columns, groups: np.ndarray | None) -> dict[str, Estimate]:
            return self.intervals(columns, metric.summarize, limits_of(metric.measures), groups)

        if not self.batched or len(np.unique(batches)) < 2:
            return drawn(columns, None)
        estimates, spread = drawn(columns, batches), _spread(columns, batches)
        if alone := [e for e in estimates if spread.get(e) == 1 or e.startswith("pre_")]:
            by_case = drawn(columns, None)
            estimates |= {each: by_case[each] for each in alone}
        return estimates

    def batches(self, rows: RunTable, names: Mapping[str, Estimate]) -> list[int]:
        """Return the numbers of batches that have values of these measures, rising."""
        found: set[int] = set()
        for name in self.metrics:
            own = valued(rows, name)
            spread = _spread(own.columns(name), own.states)
            found |= {count for each, count in spread.items() if each in names and count}
        return sorted(found)

    def changes(self, first: RunTable, last: RunTable) -> dict[str, Estimate]:
        """Return the differences of two times, over the cases with values at both."""
        found: dict[str, Estimate] = {}
        for name, metric in self.metrics.items():
            sides = [valued(rows, name) for rows in (first, last)]
            both = set.intersection(*(set(side.cases) for side in sides))
            columns = {
                f"{i} {key}": column
                for i, side in enumerate(sides)
                for key, column in measured(
                    side.taken(np.array([case in both for case in side.cases], bool)), name
                ).items()
            }
            limits = limits_of(metric.measures, change=True)
            with summing(name, metric):
                found |= self.intervals(columns, difference(metric), limits)
        return found


def limits_of(measures: Mapping[str, Measure], *, change: bool = False) -> stats.Limits:
    """Return the limits of each summary, by its stored name such as ``post_NS``; or of its change."""
    found = {}
    for name, measure in measures.items():
        low, high = measure.limits
        found[f"post_{name}"] = (low - high, high - low) if change else (low, high)
        found[f"pre_{name}"] = (low, high)
    return found


def usable(rows: Sequence[Record]) -> RunTable:
    """Return the records without the invalid ones, whose case or key could not be used."""
    return RunTable.of(rows).without(INVALID)


def valued(rows: Sequence[Record], metric: str) -> RunTable:
    """Return the valid records that a metric has values of."""
    return usable(rows).having(metric)


def measured(rows: RunTable, metric: str) -> stats.Columns:
    """Return a metric's columns; where every edit failed, none has values after it."""
    columns = rows.columns(metric)
    if len(rows.without(OK)) < len(rows):
        return columns
    return {n: v if n.startswith("pre_") else np.full_like(v, math.nan) for n, v in columns.items()}


def _spread(columns: stats.Columns, batches: np.ndarray) -> dict[str, int]:
    """Return in how many batches each column has values."""
    return {name: len(set(batches[~np.isnan(values)].tolist())) for name, values in columns.items()}


def difference(metric: Metric) -> stats.Summary:
    """Return a summary of the columns of two times, "0 X" and "1 X": their difference."""

    def changed(both: stats.Columns) -> dict[str, float]:
        then, now = (
            metric.summarize({k[2:]: v for k, v in both.items() if k.startswith(when)})
            for when in ("0 ", "1 ")
        )
        after = (name for name in now if name.startswith("post_") and name in then)
        return {name: now[name] - then[name] for name in after}

    return changed


def summing(
    name: str, metric: Metric, doing: str = "sum up its values"
) -> AbstractContextManager[None]:
    """Blame a metric for what its summary raises."""
    what = f"{named('metric', name, metric)} failed to {doing}"
    return blamed(what, metric, LEAVE_OUT, passing=())
