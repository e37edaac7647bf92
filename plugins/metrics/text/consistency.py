"""RS: how like are the edited model's texts to those on subjects that have the new object.

From Meng et al. (2022): the cosine of the TF-IDF vectors of all texts of a case, joined, and of all
reference texts of its relation and new object, joined. Which references those are is the task's
affair; it puts their name into the case. Published numbers are of the authors' references only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from edit_harness import Answer, Case, Measure, Metric
from edit_harness_plugins._texts.references import digest, find

from ..sources import ROME
from .texts import ROLE, written


class Consistency(Metric):
    """Likeness of a case's texts to the references of its new object; a failed edit has none.

    Raises `DataError` if the references are no longer in the cache.
    """

    citation = ROME
    measures: ClassVar[Mapping[str, Measure]] = {
        "RS": Measure(
            "cosine of TF-IDF, texts and references of the new object",
            source="Meng et al. (2022), section 3.4, by the code: all texts of a case joined "
            "against all references joined",
            probes=(ROLE,),
        )
    }

    def provenance(self, cases: Sequence[Case]) -> dict[str, str]:
        """Digests of the reference texts, as they are in the cache."""
        names = {case.tags["library"] for case in cases if case.tags.get("library")}
        return {name: digest(name) for name in sorted(names)}

    def measure(
        self, case: Case, before: Sequence[Answer], after: Sequence[Answer]
    ) -> dict[str, float]:
        """Return the likeness in [0, 1] before and after the edit."""
        if not (name := case.tags.get("library")):
            return {}
        library, topic = find(name), case.tags["topic"]
        told = {"pre_RS": written(case, before), "post_RS": written(case, after)}
        return {
            number: library.likeness(topic, " ".join(texts))
            for number, texts in told.items()
            if texts and topic in library.topics
        }
