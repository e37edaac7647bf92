"""GE and RS: whether edited models write text or repeat themselves, and whether it is like others'.

GE, the entropy of n-grams, and RS, the TF-IDF cosine with reference texts, are from Meng et al. (2022). The
published code takes the mean of the two terms of MEMIT's Eq. 27, half of their sum: we call that GE, and give
both. Words are split by our own Treebank rules, which part the full stop of "Mr." from it; nltk's trained
Punkt does not. The task says which references a case has. No essence score, which needs the edited model.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import ClassVar

from edit_harness import Answer, Case, Generate, Measure, Metric, Text
from edit_harness_plugins.citations import ENTROPY, MEMIT, ROME
from edit_harness_plugins.texts import digest, find

from .treebank import tokens

ROLE = "generation"


def written(case: Case, answers: Sequence[Answer]) -> list[str]:
    """Return the texts of a case, each with its prompt in front, cleaned as in ROME's code.

    That is NFKD, and a space for an empty line.
    """
    return [
        unicodedata.normalize("NFKD", probe.query.prompt + answer.text).replace("\n\n", " ")
        for probe, answer in zip(case.probes, answers, strict=True)
        if probe.role == ROLE and isinstance(probe.query, Generate) and isinstance(answer, Text)
    ]


class Fluency(Metric):
    """Entropy of the bigrams and trigrams of a case's texts, the mean over the texts.

    A failed edit has none.
    """

    citation = f"{ROME}. {MEMIT}. {ENTROPY}"
    measures: ClassVar[Mapping[str, Measure]] = {
        "GE": Measure(
            "mean of H2/3 + 2 H3/3, as published", "higher", "0.01 bits",
            source="the code of Meng et al. (2022, 2023): half of the equation; words by rules of "
            "our own, the code's by nltk",
            probes=(ROLE,),
        ),
        "GE-equation": Measure(
            "mean of 2 H2/3 + 4 H3/3, MEMIT's Eq. 27", "higher", "0.01 bits", detail=True,
            source="Meng et al. (2023), Eq. 27; no published number is of it", probes=(ROLE,),
        ),
    }  # fmt: skip

    def measure(
        self, case: Case, before: Sequence[Answer], after: Sequence[Answer]
    ) -> dict[str, float]:
        """Return the mean entropies in bits, before and after the edit."""
        values: dict[str, float] = {}
        for when, answers in (("pre", before), ("post", after)):
            if texts := written(case, answers):
                mean = fmean(entropy(tokens(text)) for text in texts)
                values |= {f"{when}_GE": mean, f"{when}_GE-equation": 2 * mean}
        return values


def entropy(words: Sequence[str]) -> float:
    """Return H2/3 + 2 H3/3 of a text in bits; an order without n-grams has 0."""
    pairs = Counter(pairwise(words))
    triples = Counter(zip(words, words[1:], words[2:], strict=False))
    return bits(pairs.values()) / 3 + 2 * bits(triples.values()) / 3


def bits(counts: Collection[int]) -> float:
    """Return the entropy in bits of what was counted so many times each, 0 if nothing was."""
    total = sum(counts)
    return math.fsum(n / total * math.log2(total / n) for n in counts)


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
    }  # fmt: skip

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
