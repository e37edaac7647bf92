"""GE: does the edited model write text, or repeat itself? The entropy of n-grams of words.

From Meng et al. (2022), after Zhang et al. (2018). MEMIT's Eq. 27 sums 2/3 of the entropy of
bigrams and 4/3 of that of trigrams; the published code takes the mean of the two terms, and so are
the published numbers: half of the equation. We call the published one GE, and give both. A text is
taken with its prompt. Entropies are in bits, and shown times 100, as in the papers.

Words are split by our own Treebank rules (`edit_harness_plugins.metrics.text.treebank`), which need no
trained list of abbreviations: where nltk's trained Punkt leaves the full stop of "Mr." on the word,
they part it. No essence score, which needs the edited model.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import ClassVar

from edit_harness import Answer, Case, Measure, Metric

from ..sources import ENTROPY, MEMIT, ROME
from .texts import ROLE, written
from .treebank import tokens


class Fluency(Metric):
    """Entropy of the bigrams and trigrams of a case's texts, the mean over the texts.

    A failed edit has none.
    """

    citation = f"{ROME}. {MEMIT}. {ENTROPY}"
    measures: ClassVar[Mapping[str, Measure]] = {
        "GE": Measure(
            "mean of H2/3 + 2 H3/3, as published",
            "higher",
            "0.01 bits",
            source="the code of Meng et al. (2022, 2023): half of the equation; words by rules of "
            "our own, the code's by nltk",
            probes=(ROLE,),
        ),
        "GE-equation": Measure(
            "mean of 2 H2/3 + 4 H3/3, MEMIT's Eq. 27",
            "higher",
            "0.01 bits",
            detail=True,
            source="Meng et al. (2023), Eq. 27; no published number is of it",
            probes=(ROLE,),
        ),
    }

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
