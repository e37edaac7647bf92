"""TF-IDF against the formula written out, word by word.

The limits of 1e-12 are for sums of floats in another order.
"""

import math
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edit_harness_plugins.texts import Weights, cosine, words

POOL = ["ada", "Ada", "rome", "a", "Ünal", "in-law", "x1", "_b", "日本", ".", "the", "THE", "’s"]
TEXTS = st.lists(st.lists(st.sampled_from(POOL), max_size=12).map(" ".join), max_size=6)


def naive(fitted, one, other):
    """Return the cosine of two texts by the formula of scikit-learn's documentation."""

    def split(text):
        return re.findall(r"(?u)\b\w\w+\b", text.lower())

    known = {word for text in fitted for word in split(text)}
    idf = {
        word: math.log((1 + len(fitted)) / (1 + sum(word in split(t) for t in fitted))) + 1
        for word in known
    }

    def vector(text):
        return {word: n * idf[word] for word, n in Counter(split(text)).items() if word in known}

    a, b = vector(one), vector(other)
    norm = math.sqrt(sum(x * x for x in a.values()) * sum(x * x for x in b.values()))
    return sum(a[word] * b.get(word, 0) for word in a) / norm if norm else 0.0


@given(TEXTS, TEXTS)
def test_a_cosine_is_the_naive_formula(fitted, asked):
    weights = Weights.fitted(fitted)
    rows = weights.vectors(weights.counts(asked))
    for i, one in enumerate(asked):
        for j, other in enumerate(asked):
            expected = naive(fitted, one, other)
            assert cosine(rows[[i]], rows[[j]]) == pytest.approx(expected, abs=1e-12)


def test_words_have_two_characters_and_lower_case():
    assert words("A b2, Ünal's _c x-ray: THE") == ["b2", "ünal", "_c", "ray", "the"]


def test_counts_are_raw_and_of_known_words():
    weights = Weights.fitted(["two one", "one"])
    assert weights.columns == {"one": 0, "two": 1}
    assert weights.idf == pytest.approx([1, math.log(3 / 2) + 1])
    assert weights.counts(["one ONE two three", ""]).toarray().tolist() == [[2, 1], [0, 0]]


def test_rows_have_unit_length_or_no_word():
    weights = Weights.fitted(["ada rome in"])
    rows = weights.vectors(weights.counts(["Ada Ada in", "", "zebra", "Rome", "ada rome"]))
    assert np.linalg.norm(rows.toarray(), axis=1) == pytest.approx([1, 0, 0, 1, 1])
    # Of counts (1, 1) and (0, 1), where both words weigh the same.
    assert cosine(rows[[4]], rows[[3]]) == pytest.approx(math.sqrt(0.5))
    assert Weights.fitted(["", "a"]).counts(["a"]).shape == (1, 0)
    assert weights.counts([]).shape == (0, 3)
