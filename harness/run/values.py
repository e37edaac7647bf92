"""From a case's answers to numbers: what metrics say of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any, cast

import numpy as np

from ..cases import Answers, Case
from ..encoding import decode_answer
from ..errors import DataError, PluginError
from ..folder.records import OK, Record
from ..interfaces import Measure, Metric
from ..registry.blame import blamed, named

LEAVE_OUT = "leave it out with --metrics, or ask its author"


def values(
    case: Case, answers: Answers, metrics: Mapping[str, Metric], status: str
) -> dict[str, dict[str, float]]:
    """Return what metrics say of a case, by their names; nothing of one without requests.

    Raises `PluginError` that names a metric that fails, or gives what is no finite number; `DataError`
    stays what it is: the metric misses a file.
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
        if not (isinstance(value, Real | np.bool_) and _is_finite(value)):
            raise PluginError(
                f"{whose} gives case {case.id} a {key} of {value!r:.60}, which is no finite number",
                LEAVE_OUT,
            )
    return {key: float(value) for key, value in given.items()}


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def answers(record: Record) -> Answers:
    """Return what a record stores of the answers; of a distribution, which is never stored, None."""
    before, after = ([decode_answer(a) for a in side] for side in (record.before, record.after))
    return cast(Answers, (before, after))


def measures_of(metrics: Mapping[str, Metric]) -> dict[str, Measure]:
    """Return the measures of all metrics, in their order."""
    return {n: m for metric in metrics.values() for n, m in metric.measures.items()}
