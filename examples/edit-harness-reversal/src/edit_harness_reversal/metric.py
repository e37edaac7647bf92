"""The metric ``reversal``: the subject that an inverse prompt goes on with.

A probe with the role ``reversed`` offers the edited subject and the one that had the object before.
It is no part of the metric which prompts these are; any task may have such probes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import ClassVar

from edit_harness import Answer, Case, Measure, Metric, Scores

ROLE = "reversed"
SOURCE = (
    "the question is that of Ma et al. (2023); the comparison of two answers under teacher forcing "
    "is that of Meng et al. (2022), section 3.4, put to subjects; nll is the mean over tokens"
)


class Reversed(Metric):
    """Is the edited subject likelier than the former one, and by how much? A tie is a failure."""

    citation = (
        "Ma, Gu, Ling, Liu, Liu: Untying the Reversal Curse via Bidirectional Language Model "
        "Editing. arXiv 2310.10322, 2023"
    )
    measures: ClassVar[Mapping[str, Measure]] = {
        "Rev": Measure(
            "mean of [nll(former subject) > nll(edited subject)], inverse prompts",
            source=SOURCE,
            probes=(ROLE,),
        ),
        "RevM": Measure(
            "mean of nll(former subject) - nll(edited subject), inverse prompts",
            unit="nats",
            range=(-math.inf, math.inf),
            source=SOURCE,
            probes=(ROLE,),
        ),
    }

    def measure(
        self, case: Case, before: Sequence[Answer], after: Sequence[Answer]
    ) -> dict[str, float]:
        """Return share and margin before and after the edit; {} without inverse prompts."""
        return _means("pre", case, before) | _means("post", case, after)

    def failed(self, case: Case, before: Sequence[Answer]) -> dict[str, float]:
        """Count a failed edit as not reversed, and leave it out of the margin."""
        asked = any(probe.role == ROLE for probe in case.probes)
        values = _means("pre", case, before) if before else {}
        return {**values, "post_Rev": 0.0} if asked else values


def _means(when: str, case: Case, answers: Sequence[Answer]) -> dict[str, float]:
    margins = [
        answer.nll(1) - answer.nll(0)
        for probe, answer in zip(case.probes, answers, strict=True)
        if probe.role == ROLE and isinstance(answer, Scores)
    ]
    if not margins:
        return {}
    share = fmean(float(margin > 0) for margin in margins)
    return {f"{when}_Rev": share, f"{when}_RevM": fmean(margins)}
