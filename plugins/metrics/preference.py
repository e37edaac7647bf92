"""Which object does the model prefer? Success, magnitude and accuracy on pairs of objects.

From Meng et al. (2022), section 3.4, and, for NS+ and NM+, Hoelscher-Obermaier et al. (2023). A number is the
mean over the prompts of a case, then over cases; an object's likelihood is the mean over its tokens. Where a
task knows no second object, as zsRE, a probe offers the right one alone. Under teacher forcing an answer can
be half right for `TokenAccuracy`, that of the zsRE tables, and fails as a whole for `Accuracy`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from edit_harness import Answer, Case, Choose, Measure, Metric, Probe, Scores
from edit_harness.stats import harmonic_mean
from edit_harness_plugins.citations import COUNTERFACT_PLUS, EASYEDIT, MEMIT, ROME

from .answers import Sides, means

if TYPE_CHECKING:
    import numpy as np

NEW, TRUE = 0, 1
NEIGHBORHOOD = "neighborhood"


class Role(NamedTuple):
    """What the probes of one role are called in a number's name, and what they should prefer."""

    letter: str
    suffix: str
    right: int
    prompts: str
    source: str = ""
    """Whose prompts they are, if not those of the score's own paper."""


ROLES = {
    "efficacy": Role("E", "", NEW, "the edited prompt"),
    "paraphrase": Role("P", "", NEW, "its paraphrases"),
    "neighborhood": Role("N", "", TRUE, "prompts on neighbouring subjects"),
    "neighborhood-plus": Role(
        "N", "+", TRUE, "the same behind the edited fact",
        source="; prompts of Hoelscher-Obermaier et al. (2023), section 3",
    ),
    "attribute": Role(
        "A", "", NEW, "prompts on subjects that the new object is true of",
        source="; prompts that ROME's code scores and no paper reports on",
    ),
}  # fmt: skip


class Preference(Sides):
    """The mean of some score of the right object over the prompts of each role."""

    letter: ClassVar[str]
    compares: ClassVar[bool] = True
    """Whether a score needs both objects."""
    failure: ClassVar[float | None] = 0.0
    """What every prompt counts when the edit failed; None for not at all."""

    @abstractmethod
    def score(self, answer: Scores, right: int) -> float:
        """Return the score of one answer, given which of the two objects is right."""

    def read(self, case: Case, answers: Sequence[Answer]) -> dict[str, float]:
        """Return the mean score of each role."""
        found = means(
            (self._name(probe), self.score(answer, right))
            for probe, answer in zip(case.probes, answers, strict=True)
            if (right := self._right(probe)) is not None and isinstance(answer, Scores)
        )
        return {name: mean for name, mean in found.items() if not math.isnan(mean)}

    def wrong(self, case: Case) -> dict[str, float]:
        """Count a failed edit as a failure everywhere, in the neighbourhood too."""
        if self.failure is None:
            return {}
        asked = (probe for probe in case.probes if self._right(probe) is not None)
        return {self._name(probe): self.failure for probe in asked}

    def _right(self, probe: Probe) -> int | None:
        """Return which of the offered objects is right; None if the probe is not for us."""
        if isinstance(probe.query, Choose) and self.compares and len(probe.query.candidates) < 2:
            return None
        return right_object(probe)

    def _name(self, probe: Probe) -> str:
        role = ROLES[probe.role]
        return f"{role.letter}{self.letter}{role.suffix}"


def right_object(probe: Probe) -> int | None:
    """Return which of the offered objects is right; None for a probe of another kind.

    Two objects are the new and the true one, in this order; one alone is the right one.
    """
    if probe.role not in ROLES or not isinstance(probe.query, Choose):
        return None
    return {1: 0, 2: ROLES[probe.role].right}.get(len(probe.query.candidates))


def measures_of(
    letter: str,
    formulas: tuple[str, str],
    source: str,
    *,
    detail: bool = False,
    limits: tuple[float, float] = (0.0, 1.0),
) -> dict[str, Measure]:
    """Return what stands in tables, given the formula where each of the objects is right."""
    return {
        f"{role.letter}{letter}{role.suffix}": Measure(
            f"{formulas[role.right]}, {role.prompts}",
            detail=detail or role.letter == "A",
            range=limits,
            source=source + role.source,
            probes=(name,),
        )
        for name, role in ROLES.items()
    }


COMBINED = ("efficacy", "paraphrase", "neighborhood")
"""The roles whose means are combined into one number."""


def with_mean(
    mean: str, letter: str, formulas: tuple[str, str], source: str, source_of_mean: str
) -> dict[str, Measure]:
    """Return what `measures_of` does, with a harmonic mean before the scores of the attribute."""
    found = measures_of(letter, formulas, source)
    neighbors, attribute = f"N{letter}", found.pop(f"A{letter}")
    formula = f"harmonic mean of E{letter}, P{letter} and {neighbors}"
    return {
        **found,
        neighbors: replace(found[neighbors], known=True),
        mean: Measure(formula, source=source_of_mean, probes=COMBINED),
        f"A{letter}": attribute,
    }


class Combined(Preference):
    """Scores whose means over all cases are combined into one number.

    It is the harmonic mean of efficacy, paraphrase and neighbourhood over all cases, not the mean
    of a number per case.
    """

    combined: ClassVar[str]
    """What the harmonic mean is called."""

    def summarize(self, columns: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Return the mean of each column, and the harmonic mean where all its parts are there."""
        means = super().summarize(columns)
        for when in ("pre", "post"):
            parts = [f"{when}_{role}{self.letter}" for role in "EPN"]
            if all(name in means for name in parts):
                means[f"{when}_{self.combined}"] = harmonic_mean([means[name] for name in parts])
        return means


class Success(Combined):
    """Is the right object likelier than the other? A tie is a failure."""

    letter = "S"
    combined = "S"
    citation = f"{ROME}. {COUNTERFACT_PLUS}"
    measures = with_mean(
        "S", "S",
        ("mean of [nll(true) > nll(new)]", "mean of [nll(new) > nll(true)]"),
        "Meng et al. (2022), section 3.4, for P[o] an object's probability; in the code, and here, "
        "nll is the mean over its tokens",
        "Meng et al. (2022), section 3.4; MEMIT's code takes it of rounded percentages, that of "
        "CounterFact+ of NS+ too",
    )  # fmt: skip

    def score(self, answer: Scores, right: int) -> float:
        """Return 1 if the right object is the likelier, else 0."""
        return float(answer.nll(1 - right) > answer.nll(right))


class Magnitude(Preference):
    """By how much is the right object likelier? In [-1, 1], without the edits that failed."""

    letter = "M"
    failure = None
    citation = f"{ROME}. {COUNTERFACT_PLUS}"
    measures = measures_of(
        "M",
        ("mean of p(new) - p(true)", "mean of p(true) - p(new)"),
        "Meng et al. (2022), section 3.4; in the code, and here, p is the geometric mean over an "
        "object's tokens",
        limits=(-1.0, 1.0),
    )

    def score(self, answer: Scores, right: int) -> float:
        """Return the difference of the two probabilities, each exp(-mean nll)."""
        return answer.prob(right) - answer.prob(1 - right)


class Accuracy(Preference):
    """Is every token of the right object the likeliest in its place? Under teacher forcing."""

    letter = "A"
    compares = False
    citation = f"{MEMIT}. {COUNTERFACT_PLUS}"
    measures = measures_of(
        "A",
        ("new object is argmax", "true object is argmax"),
        "Meng et al. (2023), Eq. 21-23, for zsRE, whose tables count tokens instead: see ET; their "
        "code has it for CounterFact too",
        detail=True,
    )

    def score(self, answer: Scores, right: int) -> float:
        """Return 1 if every token of the right object is the likeliest in its place, else 0."""
        return float(answer.exact(right))


def agreement(expected: Sequence[int], said: Sequence[int]) -> float:
    """Return the share of places with the same token, in [0, 1]; a place without one differs, and none agree."""
    same = sum(one == other for one, other in zip(expected, said, strict=False))
    return same / max(len(expected), len(said)) if expected or said else 1.0


class TokenAccuracy(Combined):
    """The share of the right answer's tokens that are the likeliest in their place.

    ET, PT and NT are what tables on zsRE call efficacy, paraphrase and specificity, and ST is
    their S. The published equations ask for whole answers, the published code for tokens.
    """

    letter = "T"
    combined = "ST"
    citation = MEMIT
    compares = False
    measures = with_mean(
        "ST", "T",
        ("share of the new object's tokens that are argmax",
         "share of the true object's tokens that are argmax"),
        "Meng et al. (2023), Eq. 21-23, which ask for whole objects; the code, and we, count tokens",
        "the zsRE tables of Meng et al. (2023); it is in ROME's code, and commented out in MEMIT's",
    )  # fmt: skip

    def score(self, answer: Scores, right: int) -> float:
        """Return the share of the right answer's tokens that are the likeliest in their place."""
        return agreement(answer.tokens[right], answer.argmax[right])


class Unchanged(Metric):
    """The share of a neighbour's answer for which the likeliest token is that of before the edit.

    Whether it is right is asked by NT. There is no ``pre_`` value, which would be 1.
    """

    citation = EASYEDIT
    measures: ClassVar[Mapping[str, Measure]] = {
        "NU": Measure(
            "share of tokens whose argmax is as before the edit, prompts on neighbouring subjects",
            source="EasyEdit's locality, by its code", probes=(NEIGHBORHOOD,),
        )
    }  # fmt: skip

    def measure(
        self, case: Case, before: Sequence[Answer], after: Sequence[Answer]
    ) -> dict[str, float]:
        """Return the mean share over the neighbourhood prompts."""
        shares = [
            agreement(first.argmax[right], last.argmax[right])
            for right, first, last in zip(_neighbors(case), before, after, strict=True)
            if right is not None and isinstance(first, Scores) and isinstance(last, Scores)
        ]
        return {"post_NU": fmean(shares)} if shares else {}

    def failed(self, case: Case, before: Sequence[Answer]) -> dict[str, float]:
        """Count a failed edit as one that has left nothing as it was."""
        asked = any(right is not None for right in _neighbors(case))
        return {"post_NU": 0.0} if asked else {}


def _neighbors(case: Case) -> list[int | None]:
    """Return for every probe which object is right; None for what is no neighbourhood probe."""
    return [right_object(probe) if probe.role == NEIGHBORHOOD else None for probe in case.probes]
