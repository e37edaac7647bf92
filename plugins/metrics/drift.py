"""How far an edit moves the next-token distribution on neighbouring subjects.

From Hoelscher-Obermaier et al. (2023), whose Eq. 1 is KL(P || P*), P before the edit and P* after it; its
published numbers are KL(P* || P) divided by the size of the vocabulary, by its code. All are given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

from edit_harness import Answer, Case, Divergence, Measure, Metric
from edit_harness_plugins.citations import COUNTERFACT_PLUS

from .answers import means

SUFFIXES = {"neighborhood": "", "neighborhood-plus": "+"}
PLUS = ", edited fact in front"
KINDS = {
    "": ("KL(P || P*)", "Eq. 1; the published numbers are NKL-paper"),
    "-reverse": ("KL(P* || P)", "the direction that the code computes, as a sum"),
    "-paper": (
        "KL(P* || P) / vocabulary",
        "as published: the code swaps the arguments of Eq. 1 and divides by the vocabulary",
    ),
}
"""What follows the name of a number: its formula, and what of the paper it is."""


class NeighborhoodKL(Metric):
    """Divergence of next-token distributions, the mean over the neighbourhood prompts, in nats.

    There is no ``pre_`` value, which would be 0, and none for a failed edit.
    """

    citation = COUNTERFACT_PLUS
    measures: ClassVar[Mapping[str, Measure]] = {
        f"NKL{plus}{kind}": Measure(
            f"mean of {formula}{PLUS if plus else ''}", "lower", "nats", detail=kind != "",
            source=f"Hoelscher-Obermaier et al. (2023), {source}", probes=(role,),
        )
        for kind, (formula, source) in KINDS.items()
        for role, plus in SUFFIXES.items()
    }  # fmt: skip

    def measure(
        self, case: Case, before: Sequence[Answer], after: Sequence[Answer]
    ) -> dict[str, float]:
        """Return the mean divergences, with ``+`` behind the edited fact."""
        found = means(
            (f"post_NKL{SUFFIXES[probe.role]}{kind}", value)
            for probe, answer in zip(case.probes, after, strict=True)
            if probe.role in SUFFIXES and isinstance(answer, Divergence)
            for kind, value in {
                "": answer.forward,
                "-reverse": answer.reverse,
                "-paper": answer.reverse / answer.vocabulary,
            }.items()
        )
        return {name: mean for name, mean in found.items() if not math.isnan(mean)}
