"""The suite for tasks; see `edit_harness.testing` for how to use it."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import pytest

from ..data import Case, Choose, Probe
from ..files import dumps, finite
from ..folder.encoding import decode_case, encode_case
from ..interfaces import Task
from ..registry.registry import Plugins
from ..registry.settings import build, defaults, make_metrics, settings
from .metrics import invented
from .suite import Suite, left_alone, python

OTHERS = ("neighborhood", "attribute")
"""The roles of probes of other subjects, with nothing in front of them."""
UNKNOWN = 77
"""How a process ends that doesn't know the task's class."""
ELSEWHERE = f"""
import json, sys
from importlib import import_module
from operator import attrgetter
out, sys.stdout = sys.stdout, sys.stderr
module, name, settings, count = json.load(sys.stdin)
try:
    kind = attrgetter(name)(import_module(module))
except Exception:
    sys.exit({UNKNOWN})
from edit_harness.testing.tasks import lines
out.write("\\n".join(lines(kind, settings, count)))
"""


class TaskTests(Suite):
    """What every task must do.

    Ids are unique texts; cases are the same, in the same order, in a second reading and in another
    process, come back from strict JSON, have requests and probes or a problem, and name their subject
    where efficacy is asked for. No text is empty, candidates differ, no fact is its own
    neighbour. Reading leaves the process alone. Its metrics exist and measure its cases.
    """

    task: Task
    sample: ClassVar[int] = 50
    """How many cases are looked at."""

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

    def test_cases_are_the_same_in_another_process(self) -> None:
        """A run goes on, and is compared, in other processes; there hash() is another function."""
        kind = type(self.task)
        usual = defaults(kind)
        fields = {name: v for name, v in settings(self.task).items() if v != usual[name]}
        try:
            given = dumps([kind.__module__, kind.__qualname__, fields, self.sample]).encode()
        except TypeError as error:
            pytest.skip(f"another process cannot be given its fields: {error}")
        ours = lines(kind, fields, self.sample)
        done = python("-c", ELSEWHERE, given=given, env={**os.environ, "PYTHONHASHSEED": "4321"})
        if done.returncode == UNKNOWN:
            pytest.skip("another process does not find the task's class")
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        theirs = done.stdout.decode().splitlines()
        for one, two in zip(ours, theirs, strict=True):
            assert one == two, "a case is another one there: use no hash(), set order, time or path"

    def test_reading_leaves_the_process_as_it_was(self) -> None:
        """Reading cases changes no random state, no directory, no environment."""
        with left_alone():
            list(islice(self.task.cases(), self.sample))

    def test_cases_are_json(self, cases: list[Case]) -> None:
        """Cases go into run folders and digests: they come back from strict JSON as they were."""
        for case in cases:
            how = f"the case {case.id!r} is no strict JSON, or another one when it is read back"
            try:
                data = encode_case(case)
                again = encode_case(decode_case(json.loads(json.dumps(data, allow_nan=False))))
            except (TypeError, ValueError, KeyError, AttributeError) as error:
                pytest.fail(f"{how}: {error}")
            assert finite(again) == finite(data), how  # where lists and tuples are alike

    def test_prompts_have_their_subject(self, cases: list[Case]) -> None:
        """Where an edit's efficacy is asked for, the prompt names a subject that was edited."""
        for case, probe in probes(cases):
            subjects = [request.subject for request in case.requests]
            named = any(subject in probe.query.prompt for subject in subjects)
            assert named or probe.role != "efficacy", (
                f"{case.id}: {probe.query.prompt!r} has none of the subjects {subjects}"
            )

    def test_no_text_is_empty(self, cases: list[Case]) -> None:
        """Every prompt and every candidate is there; a choice between equal texts says nothing."""
        for case, probe in probes(cases):
            query = probe.query
            given = query.candidates if isinstance(query, Choose) else ("one",)
            texts = query.prompt, *given
            assert all(map(str.strip, texts)), f"{case.id}: a text of {query} is empty"
            differ = given and len(set(given)) == len(given)
            assert differ, f"{case.id}: the candidates {given} are none, or not different"

    def test_no_fact_is_its_own_neighbour(self, cases: list[Case]) -> None:
        """What other subjects are asked is none of the prompts that the case edits."""
        for case, probe in probes(cases):
            prompt, edited = probe.query.prompt, {request.text for request in case.requests}
            other = probe.role not in OTHERS or prompt not in edited
            assert other, f"{case.id}: {prompt!r} is edited, and of the role {probe.role}"

    def test_its_metrics_measure_its_cases(self, cases: list[Case]) -> None:
        """Each metric that it names is installed, and has something to say about it."""
        assert self.task.metrics, "name the metrics of its cases in `metrics`"
        for name, metric in make_metrics(Plugins.installed(), self.task.metrics).items():
            measured = any(metric.measure(c, invented(c, 1), invented(c, 2)) for c in cases)
            assert measured, f"{name} says nothing of any case: look at the roles of its probes"


def lines(kind: type[Task], fields: Mapping[str, Any], count: int) -> list[str]:
    """Return the first cases of a task as JSON, the task made anew of its fields."""
    lists = {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}
    task = build(kind, lists, "task")
    return [dumps(encode_case(case)) for case in islice(task.cases(), count)]


def probes(cases: list[Case]) -> Iterator[tuple[Case, Probe]]:
    """Yield the probes of all cases, each with its case."""
    yield from ((case, probe) for case in cases for probe in case.probes)
