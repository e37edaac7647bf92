"""The suite for metrics; see `edit_harness.testing` for how to use it."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

from ..data import (
    Answer,
    Case,
    Choose,
    Distribution,
    Divergence,
    Drift,
    Generate,
    Key,
    NextToken,
    Probe,
    Query,
    Request,
    Scores,
    Text,
    Verdict,
)  # fmt: skip
from ..interfaces import Metric, Task
from ..registry.settings import build, settings
from .suite import Suite

ROLES = ("efficacy", "paraphrase", "neighborhood", "neighborhood-plus", "attribute")
FACT = Request("{} lives in", "Ann", "Rome", "Oslo")


class MetricTests(Suite):
    """What every metric must do. The answers are made up, so no model is needed.

    Values are finite floats within the range of their measure, a pure function of a case and its answers;
    ``pre_`` values know nothing of the answers after; cases of others have none. The summary is of a set of cases
    and bears missing values; every number of it is documented. No argument changes.
    """

    metric: Metric
    task: Task | None = None
    """A task with cases that concern the metric; without one, cases are made up."""
    sample: ClassVar[int] = 20

    @pytest.fixture
    def cases(self) -> list[Case]:
        """Return the first cases of the task that can be used, or cases that are made up."""
        return self.chosen() or pytest.skip("no made-up case concerns it: name a task in the suite")

    def chosen(self) -> list[Case]:
        """Return the cases; none if there is no task and no made-up case concerns the metric."""
        if self.task:
            return list(islice((c for c in self.task.cases() if not c.problem), self.sample))
        roles = {role for measure in self.metric.measures.values() for role in measure.probes}
        found = []
        for case in made_up(roles):
            with suppress(Exception):  # it expects a query of another kind, which is no fault
                found += [case] * bool(values(self.metric, case))
        return found

    def columns(self, cases: Sequence[Case]) -> dict[str, np.ndarray]:
        """Measure cases, and return the values as columns, NaN where a case has none."""
        rows = [values(self.metric, case) for case in cases]
        names = dict.fromkeys(name for row in rows for name in row)
        return {n: np.array([row.get(n, np.nan) for row in rows]) for n in names}

    def test_values_are_finite_floats(self, cases: list[Case]) -> None:
        """Values go into JSON Lines, which has no NaN, and are within what their measure says, also of a failed edit."""
        measured = [values(self.metric, case) for case in cases]
        assert any(measured), "it measures none of the task's cases"
        for case, found in zip(cases, measured, strict=True):
            failed = self.metric.failed(case, invented(case, seed_of(case)))
            assert_in_range(self.metric, found)
            assert_in_range(self.metric, failed)
            more = failed.keys() - found.keys()
            assert not more, f"`failed` has {more}, `measure` not"

    def test_is_pure(self, cases: list[Case]) -> None:
        """The same answers give the same values, whatever was measured in between, by one metric or by many."""
        how = "a value depends on the case and its answers alone: keep no state, draw nothing"
        first = [values(self.metric, case) for case in cases]
        random.seed(len(cases))
        np.random.seed(len(cases))
        assert [values(self.metric, case) for case in cases[::-1]] == first[::-1], how
        for case, known in zip(cases, first, strict=True):
            fresh = build(type(self.metric), settings(self.metric), "metric")
            assert values(fresh, case) == known, how

    def test_changes_no_argument(self, cases: list[Case]) -> None:
        """Other metrics measure the same case and the same answers."""
        names = ("the case", "the answers before the edit", "the answers after the edit")
        for case in cases:
            given = case, invented(case, 1), invented(case, 2)
            before = [repr(part) for part in given]
            self.metric.measure(*given)
            for what, one, part in zip(names, before, given, strict=True):
                assert repr(part) == one, f"it changed {what} that it was given: copy first"

    def test_pre_values_describe_the_model_before_the_edit(self, cases: list[Case]) -> None:
        """What is called ``pre_`` does not depend on the answers after the edit."""
        for case in cases:
            one, two = (
                self.metric.measure(case, invented(case, 1), invented(case, seed))
                for seed in (2, 3)
            )
            pre = {n: v for n, v in one.items() if n.startswith("pre_")}
            same = pre == {n: v for n, v in two.items() if n.startswith("pre_")}
            assert same, "a value named pre_ depends on the answers after the edit: rename it post_"

    def test_ignores_cases_without_its_probes(self) -> None:
        """A metric has nothing to say about a case that is not meant for it."""
        queries: list[Query] = [
            Choose("a", ("b", "c")), Drift("a"), NextToken("a"), Generate("a"),
        ]  # fmt: skip
        for probes in ([], [Probe("unheard-of", query) for query in queries]):
            case = Case("x", (FACT,), tuple(probes))
            answers = invented(case, 0)
            how = "return {} for a case that has no probes of the metric's own roles"
            assert self.metric.measure(case, answers, answers) == {}, how
            assert self.metric.failed(case, answers) == {}, how

    def test_summary_is_of_a_set_of_values(self, cases: list[Case]) -> None:
        """The order does not matter, a missing value is left out; a column of such gives NaN, not an error."""
        columns = self.columns(cases)
        order = np.random.default_rng(0).permutation(len(cases))
        whole = self.metric.summarize(columns)
        assert whole, "the summary is empty"
        changed: dict[str, dict[str, Any]] = {
            "the order of the cases": {k: v[order] for k, v in columns.items()},
            "a missing value: use np.nanmean": {k: [*v, np.nan] for k, v in columns.items()},
        }
        for what, given in changed.items():
            other = self.metric.summarize({k: np.array(v) for k, v in given.items()})
            assert other.keys() == whole.keys()
            told = f"the summary depends on {what}"
            np.testing.assert_allclose([*other.values()], [*whole.values()], 1e-12, err_msg=told)
        assert_in_range(self.metric, whole, finite=False)
        empty = self.metric.summarize({k: np.full(3, np.nan) for k in columns})
        assert all(isinstance(value, float) for value in empty.values())
        assert self.metric.summarize({}) == {}, "the summary of no columns is not {}"

    def test_every_number_is_documented(self, cases: list[Case]) -> None:
        """Tables find the meaning of each number in `measures`."""
        numbers = set(self.metric.summarize(self.columns(cases)))
        failed = [self.metric.failed(case, invented(case, 1)) for case in cases]
        numbers |= set(self.metric.summarize({n: np.ones(1) for row in failed for n in row}))
        for number in numbers:
            when, _, name = number.partition("_")
            assert when in ("pre", "post"), f"{number} begins with neither pre_ nor post_"
            assert name in self.metric.measures, f"{name} is not in measures"
        for name, measure in self.metric.measures.items():
            assert measure.formula.strip(), f"{name} has no formula"
            assert measure.better in ("higher", "lower", "")


ROUNDING = 1e-9
"""How far sums of a case's values, in double precision, may lead out of a range."""


def assert_in_range(metric: Metric, values: Mapping[str, float], *, finite: bool = True) -> None:
    """Fail unless all values are floats, finite ones if asked for, within what their measures say."""
    for number, value in values.items():
        assert isinstance(value, float), f"{number} is a {type(value).__name__}: return float(...)"
        good = math.isfinite(value) or not finite
        assert good, f"{number} is {value}: leave out what has no value"
        if measure := metric.measures.get(number.partition("_")[2]):
            low, high = measure.limits
            within = low - ROUNDING <= value <= high + ROUNDING
            assert within or math.isnan(value), (
                f"{number} is {value}, and its measure says that it is from {low} to {high}: see "
                "Measure.unit and Measure.range"
            )


def seed_of(case: Case) -> int:
    """Return what the made-up answers of a case depend on."""
    return sum(case.id.encode())


def values(metric: Metric, case: Case) -> dict[str, float]:
    """Measure a case with answers that depend on its id alone."""
    seed = seed_of(case)
    return dict(metric.measure(case, invented(case, seed), invented(case, seed + 1)))


def made_up(roles: set[str]) -> list[Case]:
    """Return cases whose probes have these roles, or else the usual ones; each asks in one way."""
    key = Key("match", FACT.target_new, FACT.target_true, {"how": "within"})
    ways: list[tuple[Query, Key | None]] = [
        (Choose(FACT.text, (FACT.target_new, FACT.target_true)), None),
        (Drift(FACT.text), None),
        (NextToken(FACT.text), None),
        (Generate(FACT.text), key),
    ]
    played = sorted(roles or ROLES)
    return [
        Case(f"made-up-{number}", (FACT,), tuple(Probe(r, query, key=key) for r in played))
        for number, (query, key) in enumerate(ways * 3)
    ]


def invented(case: Case, seed: int) -> list[Answer]:
    """Return made-up answers to the probes of a case, judged where a probe has a key."""
    rng = random.Random(seed)
    return [_judged(_invent(probe.query, rng), probe, rng) for probe in case.probes]


def _invent(query: Query, rng: random.Random) -> Answer:
    if isinstance(query, Choose):
        tokens = tuple(map(_tokens, query.candidates))
        return Scores(
            tokens=tokens,
            logprobs=tuple(tuple(-rng.expovariate(0.5) for _ in part) for part in tokens),
            argmax=tuple(tuple(rng.choice([t, t + 1]) for t in part) for part in tokens),
        )
    if isinstance(query, Drift):
        return Divergence(rng.expovariate(1), rng.expovariate(1), 1000)
    if isinstance(query, NextToken):
        logits = np.array([rng.gauss(0, 1) for _ in range(50)])
        log_partition = float(np.log(np.exp(logits).sum()))
        return Distribution((logits - log_partition).astype(np.float32), log_partition)
    return Text(" ".join(rng.choice(["the", "city", "of", "Ann", "is", "."]) for _ in range(20)))


def _tokens(text: str) -> tuple[int, ...]:
    """Return made-up tokens, which are a text's own: the same before an edit and after it."""
    rng = random.Random(text)
    return tuple(rng.randrange(100) for _ in range(rng.randint(1, 3)))


def _judged(answer: Answer, probe: Probe, rng: random.Random) -> Answer:
    if probe.key is None or not isinstance(answer, Text):
        return answer
    status: Literal["decided", "undecided"] = rng.choice(["decided", "decided", "undecided"])
    score = float(status == "decided" and rng.random() < 0.5)
    verdict = Verdict(
        status,
        score,
        reverted=not score and rng.random() < 0.5,
        ratings={name: rng.choice([-1.0, 0.0, 1.0]) for name in probe.key.about.get("aspects", ())},
        served="a model",
        swapped=rng.choice([None, False, True]),
        usage={"tokens": rng.randint(1, 999), "usd": rng.random()},
    )
    return Text(answer.text, verdict)
