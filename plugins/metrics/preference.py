"""Which object does the model prefer? Success, magnitude and accuracy on pairs of objects.

From Meng et al. (2022), section 3.4, and, for NS+ and NM+, Hoelscher-Obermaier et al. (2023).
Every probe offers the new and the true object. The edited fact should be followed by the new one
where it is asked for, and by the true one where another subject is. A number is the mean over the
prompts of a case, then over cases; the likelihood of an object is the mean over its tokens.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from edit_harness import Answer, Case, Choose, Measure, Metric, Probe, Scores
from edit_harness.stats import harmonic_mean

if TYPE_CHECKING:
    import numpy as np

NEW, TRUE = 0, 1


class Role(NamedTuple):
    """What the probes of one role are called in a number's name, and what they should prefer."""

    letter: str
    suffix: str
    right: int
    prompts: str


ROLES = {
    "efficacy": Role("E", "", NEW, "the edited prompt"),
    "paraphrase": Role("P", "", NEW, "its paraphrases"),
    "neighborhood": Role("N", "", TRUE, "prompts on neighbouring subjects"),
    "neighborhood-plus": Role("N", "+", TRUE, "the same behind the edited fact"),
    "attribute": Role("A", "", NEW, "prompts on subjects that the new object is true of"),
}


class Preference(Metric):
    """The mean of some score of the right object over the prompts of each role."""

    letter: ClassVar[str]
    failure: ClassVar[float | None] = 0.0
    """What every prompt counts when the edit failed; None for not at all."""

    @abstractmethod
    def score(self, answer: Scores, right: int) -> float:
        """Return the score of one answer, given which of the two objects is right."""

    def measure(
        self, case: Case, before: Sequence[Answer], after: Sequence[Answer]
    ) -> dict[str, float]:
        """Return the mean score of each role, before and after the edit."""
        return self._means("pre", case, before) | self._means("post", case, after)

    def failed(self, case: Case, before: Sequence[Answer]) -> dict[str, float]:
        """Count a failed edit as a failure everywhere, in the neighbourhood too."""
        values = self._means("pre", case, before) if before else {}
        if self.failure is not None:
            for probe in case.probes:
                if _concerns(probe):
                    values[self._name("post", ROLES[probe.role])] = self.failure
        return values

    def _means(self, when: str, case: Case, answers: Sequence[Answer]) -> dict[str, float]:
        scores: dict[str, list[float]] = {}
        for role, answer in _answered(case, answers):
            scores.setdefault(self._name(when, role), []).append(self.score(answer, role.right))
        means = {name: fmean(values) for name, values in scores.items()}
        return {name: mean for name, mean in means.items() if not math.isnan(mean)}

    def _name(self, when: str, role: Role) -> str:
        return f"{when}_{role.letter}{self.letter}{role.suffix}"


def _concerns(probe: Probe) -> bool:
    """Tell whether a probe offers two objects in a role that we know."""
    query = probe.query
    return probe.role in ROLES and isinstance(query, Choose) and len(query.candidates) == 2


def _answered(case: Case, answers: Sequence[Answer]) -> Iterator[tuple[Role, Scores]]:
    for probe, answer in zip(case.probes, answers, strict=True):
        if _concerns(probe) and isinstance(answer, Scores):
            yield ROLES[probe.role], answer


def _measures(
    letter: str, formulas: tuple[str, str], *, detail: bool = False
) -> dict[str, Measure]:
    """Return what stands in tables, given the formula where each of the objects is right."""
    return {
        f"{role.letter}{letter}{role.suffix}": Measure(
            f"{formulas[role.right]}, {role.prompts}", detail=detail or role.letter == "A"
        )
        for role in ROLES.values()
    }


_success = _measures("S", ("mean of [nll(true) > nll(new)]", "mean of [nll(new) > nll(true)]"))


class Success(Preference):
    """Is the right object likelier than the other? A tie is a failure.

    S is the harmonic mean of ES, PS and NS over all cases, not the mean of a score per case.
    """

    letter = "S"
    parts: ClassVar[Sequence[str]] = ("ES", "PS", "NS")
    measures: ClassVar[Mapping[str, Measure]] = {
        **{name: measure for name, measure in _success.items() if name != "AS"},
        "S": Measure("harmonic mean of ES, PS and NS"),
        "AS": _success["AS"],
    }

    def score(self, answer: Scores, right: int) -> float:
        """Return 1 if the right object is the likelier, else 0."""
        return float(answer.nll(1 - right) > answer.nll(right))

    def summarize(self, columns: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Return the mean of each column, and S where all its parts are there."""
        means = super().summarize(columns)
        for when in ("pre", "post"):
            parts = [f"{when}_{name}" for name in self.parts]
            if all(name in means for name in parts):
                means[f"{when}_S"] = harmonic_mean([means[name] for name in parts])
        return means


class Magnitude(Preference):
    """By how much is the right object likelier? In [-1, 1], without the edits that failed."""

    letter = "M"
    failure = None
    measures = _measures("M", ("mean of p(new) - p(true)", "mean of p(true) - p(new)"))

    def score(self, answer: Scores, right: int) -> float:
        """Return the difference of the two probabilities, each exp(-mean nll)."""
        return answer.prob(right) - answer.prob(1 - right)


class Accuracy(Preference):
    """Is every token of the right object the likeliest in its place? Under teacher forcing."""

    letter = "A"
    measures = _measures("A", ("new object is argmax", "true object is argmax"), detail=True)

    def score(self, answer: Scores, right: int) -> float:
        """Return 1 if every token of the right object is the likeliest in its place, else 0."""
        return float(answer.exact(right))
