"""Does an edit of a property make a model forget another of the same subject? CP of Seesaw-CF.

From Halevy et al. (2024): the likeliest of a property's candidates should be true of the subject. The published
numbers are by another convention, a measure of its own here: by it "female" is right where "male" is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import ClassVar

import numpy as np

from edit_harness import Answer, Case, Choose, Measure, Metric, Probe, Scores, join
from edit_harness.stats import column_means
from edit_harness_plugins.citations import SEESAW
from edit_harness_plugins.significance import mcnemar, two_sample

from ..answers import means
from .groups import Columns, Row, Tables, by_tag, corrected, present

ROLE = "cross-property"
PAPER = "Halevy et al. (2024), cross-property"
CHANCE = "chance"
"""The column of what guessing yields."""


class CrossProperty(Metric):
    """Is the likeliest candidate one that is true of the subject? A tie is wrong.

    Cases of which no true value is known have no number; a failed edit counts as wrong.
    """

    citation = SEESAW
    measures: ClassVar[Mapping[str, Measure]] = {
        "CP": Measure(
            "share of cases whose likeliest candidate, by the sum of log-probabilities, is true",
            source=f"{PAPER}; ours is that a candidate is the whole of a true label",
            probes=(ROLE,), known=True,
        ),
        "CP-norm": Measure(
            "the same by the mean of log-probabilities, since labels differ in length",
            source="ours, beside that of Halevy et al. (2024)", probes=(ROLE,),
        ),
        "CP-published": Measure(
            "share of cases where a true label occurs in the prompt with the likeliest candidate",
            detail=True, source=f"{PAPER}, by the code, where any part of the text will do",
            probes=(ROLE,),
        ),
    }  # fmt: skip

    def measure(
        self, case: Case, before: Sequence[Answer], after: Sequence[Answer]
    ) -> dict[str, float]:
        """Return the shares of right choices before and after, and what guessing would yield."""
        return _shares("pre", case, before) | _shares("post", case, after)

    def failed(self, case: Case, before: Sequence[Answer]) -> dict[str, float]:
        """Count a failed edit as wrong choices."""
        wrong = {f"post_{name}": 0.0 for name in self.measures if any(map(_golds, case.probes))}
        return (_shares("pre", case, before) if before else {}) | wrong

    def summarize(self, columns: Columns) -> dict[str, float]:
        """Return the means over cases."""
        return column_means({name: each for name, each in columns.items() if name != CHANCE})

    def tables(self, cases: Sequence[Case], columns: Columns) -> Tables:
        """Return both accuracies of each pair of edited and asked properties, and the tests."""
        pairs = by_tag(cases, columns, "edited", "effect")
        cells = {pair: own for pair, own in pairs.items() if len(_both(own, "CP")[0])}
        found = {
            "CP by pair": _listed(cells, "CP"),
            "tests of CP by pair": _tests(cells),
            "CP-published by pair": _listed(cells, "CP-published"),
        }
        return {title: rows for title, rows in found.items() if rows}


def _shares(when: str, case: Case, answers: Sequence[Answer]) -> dict[str, float]:
    """Return the shares of a case's prompts that are answered rightly; before, also of guesses."""
    return means(
        (CHANCE if name == CHANCE else f"{when}_{name}", share)
        for probe, answer in zip(case.probes, answers, strict=True)
        if (golds := _golds(probe)) and isinstance(answer, Scores)
        for name, share in _right(probe, answer, golds).items()
        if name != CHANCE or when == "pre"
    )


def _golds(probe: Probe) -> list[str]:
    """Return the labels that are true of the subject; none if the probe is not for us."""
    if probe.role != ROLE or not isinstance(probe.query, Choose):
        return []
    return [label for label in probe.tags.get("gold", "").split("|") if label]


def _right(probe: Probe, answer: Scores, golds: Sequence[str]) -> dict[str, float]:
    query = probe.query
    assert isinstance(query, Choose)
    sums = [math.fsum(each) for each in answer.logprobs]
    likeliest = _best(query.candidates, sums)
    by_mean = _best(query.candidates, [-answer.nll(i) for i in range(len(sums))])
    whole = join(query.prompt, likeliest) if likeliest else ""
    candidates = set(query.candidates)
    return {
        "CP": float(likeliest in golds),
        "CP-norm": float(by_mean in golds),
        "CP-published": float(any(label in whole for label in golds)),
        CHANCE: len(candidates & set(golds)) / len(candidates),
    }


def _best(candidates: Sequence[str], scores: Sequence[float]) -> str | None:
    """Return the candidate with the highest score; None for a tie or for scores without an order."""
    best = max(scores)
    if any(map(math.isnan, scores)) or scores.count(best) > 1:
        return None
    return candidates[scores.index(best)]


Cells = Mapping[tuple[str, ...], Columns]
"""The columns of the cases that edit one property and ask for another."""


def _both(columns: Columns, name: str) -> list[np.ndarray]:
    return present(columns, f"pre_{name}", f"post_{name}")


def _listed(cells: Cells, name: str) -> list[Row]:
    """Return a measure of each pair beside what guessing yields, and the plain mean of the rows.

    The paper's Table 5 divides the sum of 7 rows by 8, for a pair that it does not show.
    """
    rows: list[Row] = []
    for (edited, asked), own in cells.items():
        before, after = (float(side.mean()) for side in _both(own, name))
        told = {"edited": edited, "asked": asked, "cases": len(_both(own, "CP")[0])}
        told |= {"chance": float(np.nanmean(own[CHANCE])), "before": before, "after": after}
        rows.append(told | {"change": after - before})
    if len(rows) < 2:
        return rows
    mean = {what: fmean(row[what] for row in rows) for what in list(rows[0])[3:]}
    return [*rows, {"edited": "mean of rows", "asked": "", "cases": None, **mean}]


def _tests(cells: Cells) -> list[Row]:
    """Return McNemar's test of each pair, and the test for two samples that the paper prints."""
    tests = {pair: mcnemar(*_both(own, "CP")) for pair, own in cells.items()}
    adjusted = corrected(tests)
    rows: list[Row] = []
    for pair, test in tests.items():
        unpaired = two_sample(*_both(cells[pair], "CP"))
        rows.append(
            {"edited": pair[0], "asked": pair[1], "lost": test.lost, "gained": test.gained,
             "p": test.p, "p BH": adjusted[pair],
             "t unpaired": unpaired.t, "p unpaired": unpaired.p}
        )  # fmt: skip
    return rows
