"""Which tokens would the model have said? Share of an answer's tokens that are right, or unchanged.

The accuracy of the zsRE tables of ROME, MEMIT, MEND and EasyEdit, and EasyEdit's locality. Every
token of an answer is predicted from the prompt and the right tokens before it (teacher forcing),
so an answer can be half right here and fail as a whole, which is what `Accuracy` counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import ClassVar

from edit_harness import Answer, Case, Measure, Metric, Scores

from .preference import COMBINED, Combined, measures_of, right_object
from .sources import EASYEDIT, MEMIT

NEIGHBORHOOD = "neighborhood"

_shares = measures_of(
    "T",
    ("share of the new object's tokens that are argmax",
     "share of the true object's tokens that are argmax"),
    "Meng et al. (2023), Eq. 21-23, which ask for whole objects; the code, and we, count tokens",
)  # fmt: skip


def agreement(expected: Sequence[int], said: Sequence[int]) -> float:
    """Return the share of places with the same token, in [0, 1]; a place without one differs."""
    same = sum(one == other for one, other in zip(expected, said, strict=False))
    return same / max(len(expected), len(said))


class TokenAccuracy(Combined):
    """The share of the right answer's tokens that are the likeliest in their place.

    ET, PT and NT are what tables on zsRE call efficacy, paraphrase and specificity, and ST is
    their S. The published equations ask for whole answers, the published code for tokens.
    """

    letter = "T"
    combined = "ST"
    citation = MEMIT
    compares = False
    measures: ClassVar[Mapping[str, Measure]] = {
        **{name: measure for name, measure in _shares.items() if name != "AT"},
        "NT": replace(_shares["NT"], known=True),
        "ST": Measure(
            "harmonic mean of ET, PT and NT",
            source="the zsRE tables of Meng et al. (2023); it is in ROME's code, and commented out "
            "in MEMIT's",
            probes=COMBINED,
        ),
        "AT": _shares["AT"],
    }  # fmt: skip

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
