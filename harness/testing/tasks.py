"""The suite for tasks; see `edit_harness.testing` for how to use it."""

from __future__ import annotations

import copy
import json
import random
from dataclasses import asdict
from itertools import islice
from typing import ClassVar

import pytest

from edit_harness.cases import Case
from edit_harness.encoding import finite
from edit_harness.interfaces import Metric, Task
from edit_harness.plugins import Plugins
from edit_harness.testing.answers import invented


class TaskTests:
    """What every task must do."""

    task: Task
    sample: ClassVar[int] = 50
    """How many cases are looked at."""

    @pytest.fixture
    def cases(self) -> list[Case]:
        """Return the first cases."""
        return list(islice(self.task.cases(), self.sample))

    def test_has_cases_with_requests_and_probes(self, cases: list[Case]) -> None:
        """No case is empty, unless it says why it cannot be used, and some can be."""
        assert any(not case.problem for case in cases)
        for case in cases:
            usable = not case.problem
            assert bool(case.requests) == usable, case.id
            assert bool(case.probes) == usable, case.id

    def test_ids_are_unique_texts(self, cases: list[Case]) -> None:
        """Results are found again by case id, in one file and between two runs."""
        assert all(isinstance(case.id, str) and case.id for case in cases)
        assert len({case.id for case in cases}) == len(cases)

    def test_order_and_ids_are_fixed(self, cases: list[Case]) -> None:
        """A limited run is a prefix of the whole, whatever the global random state."""
        state = random.getstate()
        try:
            random.seed(len(cases))
            assert list(islice(copy.copy(self.task).cases(), self.sample)) == cases
        finally:
            random.setstate(state)

    def test_cases_are_json(self, cases: list[Case]) -> None:
        """Cases go into digests and submissions: JSON keeps all that they hold."""
        for case in cases:
            data = asdict(case)
            assert json.loads(json.dumps(data, allow_nan=False)) == finite(data), case.id

    def test_its_metrics_are_installed(self) -> None:
        """A task says how it is measured, by names that exist."""
        assert self.task.metrics
        plugins = Plugins.installed()
        for name in self.task.metrics:
            assert issubclass(plugins.find("metric", name).load(), Metric)

    def test_its_metrics_measure_its_cases(self, cases: list[Case]) -> None:
        """Each metric that it names has something to say about it."""
        plugins = Plugins.installed()
        for name in self.task.metrics:
            metric = plugins.find("metric", name).load()()
            assert any(metric.measure(c, invented(c, 1), invented(c, 2)) for c in cases), name

    def test_says_what_it_is(self) -> None:
        """The record of a run names version and origin, its card where the data are from."""
        assert isinstance(self.task.version, str)
        assert isinstance(self.task.origin, str)
        assert all(isinstance(said, str) for said in self.task.dataset().values())

    def test_its_data_can_be_counted(self) -> None:
        """What the data are made of comes as tables, whose cells are texts and numbers or None."""
        tables = self.task.composition()
        assert any(tables.values())
        cells = [cell for rows in tables.values() for row in rows for cell in row.values()]
        assert all(cell is None or isinstance(cell, str | int | float) for cell in cells)
        json.dumps(cells, allow_nan=False)
