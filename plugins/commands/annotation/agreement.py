"""How far annotators agree: observed agreement and chance-corrected coefficients.

Pure functions of nominal labels: two labels are the same or they are not, and none is nearer to another.
What the labels are about, and where they come from, is not known here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import fmean

Labels = Mapping[str, Hashable]
"""What annotators, by name, say of one item; who did not label it is left out."""
NAN = math.nan


@dataclass(frozen=True)
class Pair:
    """How far two annotators agree on the items that both labelled."""

    n: int
    observed: float
    cohen: float


@dataclass(frozen=True)
class Agreement:
    """How far several annotators agree; NaN where it cannot be said."""

    n: int
    """Items that all of them labelled; ``unanimous`` and ``fleiss`` are of these."""
    labels: int
    """Labels of all items."""
    pairwise: float
    """Mean over pairs of annotators of their observed agreement, in [0, 1]."""
    unanimous: float
    """Share of items on which all agree, in [0, 1]."""
    cohen: float
    """Mean of Cohen's kappa over the pairs of annotators that have one."""
    fleiss: float
    pairs: Mapping[tuple[str, str], Pair] = field(default_factory=dict)


def agreement(items: Sequence[Labels], annotators: Sequence[str]) -> Agreement:
    """Return how far annotators agree; with fewer than two there is nothing but counts."""
    whole = [
        [labels[name] for name in annotators] for labels in items if labels.keys() >= {*annotators}
    ]
    pairs = {two: pair(items, *two) for two in combinations(annotators, 2)}
    return Agreement(
        n=len(whole),
        labels=sum(len(labels) for labels in items),
        pairwise=mean([found.observed for found in pairs.values()]),
        unanimous=unanimous(whole),
        cohen=mean([found.cohen for found in pairs.values()]),
        fleiss=fleiss(whole),
        pairs=pairs,
    )


def pair(items: Sequence[Labels], one: str, other: str) -> Pair:
    """Return how far two annotators agree."""
    both = [labels for labels in items if one in labels and other in labels]
    first, second = ([labels[name] for labels in both] for name in (one, other))
    return Pair(len(both), observed(first, second), cohen(first, second))


def observed(first: Sequence[Hashable], second: Sequence[Hashable]) -> float:
    """Return the share of items with equal labels; NaN if there are no items."""
    return mean([float(a == b) for a, b in zip(first, second, strict=True)])


def unanimous(items: Sequence[Sequence[Hashable]]) -> float:
    """Return the share of items whose labels are all the same; NaN without two annotators."""
    return mean([float(len(set(labels)) == 1) for labels in items if len(labels) > 1])


def cohen(first: Sequence[Hashable], second: Sequence[Hashable]) -> float:
    """Return Cohen's kappa of two annotators' labels of the same items, in [-1, 1].

    (p_o - p_e) / (1 - p_e): the observed agreement p_o beyond that of independent annotators with
    the same frequencies of labels, p_e (Cohen 1960). NaN where both give one and the same label
    throughout, or there are no items: agreement is then certain, and kappa 0/0.
    """
    n = len(first)
    same = sum(a == b for a, b in zip(first, second, strict=True))
    other = Counter(second)
    chance = sum(count * other[label] for label, count in Counter(first).items())
    # In whole numbers, with both shares times n²: that 1 - p_e is 0 is then no matter of rounding.
    return _quotient(n * same - chance, n * n - chance)


def fleiss(items: Sequence[Sequence[Hashable]]) -> float:
    """Return Fleiss' kappa of items with equally many labels each, in [-1, 1].

    As Cohen's, but chance has one distribution of labels for all annotators (Fleiss 1971, so that for
    two it is Scott's pi, and not the mean of Cohen's). NaN where all labels are the same, where there
    are no items, or fewer than two labels of each. Raises `ValueError` for unequal numbers of labels.
    """
    if len(sizes := {len(labels) for labels in items}) > 1:
        raise ValueError(f"items have different numbers of labels: {sorted(sizes)}")
    each = max(sizes, default=0)
    total = len(items) * each
    equal = sum(n * (n - 1) for labels in items for n in Counter(labels).values())
    pairs = total * (each - 1)
    chance = sum(n * n for n in Counter(label for labels in items for label in labels).values())
    return _quotient(equal * total**2 - pairs * chance, pairs * (total**2 - chance))


def majority(labels: Sequence[Hashable]) -> Hashable | None:
    """Return the label that more than half of the annotators give; None if there is none."""
    for label, count in Counter(labels).most_common(1):
        if 2 * count > len(labels):
            return label
    return None


def mean(values: Sequence[float]) -> float:
    """Return the mean of the values that are numbers; NaN if none is."""
    present = [value for value in values if not math.isnan(value)]
    return fmean(present) if present else NAN


def _quotient(above: int, below: int) -> float:
    return above / below if below else NAN
