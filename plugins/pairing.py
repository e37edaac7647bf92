"""Two runs case by case: which cases can be compared, and how the measures of these differ."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from edit_harness import stats
from edit_harness.folder.record import Record
from edit_harness.folder.table import RunTable
from edit_harness.interfaces import Measure
from edit_harness.run.estimates import LEVEL, difference, limits_of, measured, usable
from edit_harness.run.results import Results
from edit_harness.stats import Columns, Estimate
from edit_harness_plugins.significance import benjamini_hochberg, mcnemar, one_sample, sign

ALPHA = 1 - LEVEL
"""The level of tests, that of the intervals."""
TOLERANCES = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}
"""By how many nats the unedited model may differ between machines, by its precision."""
T_TEST, MCNEMAR, SIGN, JACKKNIFE = "paired t", "McNemar", "sign", "jackknife t"
SIDES = ("0 ", "1 ")
"""What stands before the names of the columns of A and of B; see `edit_harness.run.estimates.difference`."""
Pair = tuple[Record, Record]


@dataclass(frozen=True)
class Contrast:
    """One measure in both runs, over the cases that both measured."""

    name: str
    measure: Measure
    first: float
    second: float
    difference: Estimate
    """The second less the first, with its interval; n is the number of pairs."""
    test: str = ""
    """What ``p`` is of: paired t, McNemar where all values are 0 or 1, sign where all differences are
    one; and jackknife t where the measure is no mean over cases."""
    units: int = 0
    """How many independent units that is over: pairs, or batches."""
    p: float | None = None
    adjusted: float | None = None
    """By Benjamini and Hochberg, over the measures of the comparison."""
    effect: float | None = None
    """Cohen's d_z; None for values of 0 and 1, of which ``gained`` and ``lost`` tell."""
    gained: int | None = None
    """Cases wrong in A and right in B."""
    lost: int | None = None

    @property
    def differs(self) -> bool:
        """Whether the runs differ: by the corrected p."""
        return self.adjusted is not None and self.adjusted <= ALPHA


@dataclass(eq=False)
class Pairing:
    """Two runs, and the cases of which they can be compared, by the metrics of the first."""

    first: Results
    second: Results

    def __post_init__(self) -> None:
        one, two = (usable(run.records) for run in (self.first, self.second))
        both = [(pair, self._why_not(*pair)) for pair in paired(one, two)]
        self.records = [pair for pair, why in both if not why]
        """The pairs, in the order of the first run."""
        self.left_out = Counter(why for _, why in both if why)
        """How many cases are not compared, by the reason."""
        alone = {"A": len(one) - len(both), "B": len(two) - len(both)}
        self.left_out += Counter({f"measured in {side} alone": n for side, n in alone.items()})

    def _why_not(self, one: Record, two: Record) -> str:
        if not same_content(self.first, self.second, one.case):
            return "of another content"
        model = self.first.manifest.identity.model
        if model != self.second.manifest.identity.model:
            return ""
        alike = distance(one.before, two.before) <= TOLERANCES.get(model.dtype, 0.0)
        return "" if alike else "unlike before the edit"

    @cached_property
    def clusters(self) -> np.ndarray | None:
        """The label of each pair where edits are shared, since they are of one batch; else None."""
        sides = zip((self.first, self.second), zip(*self.records, strict=True), strict=True)
        labels = [
            [record.state if run.regime.mode == "batch" else i for i, record in enumerate(side)]
            for run, side in sides
        ]
        found = _joined(*labels)
        return found if 1 < len(set(found.tolist())) < len(found) else None

    @property
    def contrasts(self) -> list[Contrast]:
        """What came out of every measure that both runs have."""
        found = [each for name in self.first.metrics for each in self._contrasted(name)]
        ps = benjamini_hochberg([each.p for each in found])
        return [replace(one, adjusted=p) for one, p in zip(found, ps, strict=True)]

    def _contrasted(self, name: str) -> Iterator[Contrast]:
        metric = self.first.metrics[name]
        columns, labels = self._columns(name)
        if not columns:
            return
        sides = [
            metric.summarize({k[2:]: v for k, v in columns.items() if k.startswith(side)})
            for side in SIDES
        ]
        limits, changed = limits_of(metric.measures, change=True), difference(metric)
        changes = stats.estimates(columns, changed, limits, level=LEVEL, groups=labels)
        moves = stats.influences(columns, changed, labels)
        for measure, means in metric.measures.items():
            key = f"post_{measure}"
            first, second = (side.get(key, math.nan) for side in sides)
            if not (math.isnan(first) or math.isnan(second)):
                plain = Contrast(measure, means, first, second, changes[key])
                found = _tested(plain, changes[key].value + moves[key])
                values = [columns[side + key] for side in SIDES if side + key in columns]
                yield _of_cases(found, values, clustered=labels is not None)

    def _columns(self, name: str) -> tuple[Columns, np.ndarray | None]:
        """Return a metric's columns of both sides, NaN where either has none, and their clusters."""
        has = [bool(a.values.get(name) and b.values.get(name)) for a, b in self.records]
        pairs = [pair for pair, there in zip(self.records, has, strict=True) if there]
        if not pairs:
            return {}, None
        one, two = (measured(RunTable.of(side), name) for side in zip(*pairs, strict=True))
        found: dict[str, np.ndarray] = {}
        for key in one.keys() & two.keys():
            absent = np.isnan(one[key]) | np.isnan(two[key])
            for side, columns in zip(SIDES, (one, two), strict=True):
                found[f"{side}{key}"] = np.where(absent, np.nan, columns[key])
        return found, None if self.clusters is None else self.clusters[np.array(has)]


def paired(one: Sequence[Record], two: Sequence[Record]) -> list[Pair]:
    """Return the records of the cases that both sides have, in the order of the first."""
    others = {record.case: record for record in two}
    return [(record, others[record.case]) for record in one if record.case in others]


def same_content(one: Results, two: Results, case: str) -> bool:
    """Tell whether a case asks the same in both runs."""
    return bool(one.by_id.get(case) == two.by_id.get(case))


def distance(one: Sequence[Any], two: Sequence[Any]) -> float:
    """Return by how much log-probabilities or divergences of stored answers differ at most."""
    pairs = (
        pair
        for answers in zip(one, two, strict=False)
        for pair in zip(*map(_numbers, answers), strict=False)
    )
    return max((abs(a - b) for a, b in pairs if a is not None and b is not None), default=0.0)


def _numbers(answer: Any) -> Iterator[float | None]:
    if isinstance(answer, Mapping):
        for row in answer.get("logprobs") or ():
            yield from row
        yield from (answer[name] for name in ("forward", "reverse") if name in answer)


def _joined(one: Sequence[int], two: Sequence[int]) -> np.ndarray:
    """Return labels that are equal where pairs are connected by labels of either side."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    rows, columns = np.unique(one, return_inverse=True)[1], np.unique(two, return_inverse=True)[1]
    shift = rows.max() + 1
    size = int(shift + columns.max() + 1)
    edges = coo_array((np.ones(len(rows)), (rows, columns + shift)), shape=(size, size))
    return np.asarray(connected_components(edges, directed=False)[1])[rows]


def _tested(plain: Contrast, x: np.ndarray) -> Contrast:
    """Return a contrast with the t-test of what stands for its independent units."""
    found, value, n = one_sample(x), plain.difference.value, len(x)
    if found.t is None:  # nothing varies, and all units differ alike: how likely is that?
        p = sign(n if value else 0, n if value > 0 else 0)
        return replace(plain, units=n, test=SIGN, p=p)
    return replace(plain, units=n, test=T_TEST, p=found.p, effect=found.t / math.sqrt(n))


def _of_cases(found: Contrast, values: Sequence[np.ndarray], *, clustered: bool) -> Contrast:
    """Return a contrast as its values over cases have it: of single answers it is by McNemar's test."""
    means = [float(np.nanmean(side)) for side in values]
    if not means or not np.allclose(means, [found.first, found.second]):
        # no mean over cases, but of all checks, say
        return replace(found, test=found.test.replace(T_TEST, JACKKNIFE), effect=None)
    pairs = mcnemar(*values)
    found = replace(found, difference=replace(found.difference, n=pairs.n))
    every = np.concatenate(values)
    if clustered or not set(every[~np.isnan(every)].tolist()) <= {0.0, 1.0}:
        return found
    found = replace(found, gained=pairs.gained, lost=pairs.lost)
    return replace(found, test=MCNEMAR, p=pairs.p, effect=None)
