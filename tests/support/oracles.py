"""What tests of several rooms compare with: Hall's interval, log-probabilities of answers, cosines of texts."""

import itertools
import math
import re
from collections import Counter

import numpy as np
import torch
from scipy import stats as scipy_stats


def bent(values, value=None, level=0.99):
    """Hall's transformation in its own form, with Student's quantile of O'Neill's degrees of freedom."""
    n, value = len(values), np.mean(values) if value is None else value
    skew, kurtosis = scipy_stats.skew(values), scipy_stats.kurtosis(values, fisher=False)
    freedom = min(n - 1, 2 * n / (kurtosis - (n - 3) / (n - 1)))
    ends = []
    for quantile in scipy_stats.t.ppf([(1 + level) / 2, (1 - level) / 2], freedom):
        if abs(skew) > 1e-9:
            inner = 1 + skew * (quantile / math.sqrt(n) - skew / (6 * n))
            quantile = 3 * math.sqrt(n) / skew * (np.cbrt(inner) - 1)
        ends.append(value - quantile * scipy_stats.sem(values))
    return tuple(ends)


def logprobs(answers) -> torch.Tensor:
    found = []
    for answer in answers:
        if hasattr(answer, "forward"):
            found += [answer.forward, answer.reverse]
        elif hasattr(answer, "tokens"):
            found += itertools.chain(*answer.logprobs)
        else:
            found += answer.logprobs.tolist()
    return torch.tensor(found)


def tf_idf_cosine(fitted, one, other):
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
