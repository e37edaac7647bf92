"""Do the consequences of an edit follow, and does the rest stay? RippleEdits, from verdicts.

A test counts if the unedited model meets all its conditions, and if the edited prompt's continuation names
the new object. It is passed if one of its questions is, or all of them where it says so. An axis's value is
the mean over cases of the share of passed tests; a test that the verdicts do not decide is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from edit_harness import Answer, Case, Measure, Metric
from edit_harness.stats import column_means
from edit_harness_plugins.citations import RIPPLE_EDITS

from ..answers import counted, every, grouped, means, some

FACT, CONDITION = "fact", "condition"
AXES = {
    "relation-specificity": ("RelSpec", "other relations of the subject"),
    "logical-generalization": ("LG", "facts that follow by logic"),
    "subject-aliasing": ("SA", "other names of the subject"),
    "compositionality-1": ("CI", "facts on the new object, by way of the subject"),
    "compositionality-2": ("CII", "the edited fact, by way of another subject"),
    "forgetfulness": ("FG", "other objects of the relation"),
}
"""What the share of an axis is called, by the role of its probes, and what is asked.

RS is taken: it is the consistency of generated texts.
"""
COUNTS = ("tests", "executed", "counted", "passed")
"""Columns of numbers of tests: all, those whose conditions are met, those of edits that took."""
SOURCE = "Cohen et al. (2024), whose RS is RelSpec here, and whose PV is FG, as in their files"


@dataclass
class Test:
    """A test's places among the probes of its case."""

    role: str
    every: bool
    """Whether all questions must be passed, or one."""
    questions: dict[str, list[int]] = field(default_factory=dict)
    """By the question's number: a probe for each of its answers."""
    conditions: dict[str, list[int]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What the share of the test's axis is called."""
        return AXES[self.role][0]

    def passed(self, scores: Sequence[float | None]) -> bool | None:
        """Tell whether the questions are passed; None if the verdicts do not decide it."""
        found = [_passed(places, scores) for places in self.questions.values()]
        return every(found) if self.every else some(found)

    def executed(self, scores: Sequence[float | None]) -> bool | None:
        """Tell whether the conditions are met; None if the verdicts do not decide it."""
        return every(_passed(places, scores) for places in self.conditions.values())


def _passed(places: Iterable[int], scores: Sequence[float | None]) -> bool | None:
    """Tell whether a question gets all its answers; None if the verdicts do not decide it."""
    found = (scores[place] for place in places)
    return every(None if score is None else score == 1 for score in found)


def tests_of(case: Case) -> list[Test]:
    """Return the tests of a case, in their order."""
    tests: dict[str, Test] = {}
    for place, probe in enumerate(case.probes):
        if probe.role not in (*AXES, CONDITION):
            continue
        tags = probe.tags
        test = tests.setdefault(tags["test"], Test(tags["axis"], tags["passes"] == "all"))
        part = test.conditions if probe.role == CONDITION else test.questions
        part.setdefault(tags["query"], []).append(place)
    return list(tests.values())


class Ripple(Metric):
    """The share of passed tests along six axes, of edits that took and tests that the model can take.

    Before the edit it is the share of the same tests that are passed already; where no edit takes at
    all, as with the unedited model, of all whose conditions are met. A failed edit is one that did not
    take, and counts in no axis.
    """

    citation = RIPPLE_EDITS
    measures: ClassVar[Mapping[str, Measure]] = {
        **{
            name: Measure(
                f"mean over cases of passed / counted tests, {prompts}; before the edit of the same "
                "tests, or of all executed ones if no edit took",
                source=SOURCE, probes=(role, CONDITION, FACT),
            )
            for role, (name, prompts) in AXES.items()
        },
        "Executed": Measure(
            "mean over all cases of the share of tests whose conditions the unedited model meets; it "
            "has no value after the edit",
            source=SOURCE, probes=(CONDITION,), known=True,
        ),
        "Excluded": Measure(
            "share of cases whose edited fact is not generated after the edit; no axis counts them, and "
            "it has no value before", "lower",
            source=SOURCE, probes=(FACT,),
        ),
    }  # fmt: skip

    def measure(
        self, case: Case, before: Sequence[Answer], after: Sequence[Answer]
    ) -> dict[str, float]:
        """Return the shares before and after the edit, and the numbers of tests they are of."""
        old, new = _scores(before), _scores(after)
        facts = [place for place, probe in enumerate(case.probes) if probe.role == FACT]
        values, took = _before(case, old), _passed(facts, new) if facts else None
        if took is not None:
            values["post_Excluded"] = float(not took)
        return values | (_after(case, old, new) if took else _unedited(case, old))

    def failed(self, case: Case, before: Sequence[Answer]) -> dict[str, float]:
        """Count a failed edit as one that did not take."""
        old = _scores(before)
        values = _before(case, old) | _unedited(case, old) if before else {}
        asked = any(probe.role == FACT for probe in case.probes)
        return values | ({"post_Excluded": 1.0} if asked else {})

    def summarize(self, columns: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Return the means over cases, without the numbers of tests."""
        shares = {name: column for name, column in columns.items() if name[:4] in ("pre_", "post")}
        for name, _ in AXES.values():
            if f"pre_{name}" in shares and f"post_{name}" in shares:
                unlike = np.isnan(shares[f"post_{name}"])
                shares[f"pre_{name}"] = np.where(unlike, np.nan, shares[f"pre_{name}"])
        return column_means(shares)

    def tables(
        self, cases: Sequence[Case], columns: Mapping[str, np.ndarray]
    ) -> dict[str, list[dict[str, Any]]]:
        """Return how many tests each axis has, and what became of them."""
        rows = [_row(name, columns) for name, _ in AXES.values() if f"{name} tests" in columns]
        return {"tests by axis; passed of those executed whose edit took": rows} if rows else {}


def _row(name: str, columns: Mapping[str, np.ndarray]) -> dict[str, Any]:
    tests, executed, counted, passed = (
        int(np.nansum(columns.get(f"{name} {kind}", 0.0))) for kind in COUNTS
    )
    return {
        "axis": name,
        "cases": int(np.count_nonzero(~np.isnan(columns[f"{name} tests"]))),
        "tests": tests,
        "executed": executed,
        "passed": f"{passed} of {counted}",
        "%": 100 * passed / counted if counted else None,
    }


def _scores(answers: Sequence[Answer]) -> list[float | None]:
    """Return the score of each answer; None for what is no text, or has no verdict that counts."""
    return [verdict.score if verdict else None for verdict in map(counted, answers)]


def _before(case: Case, scores: Sequence[float | None]) -> dict[str, float]:
    """Return the numbers of tests and of executed ones, and their share."""
    met = [(test, test.executed(scores)) for test in tests_of(case)]
    judged = [(test, executed) for test, executed in met if executed is not None]
    values = _counts("tests", [(test, True) for test, _ in judged]) | _counts("executed", judged)
    if judged:
        values["pre_Executed"] = sum(executed for _, executed in judged) / len(judged)
    return values


def _unedited(case: Case, scores: Sequence[float | None]) -> dict[str, float]:
    executed = [test for test in tests_of(case) if test.executed(scores)]
    return _shares("pre", [(test, test.passed(scores)) for test in executed])


def _after(
    case: Case, before: Sequence[float | None], after: Sequence[float | None]
) -> dict[str, float]:
    """Return the shares of an edit that took, of the same tests before it, and their numbers."""
    executed = [test for test in tests_of(case) if test.executed(before)]
    results = [(test, test.passed(after)) for test in executed]
    judged = [(test, passed) for test, passed in results if passed is not None]
    values = _counts("counted", [(test, True) for test, _ in judged]) | _counts("passed", judged)
    values |= _shares("pre", [(test, test.passed(before)) for test, _ in judged])
    return values | _shares("post", judged)


def _shares(when: str, results: Iterable[tuple[Test, bool | None]]) -> dict[str, float]:
    return means((f"{when}_{t.name}", passed) for t, passed in results if passed is not None)


def _counts(kind: str, tests: Iterable[tuple[Test, bool]]) -> dict[str, float]:
    found = grouped((f"{test.name} {kind}", counts) for test, counts in tests)
    return {name: float(sum(each)) for name, each in found.items()}
