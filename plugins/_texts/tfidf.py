"""TF-IDF vectors of texts: which words two texts share, rare words counting more.

As scikit-learn makes them by default: words of at least two characters in lower case, raw counts
times ln((1+n)/(1+df)) + 1, rows of unit length. No stemming, no stop words, no torch.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from scipy.sparse import csr_array


def words(text: str) -> list[str]:
    """Return the words of a text as scikit-learn finds them by default."""
    return re.findall(r"\b\w\w+\b", text.lower())


@dataclass(frozen=True, eq=False)
class Weights:
    """The words that count, and how much."""

    columns: Mapping[str, int]
    """The place of each word."""
    idf: np.ndarray
    """The weight of each place."""

    @classmethod
    def fitted(cls, texts: Sequence[str]) -> Weights:
        """Return the smoothed inverse frequencies of the words of these texts."""
        found = Counter(chain.from_iterable(set(words(text)) for text in texts))
        columns = {word: i for i, word in enumerate(sorted(found))}
        frequency = np.array([found[word] for word in columns])
        return cls(columns, np.log((1 + len(texts)) / (1 + frequency)) + 1)

    def counts(self, texts: Iterable[str]) -> csr_array:
        """Return how often each text has each word, texts by words; unknown words do not count."""
        places, values, ends = [np.empty(0, int)], [np.empty(0)], [0]
        for text in texts:
            known = Counter(self.columns[w] for w in words(text) if w in self.columns)
            places.append(np.fromiter(known.keys(), int, len(known)))
            values.append(np.fromiter(known.values(), float, len(known)))
            ends.append(ends[-1] + len(known))
        parts = (np.concatenate(values), np.concatenate(places), np.array(ends))
        return csr_array(parts, (len(ends) - 1, len(self.columns)))

    def vectors(self, counts: csr_array) -> csr_array:
        """Return counts times weights with rows of unit length; a row without a word stays 0."""
        rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        values = counts.data * self.idf[counts.indices]
        norms = np.sqrt(np.bincount(rows, values**2, minlength=counts.shape[0]))
        return csr_array((values / norms[rows], counts.indices, counts.indptr), counts.shape)


def cosine(one: csr_array, other: csr_array) -> float:
    """Return the cosine of two vectors of unit length, each a row; 0 if either is 0."""
    return float(one.multiply(other).sum())
