"""The suite for tasks; see `edit_harness.testing` for how to use it."""

from __future__ import annotations

import copy
import json
import pickle
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import pytest

from edit_harness import process
from edit_harness.cases import Case, Choose
from edit_harness.encoding import decode_case, encode_case, finite
from edit_harness.errors import PluginError
from edit_harness.interfaces import Metric, Task
from edit_harness.plugins import Plugins
from edit_harness.testing.answers import invented
from edit_harness.testing.elsewhere import python
from edit_harness.testing.traces import TraceChecks

OTHERS = ("neighborhood", "attribute")
"""The roles of probes of other subjects, with nothing in front of them."""
UNKNOWN = 77
"""How a process ends that doesn't know the task's class."""
ELSEWHERE = f"""
import pickle, sys
from itertools import islice
out, sys.stdout = sys.stdout, sys.stderr
try:
    task, count = pickle.load(sys.stdin.buffer)
except Exception:
    sys.exit({UNKNOWN})
from edit_harness.encoding import dumps, encode_case
out.write("\\n".join(dumps(encode_case(case)) for case in islice(task.cases(), count)))
"""


class TaskTests(TraceChecks):
    """What every task must do.

    Ids are unique texts; cases are the same, in the same order, in a second reading and in another
    process, come back from strict JSON, have requests and probes or a problem, and name their subject
    where efficacy is asked for. Prompts and what follows them can be joined by one space, candidates
    differ, no fact is its own neighbour. Reading leaves the process alone. Its metrics exist and
    measure its cases, its data can be counted.
    """

    task: Task
    sample: ClassVar[int] = 50
    """How many cases are looked at."""

    def using(self) -> Callable[[], object]:
        """Return what reads the first cases."""
        return lambda: list(islice(copy.copy(self.task).cases(), self.sample))

    @pytest.fixture
    def cases(self) -> list[Case]:
        """Return the first cases."""
        return list(islice(self.task.cases(), self.sample))

    def test_has_cases_with_requests_and_probes(self, cases: list[Case]) -> None:
        """No case is empty, unless it says why it cannot be used, and some can be."""
        assert any(not case.problem for case in cases), "it has no case that can be used"
        for case in cases:
            usable = not case.problem
            how = "a case has requests and probes, or else a `problem` and no requests"
            assert bool(case.requests) == usable, f"{case.id}: {how}"
            assert bool(case.probes) == usable, f"{case.id}: {how}"

    def test_ids_are_unique_texts(self, cases: list[Case]) -> None:
        """Results are found again by case id, in one file and between two runs."""
        seen = set()
        for case in cases:
            good = isinstance(case.id, str) and case.id
            assert good, f"the id {case.id!r} is no text: write str(...)"
            assert case.id not in seen, f"two cases have the id {case.id!r}"
            seen.add(case.id)

    def test_order_and_ids_are_fixed(self, cases: list[Case]) -> None:
        """A limited run is a prefix of the whole, whatever the global random states."""
        random.seed(len(cases))
        np.random.seed(len(cases))
        again = list(islice(copy.copy(self.task).cases(), self.sample))
        same = again == cases
        assert same, "a second reading gave other cases, or another order: seed what is drawn"

    def test_cases_are_the_same_in_another_process(self, cases: list[Case]) -> None:
        """A run goes on, and is compared, in other processes; there hash() is another function."""
        ours = [json.dumps(finite(encode_case(case)), sort_keys=True) for case in cases]
        try:
            given = pickle.dumps((self.task, self.sample))
        except Exception as error:
            pytest.skip(f"the task cannot be handed to another process: {error}")
        done = python("-c", ELSEWHERE, given=given, PYTHONHASHSEED="4321")
        if done.returncode == UNKNOWN:
            pytest.skip("another process does not find the task's class")
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        theirs = done.stdout.decode().splitlines()
        for one, two in zip(ours, theirs, strict=True):
            assert one == two, "a case is another one there: use no hash(), set order, time or path"

    def test_reading_leaves_the_process_as_it_was(self) -> None:
        """Reading cases changes no random state, no directory, no environment."""
        with process.left_alone():
            list(islice(self.task.cases(), self.sample))

    def test_cases_are_json(self, cases: list[Case]) -> None:
        """Cases go into run folders and digests: they come back from strict JSON as they were."""
        for case in cases:
            with told(
                f"the case {case.id!r} is no strict JSON, or another one when it is read back"
            ):
                data = encode_case(case)
                stored = json.loads(json.dumps(data, allow_nan=False))
                assert encoded(decode_case(stored)) == finite(data)

    def test_prompts_have_their_subject(self, cases: list[Case]) -> None:
        """Where an edit's efficacy is asked for, the prompt names a subject that was edited."""
        for case in cases:
            subjects = [request.subject.strip() for request in case.requests]
            for probe in case.probes:
                named = any(subject in probe.query.prompt for subject in subjects)
                assert named or probe.role != "efficacy", (
                    f"{case.id}: {probe.query.prompt!r} has none of the subjects {subjects}"
                )

    def test_texts_are_joined_by_one_space(self, cases: list[Case]) -> None:
        """No prompt has a space at its end, no object or candidate at either, and none is empty."""
        for case in cases:
            for prompt in prompts(case):
                good = prompt.strip() and not prompt.endswith(" ")
                assert good, f"{case.id}: the prompt {prompt!r} is empty, or ends with a space"
            for text in followers(case):
                good = text and text == text.strip()
                assert good, f"{case.id}: {text!r} is empty, or begins or ends with a space"

    def test_candidates_differ(self, cases: list[Case]) -> None:
        """A choice between two equal texts says nothing, and counts as a failure."""
        for case in cases:
            for probe in case.probes:
                if isinstance(probe.query, Choose):
                    given = probe.query.candidates
                    differ = given and len(set(given)) == len(given)
                    assert differ, f"{case.id}: the candidates {given} are none, or not different"

    def test_no_fact_is_its_own_neighbour(self, cases: list[Case]) -> None:
        """What other subjects are asked is none of the prompts that the case edits."""
        for case in cases:
            edited = {request.text for request in case.requests}
            for probe in case.probes:
                other = probe.role not in OTHERS or probe.query.prompt not in edited
                assert other, (
                    f"{case.id}: {probe.query.prompt!r} is edited, and of the role {probe.role}"
                )

    def test_its_metrics_are_installed(self) -> None:
        """A task says how it is measured, by names that exist."""
        assert self.task.metrics, "name the metrics of its cases in `metrics`"
        plugins = Plugins.installed()
        for name in self.task.metrics:
            try:
                assert issubclass(plugins.find("metric", name).load(), Metric)
            except PluginError as error:
                pytest.fail(str(error))

    def test_its_metrics_measure_its_cases(self, cases: list[Case]) -> None:
        """Each metric that it names has something to say about it."""
        plugins = Plugins.installed()
        for name in self.task.metrics:
            try:
                metric = plugins.find("metric", name).load()()
            except PluginError:
                pytest.skip("there is no such metric: see test_its_metrics_are_installed")
            measured = any(metric.measure(c, invented(c, 1), invented(c, 2)) for c in cases)
            assert measured, f"{name} says nothing of any case: look at the roles of its probes"

    def test_says_what_it_is(self) -> None:
        """The record of a run names version and origin, its card where the data are from."""
        assert isinstance(self.task.version, str)
        assert isinstance(self.task.origin, str)
        assert all(isinstance(said, str) for said in self.task.dataset().values())

    def test_its_data_can_be_counted(self) -> None:
        """What the data are made of comes as tables, whose cells are texts and numbers or None."""
        tables = self.task.composition()
        assert any(tables.values()), "`composition` has no rows"
        cells = [cell for rows in tables.values() for row in rows for cell in row.values()]
        with told("a cell of `composition` is no text, no finite number and not None"):
            assert all(cell is None or isinstance(cell, str | int | float) for cell in cells)
            json.dumps(cells, allow_nan=False)


def prompts(case: Case) -> list[str]:
    """Return the prompts of requests and probes."""
    asked = [probe.query.prompt for probe in case.probes]
    return [request.prompt for request in case.requests] + asked


def followers(case: Case) -> Iterator[str]:
    """Yield the texts that are scored behind a prompt; a true object that nobody knows is none."""
    for request in case.requests:
        yield request.target_new
        if request.target_true:
            yield request.target_true
    for probe in case.probes:
        if isinstance(probe.query, Choose):
            yield from probe.query.candidates


def encoded(case: Case) -> Any:
    """Return a case as JSON-ready data, in which lists and tuples are alike."""
    return finite(encode_case(case))


@contextmanager
def told(what: str) -> Iterator[None]:
    """Say in words what an error within means."""
    try:
        yield
    except (AssertionError, TypeError, ValueError, KeyError, AttributeError) as error:
        pytest.fail(f"{what}: {error}")
