"""A run's numbers by groups of cases: by any tag of them, such as the relation of the fact."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from edit_harness import stats
from edit_harness.folder.records import INVALID
from edit_harness.interfaces import Metric
from edit_harness.registry.blame import blamed, named
from edit_harness.run.outcome import Run
from edit_harness.run.values import LEAVE_OUT

GROUPS = range(2, 61)
"""How many values a tag has that cases are worth being grouped by."""


def breakdowns(run: Run, columns: Mapping[str, stats.Columns]) -> dict[str, list[dict[str, Any]]]:
    """Return groups by tag: each with its value, its number of cases, and pairs by measure.

    ``columns`` are of all final records, by metric. A pair is a measure before and after, in the unit that it is stored in. Measures that tables
    leave out are left out. There is no interval: groups may be of one case.

    Raises `PluginError` that names a metric that cannot sum up a group.
    """
    tags = [None if r.status == INVALID else run.by_id[r.case].tags for r in run.records]
    found = {}
    for tag in dict.fromkeys(tag for own in tags for tag in own or ()):
        labels = [None if own is None else str(own.get(tag, "")) for own in tags]
        if len(values := sorted({label for label in labels if label is not None})) in GROUPS:
            found[tag] = [
                _group(run, columns, np.array([label == value for label in labels]), value)
                for value in values
            ]
    return found


def _group(
    run: Run, columns: Mapping[str, stats.Columns], chosen: np.ndarray, value: str
) -> dict[str, Any]:
    pairs: dict[str, list[float | None]] = {}
    for name, metric in run.metrics.items():
        whose = named("metric", name, metric)
        with blamed(f"{whose} failed to sum up a group", metric, LEAVE_OUT, passing=()):
            pairs |= _pairs(metric, {k: column[chosen] for k, column in columns[name].items()})
    return {"value": value or "(none)", "n": int(chosen.sum()), "pairs": pairs}


def _pairs(metric: Metric, columns: stats.Columns) -> dict[str, list[float | None]]:
    summary = metric.summarize(columns) if columns else {}
    shown = [name for name, measure in metric.measures.items() if not measure.detail]
    return {
        name: [_number(summary.get(f"{side}_{name}")) for side in ("pre", "post")]
        for name in shown
        if f"post_{name}" in summary
    }


def _number(value: float | None) -> float | None:
    return float(f"{value:.4g}") if value is not None and math.isfinite(value) else None
