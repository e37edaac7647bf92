"""What tests of several rooms compare with: Hall's interval in its own form, all log-probabilities of answers."""

import itertools
import math

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
