"""Two runs case by case: which cases can be compared, and how the measures of these differ.

A pair is a case that both runs measured, with the same content, and of which the unedited model, if
it is the same one, said the same. The tests are those of `edit_harness_plugins.significance`.
"""

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
from edit_harness.run import effects
from edit_harness.run.effects import Seen
from edit_harness.run.estimates import LEVEL, difference, limits_of, measured, measures_of, usable
from edit_harness.run.results import Run
from edit_harness.stats import Columns, Estimate
from edit_harness_plugins.significance import (
    benjamini_hochberg,
    detectable_mean,
    detectable_share,
    effect_size,
    mcnemar,
    one_sample,
    sign,
)

ALPHA = 1 - LEVEL
"""The level of tests, that of the intervals."""
POWER = 0.8
TOLERANCES = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}
"""By how many nats the unedited model may differ between machines, by its precision."""
T_TEST, MCNEMAR, SIGN, JACKKNIFE = "paired t", "McNemar", "sign", "jackknife t"
SIDES = ("0 ", "1 ")
"""What stands before the names of the columns of A and of B; see `edit_harness.run.estimates.difference`."""


@dataclass(frozen=True, kw_only=True)
class Versus(effects.Measured):
    """How much more one measure of a control changed in a run B than in a run A."""

    first: float
    """The change in A, over what both have."""
    second: float
    difference: Estimate
    """B less A, paired; its ends are NaN where there is no interval."""


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
    detectable: float | None = None
    """The least difference that so many cases would show, with a power of `POWER` at `ALPHA`; None if
    the measure cannot differ by so much, or nothing is known of the spread."""
    alike: bool = False
    """Whether all units differ by one number, which may be 0."""

    @property
    def differs(self) -> bool:
        """Whether the runs differ: by the corrected p."""
        return self.adjusted is not None and self.adjusted <= ALPHA


@dataclass(eq=False)
class Pairing:
    """Two runs, and the cases of which they can be compared, by the metrics of the first."""

    first: Run
    second: Run

    @cached_property
    def records(self) -> list[tuple[Record, Record]]:
        """The pairs, in the order of the first run."""
        return [pair for pair, why in self._shared if not why]

    @cached_property
    def left_out(self) -> Counter[str]:
        """How many cases are not compared, by the reason."""
        found = Counter(why for _, why in self._shared if why)
        one, two = ({r.case for r in usable(run.records)} for run in (self.first, self.second))
        for label, alone in (("A", one - two), ("B", two - one)):
            if alone:
                found[f"measured in {label} alone"] = len(alone)
        return found

    @cached_property
    def versus(self) -> list[Versus]:
        """How much more the controls changed in B, of edits of the same cases of the same model."""
        one, two = self.first, self.second
        if not self.same_model or one.regime != two.regime or one.planned != two.planned:
            return []
        last = one.regime.mode == "sequential"
        both = [name for name in one.seen if name in two.seen]
        return [
            each
            for name in both
            for each in changed_more(name, one.seen[name], two.seen[name], last=last, level=LEVEL)
        ]

    @property
    def same_folder(self) -> bool:
        """Whether both are one run folder."""
        return self.first.folder.path.resolve() == self.second.folder.path.resolve()

    @cached_property
    def same_model(self) -> bool:
        """Whether both edited the same weights, in the same precision."""
        return bool(self.first.manifest.identity.model == self.second.manifest.identity.model)

    @cached_property
    def _shared(self) -> list[tuple[tuple[Record, Record], str]]:
        """The cases that both measured, with why they are left out."""
        others = {record.case: record for record in usable(self.second.records)}
        both = [(r, others[r.case]) for r in usable(self.first.records) if r.case in others]
        return [(pair, self._why_not(*pair)) for pair in both]

    def _why_not(self, one: Record, two: Record) -> str:
        if self.first.by_id[one.case] != self.second.by_id[two.case]:
            return "of another content"
        tolerance = TOLERANCES.get(self.first.manifest.identity.model.dtype, 0.0)
        pairs = zip(one.before, two.before, strict=False)
        alike = all(_distance(a, b) <= tolerance for a, b in pairs)
        return "" if alike or not self.same_model else "unlike before the edit"

    @cached_property
    def clusters(self) -> np.ndarray | None:
        """The label of each pair where edits are shared; None where the pairs are independent.

        Cases of one batch share an edit, so that only batches of both runs are independent.
        """
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
        for measure, means in measures_of({name: metric}).items():
            key = f"post_{measure}"
            first, second = (side.get(key, math.nan) for side in sides)
            if math.isnan(first) or math.isnan(second):
                continue
            plain = Contrast(measure, means, first, second, changes[key])
            found = _tested(plain, changes[key].value + moves[key])
            values = [columns.get(side + key) for side in SIDES]
            yield _of_cases(found, *values, clustered=labels is not None)

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


def _distance(one: Any, two: Any) -> float:
    """Return by how much two stored answers' log-probabilities differ at most; 0 if there are none."""
    sides = [each.get("logprobs") if isinstance(each, Mapping) else None for each in (one, two)]
    flat = [[p for row in side or () for p in row] for side in sides]
    if len(flat[0]) != len(flat[1]):
        return math.inf
    pairs = zip(*flat, strict=True)
    return max((abs(a - b) for a, b in pairs if a is not None and b is not None), default=0.0)


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
    """Return a contrast with the t-test of what stands for its independent units.

    Where nothing varies, t is not defined. Then all units differ alike, and the sign test says how
    likely that is.
    """
    found, value, none = one_sample(x, LEVEL), plain.difference.value, np.zeros(len(x))
    least = _possible(detectable_mean(none, x, ALPHA, POWER), plain.measure)
    plain = replace(plain, units=len(x), detectable=least, effect=effect_size(none, x))
    if found.p is None:
        p = sign(len(x) if value else 0, len(x) if value > 0 else 0)
        return replace(plain, test=SIGN, p=p, alike=len(x) > 1)
    return replace(plain, test=T_TEST, p=found.p)


def _of_cases(
    found: Contrast, one: np.ndarray | None, two: np.ndarray | None, *, clustered: bool
) -> Contrast:
    """Return a contrast as its values over cases have it: of single answers it is by McNemar's test."""
    if (
        one is None
        or two is None
        or not (
            np.isclose(np.nanmean(one), found.first) and np.isclose(np.nanmean(two), found.second)
        )
    ):  # no mean over cases, but of all checks, say
        return replace(found, test=found.test.replace(T_TEST, JACKKNIFE), effect=None)
    pairs = mcnemar(one, two)
    found = replace(found, difference=replace(found.difference, n=pairs.n))
    values = np.concatenate([one, two])
    if clustered or not set(values[~np.isnan(values)].tolist()) <= {0.0, 1.0}:
        return found
    least = _possible(detectable_share(pairs, ALPHA, POWER), found.measure)
    found = replace(found, test=MCNEMAR, p=pairs.p, effect=None, detectable=least)
    return replace(found, gained=pairs.gained, lost=pairs.lost)


def _possible(least: float | None, measure: Measure) -> float | None:
    """Return a difference if a measure can differ by so much."""
    low, high = measure.limits
    return None if least is None or least > high - low else least


def changed_more(
    control: str, first: Sequence[Seen], second: Sequence[Seen], *, last: bool, level: float
) -> Iterator[Versus]:
    """Yield the measures that both runs have of a control, over the states and documents of both.

    The units are as in `edit_harness.run.effects`. Nothing is yielded if the documents are not the same.
    """
    sides = [effects.paired(seen, last=last) for seen in (first, second)]
    states = [s for s in sides[0] if s in sides[1]]
    states = states[-1:] if last else states
    if len({each.documents for side in sides for s in states for each in side[s]}) != 1:
        return
    known = [effects.measures(side) for side in sides]
    for name in known[0]:
        if all(each.get(name) == "" for each in known):
            both = [[(s[i][0].marks[name], s[i][1].marks[name]) for i in states] for s in sides]
            told, found = effects.estimated(control, name, both, level)
            one, two = (found[f"{i} after"].value - found[f"{i} before"].value for i in range(2))
            yield Versus(**told, first=one, second=two, difference=found["change"])
