"""What is odd about a run's numbers: those that no table shows, and those out of their ranges.

What is no number at all ends a run: see `edit_harness.run.outcome.values`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..interfaces import Measure, Metric

ROUNDING = 1e-9
"""How far sums of a case's values, in double precision, may lead out of a range."""


def doubts(
    name: str, metric: Metric, rows: Sequence[Mapping[str, Any]], summary: Mapping[str, float]
) -> Iterator[str]:
    """Yield a line for each number of a metric that is odd.

    ``rows`` are the values of each case, None or absent where it has none, and ``summary`` what was made
    of them. A value that is in no summary is what another was made of, and needs no measure.
    """
    has = Counter(number for row in rows for number, value in row.items() if value is not None)
    for number in summary:
        if _measure(metric, number) is None:
            why = "it is not in measures" if _is_prefixed(number) else "no pre_ or post_ before it"
            yield f"metric {name}: no table shows {number}{_of(has[number])}: {why}"
    outside = Counter(_outside(metric, rows))
    for number in dict.fromkeys([*outside, *_outside(metric, [summary])]):
        low, high = _limits(metric, number)
        far = f"{number} is not from {low:g} to {high:g}{_of(outside[number])}"
        yield f"metric {name}: {far}: see Measure.unit"


def _of(cases: int) -> str:
    """Say of how many cases something is; of none, it is of the summary alone."""
    return f", of {cases} case{'s' if cases > 1 else ''}" if cases else ""


def _is_prefixed(number: str) -> bool:
    return number.startswith(("pre_", "post_"))


def _measure(metric: Metric, number: str) -> Measure | None:
    return metric.measures.get(number.partition("_")[2]) if _is_prefixed(number) else None


def _limits(metric: Metric, number: str) -> tuple[float, float]:
    measure = _measure(metric, number)
    return measure.limits if measure else (float("-inf"), float("inf"))


def _outside(metric: Metric, rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the name of each value that is out of its range; NaN, which is none, is not."""
    for row in rows:
        for number, value in row.items():
            low, high = _limits(metric, number)
            if value is not None and (value < low - ROUNDING or value > high + ROUNDING):
                yield number
