"""What people said of texts, in numbers: how far they agree, mean scores, how often a judge says the same.

Labels are nominal, and come in un-blinded, by item, annotator and column.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any, TypeAlias

from edit_harness.files import finite
from edit_harness_plugins.significance import one_sample

from .blinded import SAYS_NEW, YES, Item, counted, score

Rows: TypeAlias = list[dict[str, Any]]


@dataclass(frozen=True)
class Opinion:
    """What people said of one item."""

    item: Item
    labels: Mapping[str, Mapping[str, str]]
    """By annotator, then by column: answers that need no key, see `Item.plain`."""

    def counted(self, column: str) -> dict[str, str]:
        """Return what each annotator said in a column, as it is counted."""
        said = self.labels.items()
        return {name: counted(column, own[column]) for name, own in said if column in own}


def compared(
    opinions: Sequence[Opinion], columns: Sequence[str], names: Sequence[str]
) -> dict[str, Any]:
    """Return all of this module's tables, JSON-ready, and who and how many items they are of."""
    return dict(finite({
        "annotators": names,
        "items": len(opinions),
        "agreement": agreements(opinions, columns, names),
        "means": means(opinions, columns),
        "means_seen": means(seen(opinions), columns),
        "judge": accuracy(opinions, columns),
    }))  # fmt: skip


def agreements(
    opinions: Sequence[Opinion], columns: Sequence[str], names: Sequence[str]
) -> list[dict[str, Any]]:
    """Return how far annotators agree in each column.

    "Pairwise" is the mean over pairs of annotators of the share of items on which they agree, "All" the
    share on which all do, "Cohen" the mean kappa of the pairs that have one. One annotator has no rows.
    """
    rows: Rows = []
    for column in columns if len(names) > 1 else ():
        labels = [said for opinion in opinions if (said := opinion.counted(column))]
        given = [label for said in labels for label in said.values()]
        pairs = [
            [(said[one], said[other]) for said in labels if {one, other} <= said.keys()]
            for one, other in combinations(names, 2)
        ]
        whole = [[said[name] for name in names] for said in labels if said.keys() >= {*names}]
        several = [float(len(set(said)) == 1) for said in whole if len(said) > 1]
        graded = any(score(label) is not None for label in given)
        rows.append(
            {
                "Asked": column, "Items": len(whole), "Labels": len(given),
                "Yes": None if graded else mean([float(label == YES) for label in given]),
                "Pairwise": mean([mean([float(a == b) for a, b in both]) for both in pairs]),
                "All": mean(several),
                "Cohen": mean([cohen(both) for both in pairs]), "Fleiss": fleiss(whole),
            }
        )  # fmt: skip
    return rows


def cohen(labels: Sequence[tuple[Hashable, Hashable]]) -> float:
    """Return Cohen's kappa of two annotators' labels of the same items, in [-1, 1].

    (p_o - p_e) / (1 - p_e): the observed agreement beyond that of independent annotators with the same
    frequencies of labels (Cohen 1960). NaN where both give one and the same label throughout.
    """
    n = len(labels)
    same = sum(a == b for a, b in labels)
    first, second = (Counter(pair[side] for pair in labels) for side in (0, 1))
    chance = sum(count * second[label] for label, count in first.items())
    # In whole numbers, with both shares times n²: that 1 - p_e is 0 is then no matter of rounding.
    return _quotient(n * same - chance, n * n - chance)


def fleiss(items: Sequence[Sequence[Hashable]]) -> float:
    """Return Fleiss' kappa of items with equally many labels each, in [-1, 1].

    As Cohen's, but chance has one distribution of labels for all annotators (Fleiss 1971). NaN where
    all labels are the same, where there are no items, or fewer than two labels of each.
    """
    each = len(items[0]) if items else 0
    total = len(items) * each
    equal = sum(n * (n - 1) for labels in items for n in Counter(labels).values())
    pairs = total * (each - 1)
    chance = sum(n * n for n in Counter(label for labels in items for label in labels).values())
    return _quotient(equal * total**2 - pairs * chance, pairs * (total**2 - chance))


def _quotient(above: int, below: int) -> float:
    return above / below if below else math.nan


def mean(values: Sequence[float]) -> float:
    """Return the mean of the values that are numbers; NaN if none is."""
    present = [value for value in values if not math.isnan(value)]
    return fmean(present) if present else math.nan


def means(opinions: Sequence[Opinion], columns: Sequence[str]) -> Rows:
    """Return the mean score in [-1, 1] of each column by edited property, with t-tests against 0.

    "Labels" are all annotators' labels of all items, as in the published human study; they are not
    independent, since annotators label the same items. "Pairs" are the items' own means.
    """
    rows: Rows = []
    for edited in sorted({opinion.item.edited for opinion in opinions}):
        own = [opinion for opinion in opinions if opinion.item.edited == edited]
        for column in columns:
            said = [map(score, opinion.counted(column).values()) for opinion in own]
            found = [[number for number in numbers if number is not None] for numbers in said]
            scores = [each for each in found if each]
            if not scores:
                continue
            every = [number for each in scores for number in each]
            # The items' means times what makes them whole: t does not depend on it, and thirds would
            # not add up to 0 where they should.
            factor = math.lcm(*map(len, scores))
            whole = [sum(each) * (factor // len(each)) for each in scores]
            labels, pairs = one_sample(every), one_sample(whole)
            rows.append(
                {"Edited": edited, "Aspect": column, "Mean": fmean(every),
                 "Labels": labels.n, "t": labels.t, "p": labels.p,
                 "Pairs": pairs.n, "t (pairs)": pairs.t, "p (pairs)": pairs.p}
            )  # fmt: skip
    return rows


def seen(opinions: Sequence[Opinion]) -> list[Opinion]:
    """Return the opinions on pairs in whose text after the edit everybody sees the new value."""
    return [each for each in opinions if set(each.counted(SAYS_NEW).values()) == {YES}]


def accuracy(opinions: Sequence[Opinion], columns: Sequence[str]) -> Rows:
    """Return how often a judge says what people say, in each column and in all aspects.

    "Any" is the share of items on which at least one annotator says the same, as published;
    "Majority" that on which more than half do, of the items that have a majority.
    """
    heard: dict[str, list[tuple[str, list[str]]]] = {}
    for column in columns:
        said = [(o.item.judged.get(column), list(o.counted(column).values())) for o in opinions]
        if both := [(judge, people) for judge, people in said if judge and people]:
            heard[column] = both
    aspects = [found for column, found in heard.items() if column != SAYS_NEW]
    if len(aspects) > 1:
        heard["all aspects"] = [each for found in aspects for each in found]
    return [{"Asked": name, **_right(found)} for name, found in heard.items()]


def _right(heard: Sequence[tuple[str, list[str]]]) -> dict[str, Any]:
    most = [(judge, *Counter(people).most_common(1)[0], len(people)) for judge, people in heard]
    clear = [float(judge == label) for judge, label, count, of in most if 2 * count > of]
    return {
        "Items": len(heard),
        "Any": mean([float(judge in people) for judge, people in heard]),
        "With a majority": len(clear),
        "Majority": mean(clear),
    }
