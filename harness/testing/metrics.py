"""The suite for metrics; see `edit_harness.testing` for how to use it."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import ClassVar

import numpy as np
import pytest

from edit_harness.cases import Case, Choose, Drift, Generate, NextToken, Probe, Query
from edit_harness.encoding import finite
from edit_harness.interfaces import Metric, Task
from edit_harness.testing.answers import invented
from edit_harness.testing.facts import FACTS


class MetricTests:
    """What every metric must do. The answers are made up, so no model is needed."""

    metric: Metric
    task: Task
    """A task with cases that concern the metric."""
    sample: ClassVar[int] = 20

    @pytest.fixture
    def cases(self) -> list[Case]:
        """Return the first cases of the task that can be used."""
        usable = (case for case in self.task.cases() if not case.problem)
        return list(islice(usable, self.sample))

    def values(self, case: Case) -> Mapping[str, float]:
        """Measure a case with answers that depend on its id alone."""
        seed = sum(case.id.encode())
        return self.metric.measure(case, invented(case, seed), invented(case, seed + 1))

    def columns(self, cases: Sequence[Case]) -> dict[str, np.ndarray]:
        """Measure cases, and return the values as columns, NaN where a case has none."""
        rows = [self.values(case) for case in cases]
        names = dict.fromkeys(name for row in rows for name in row)
        return {n: np.array([row.get(n, np.nan) for row in rows]) for n in names}

    def test_values_are_finite_floats(self, cases: list[Case]) -> None:
        """Values go into JSON Lines, which has no NaN."""
        assert any(self.values(case) for case in cases)
        for case in cases:
            assert_floats(self.values(case))

    def test_is_pure(self, cases: list[Case]) -> None:
        """The same answers give the same values, whatever was measured in between."""
        first = [dict(self.values(case)) for case in cases]
        assert [dict(self.values(case)) for case in reversed(cases)] == first[::-1]
        fresh = copy.deepcopy(self.metric)
        for case, values in zip(cases, first, strict=True):
            before, after = (invented(case, sum(case.id.encode()) + i) for i in (0, 1))
            kept = list(before), list(after)
            assert dict(fresh.measure(case, before, after)) == values
            assert (before, after) == kept

    def test_pre_values_describe_the_model_before_the_edit(self, cases: list[Case]) -> None:
        """What is called ``pre_`` does not depend on the answers after the edit."""
        for case in cases:
            one, two = (
                self.metric.measure(case, invented(case, 1), invented(case, seed))
                for seed in (2, 3)
            )
            pre = {n: v for n, v in one.items() if n.startswith("pre_")}
            assert pre == {n: v for n, v in two.items() if n.startswith("pre_")}

    def test_ignores_cases_without_its_probes(self) -> None:
        """A metric has nothing to say about a case that is not meant for it."""
        queries: list[Query] = [
            Choose("a", ("b", "c")), Drift("a"), NextToken("a"), Generate("a"),
        ]  # fmt: skip
        for probes in ([], [Probe("unheard-of", query) for query in queries]):
            case = Case("x", FACTS[:1], tuple(probes))
            answers = invented(case, 0)
            assert self.metric.measure(case, answers, answers) == {}
            assert self.metric.failed(case, answers) == {}

    def test_values_of_a_failed_edit_are_floats(self, cases: list[Case]) -> None:
        """A case whose edit failed counts by what `failed` says, or not at all."""
        for case in cases:
            before = invented(case, 1)
            values = self.metric.failed(case, before)
            assert_floats(values)
            assert values.keys() <= self.metric.measure(case, before, invented(case, 2)).keys()

    def test_summary_ignores_the_order_of_cases(self, cases: list[Case]) -> None:
        """A summary is a function of the set of cases."""
        columns = self.columns(cases)
        order = np.random.default_rng(0).permutation(len(cases))
        first = self.metric.summarize(columns)
        second = self.metric.summarize({k: v[order] for k, v in columns.items()})
        assert first
        assert first.keys() == second.keys()
        np.testing.assert_allclose([*first.values()], [*second.values()], rtol=1e-12)

    def test_summary_bears_missing_values(self, cases: list[Case]) -> None:
        """Cases without a value are left out; a column without any gives NaN, not an error."""
        columns = self.columns(cases)
        gaps = {k: np.append(v, np.nan) for k, v in columns.items()}
        whole, gapped = self.metric.summarize(columns), self.metric.summarize(gaps)
        np.testing.assert_allclose([*gapped.values()], [*whole.values()], rtol=1e-12)
        empty = self.metric.summarize({k: np.full(3, np.nan) for k in columns})
        assert all(isinstance(value, float) for value in empty.values())
        assert self.metric.summarize({}) == {}

    def test_tables_are_of_texts_and_numbers(self, cases: list[Case]) -> None:
        """Tables are shown and stored as they are, and bear cases without a value."""
        columns = self.columns(cases)
        gaps = {name: np.full(len(cases), np.nan) for name in columns}
        for tables in (
            self.metric.tables(cases, columns),
            self.metric.tables(cases, gaps),
            self.metric.tables([], {}),
        ):
            json.dumps(finite(tables), allow_nan=False)
            cells = (cell for rows in tables.values() for row in rows for cell in row.values())
            assert all(cell is None or isinstance(cell, str | int | float) for cell in cells)

    def test_values_are_in_range(self, cases: list[Case]) -> None:
        """What a measure says of its range holds for each case and for the summary."""
        for case in cases:
            assert_in_range(self.metric, self.values(case))
            assert_in_range(self.metric, self.metric.failed(case, invented(case, 1)))
        assert_in_range(self.metric, self.metric.summarize(self.columns(cases)))

    def test_every_number_is_documented(self, cases: list[Case]) -> None:
        """Tables find the meaning of each number in `measures`."""
        numbers = set(self.metric.summarize(self.columns(cases)))
        failed = [self.metric.failed(case, invented(case, 1)) for case in cases]
        columns = {name: np.array([row[name]]) for row in failed for name in row}
        numbers |= set(self.metric.summarize(columns))
        for number in numbers:
            when, _, name = number.partition("_")
            assert when in ("pre", "post"), f"{number} begins with neither pre_ nor post_"
            assert name in self.metric.measures, f"{name} is not in measures"
        for name, measure in self.metric.measures.items():
            assert measure.formula.strip(), f"{name} has no formula"
            assert measure.better in ("higher", "lower", "")


def assert_floats(values: Mapping[str, float]) -> None:
    """Fail unless all values are finite floats."""
    for name, value in values.items():
        assert isinstance(value, float), name
        assert math.isfinite(value), name


ROUNDING = 1e-9
"""How far sums of a case's values, in double precision, may lead out of a range."""


def assert_in_range(metric: Metric, values: Mapping[str, float]) -> None:
    """Fail if a value is outside of what its measure says; NaN, which is none, is not."""
    for number, value in values.items():
        if measure := metric.measures.get(number.partition("_")[2]):
            low, high = measure.limits
            within = low - ROUNDING <= value <= high + ROUNDING
            assert within or math.isnan(value), f"{number} is {value}"
