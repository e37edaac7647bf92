"""A run's numbers by groups of cases: by any tag of them, such as the relation of the fact."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from edit_harness import records, stats
from edit_harness.interfaces import Metric
from edit_harness.outcome import Run, usable

GROUPS = range(2, 61)
"""How many values a tag has that cases are worth being grouped by."""


def breakdowns(run: Run) -> dict[str, list[dict[str, Any]]]:
    """Return groups by tag: each with its value, its number of cases, and pairs by measure.

    A pair is a measure before and after, in the unit that it is stored in. Measures that tables
    leave out are left out. There is no interval: groups may be of one case.
    """
    rows = usable(run.records)
    columns = {name: records.columns(rows, name) for name in run.metrics}
    found = {}
    for tag in dict.fromkeys(tag for record in rows for tag in run.by_id[record.case].tags):
        labels = [str(run.by_id[record.case].tags.get(tag, "")) for record in rows]
        if len(values := sorted(set(labels))) in GROUPS:
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
