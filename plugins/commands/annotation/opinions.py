"""What people said of texts, in numbers: agreement, means, and how often a judge says the same.

Labels come in here un-blinded, by item, annotator and column. Where they come from stands in
`edit_harness_plugins.commands.annotation.annotating`, what is asked in `edit_harness_plugins.commands.annotation.blinded`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypeAlias

from edit_harness.significance import one_sample

from .agreement import agreement, majority, mean
from .blinded import SAYS_NEW, YES, Form, Item

Rows: TypeAlias = list[dict[str, Any]]


@dataclass(frozen=True)
class Opinion:
    """What people said of one item."""

    item: Item
    labels: Mapping[str, Mapping[str, str]]
    """By annotator, then by column: answers that need no key, see `Form.plain`."""

    def counted(self, form: Form, column: str) -> dict[str, str]:
        """Return what each annotator said in a column, as it is counted."""
        return {
            name: form.counted(column, said[column])
            for name, said in self.labels.items()
            if column in said
        }


Opinions: TypeAlias = Sequence[Opinion]


def agreements(
    form: Form, opinions: Opinions, columns: Sequence[str], names: Sequence[str]
) -> tuple[Rows, Rows]:
    """Return how far annotators agree in each column: all of them, and each pair of them."""
    rows: Rows = []
    pairs: Rows = []
    for column in columns:
        labels = [said for opinion in opinions if (said := opinion.counted(form, column))]
        found = agreement(labels, names)
        given = [label for said in labels for label in said.values()]
        rows.append(
            {
                "Asked": column, "Items": found.n, "Labels": found.labels,
                "Yes": _share(form, given),
                "Pairwise": found.pairwise, "All": found.unanimous,
                "Cohen": found.cohen, "Fleiss": found.fleiss,
            }
        )  # fmt: skip
        pairs += [
            {"Asked": column, "One": one, "Other": other, "Items": two.n,
             "Observed": two.observed, "Cohen": two.cohen}
            for (one, other), two in found.pairs.items()
        ]  # fmt: skip
    return rows, pairs


def means(form: Form, opinions: Opinions, columns: Sequence[str]) -> Rows:
    """Return the mean score in [-1, 1] of each column by edited property, with t-tests against 0.

    "Labels" are all annotators' labels of all items, as in the published human study; they are not
    independent, since annotators label the same items. "Pairs" are the items' own means.
    """
    rows: Rows = []
    for edited in sorted({opinion.item.edited for opinion in opinions}):
        own = [opinion for opinion in opinions if opinion.item.edited == edited]
        for column in columns:
            scores = [found for opinion in own if (found := _scores(form, opinion, column))]
            if not scores:
                continue
            every = [score for found in scores for score in found]
            labels, pairs = one_sample(every), one_sample(_whole(scores))
            rows.append(
                {"Edited": edited, "Aspect": column, "Mean": fmean(every),
                 "Labels": labels.n, "t": labels.t, "p": labels.p,
                 "Pairs": pairs.n, "t (pairs)": pairs.t, "p (pairs)": pairs.p}
            )  # fmt: skip
    return rows


def seen(form: Form, opinions: Opinions) -> list[Opinion]:
    """Return the opinions on pairs in whose text after the edit everybody sees the new value."""
    return [
        opinion
        for opinion in opinions
        if (said := opinion.counted(form, SAYS_NEW)) and set(said.values()) == {YES}
    ]


def accuracy(form: Form, opinions: Opinions, columns: Sequence[str]) -> Rows:
    """Return how often a judge says what people say, in each column and in all aspects.

    "Any" is the share of items on which at least one annotator says the same, as published;
    "Majority" that on which more than half do, of the items that have a majority.
    """
    heard = {column: found for column in columns if (found := _heard(form, opinions, column))}
    aspects = [found for column, found in heard.items() if column != SAYS_NEW]
    if len(aspects) > 1:
        heard["all aspects"] = [each for found in aspects for each in found]
    return [{"Asked": name, **_right(found)} for name, found in heard.items()]


Heard: TypeAlias = tuple[str, list[str]]
"""What the judge said of an item, and what people did."""


def _heard(form: Form, opinions: Opinions, column: str) -> list[Heard]:
    return [
        (judged[column], list(people.values()))
        for opinion in opinions
        if (people := opinion.counted(form, column))
        and column in (judged := form.judged(opinion.item))
    ]


def _right(heard: Sequence[Heard]) -> dict[str, Any]:
    clear = [(judge, most) for judge, people in heard if (most := majority(people))]
    return {
        "Items": len(heard),
        "Any": mean([float(judge in people) for judge, people in heard]),
        "With a majority": len(clear),
        "Majority": mean([float(judge == most) for judge, most in clear]),
    }


def _scores(form: Form, opinion: Opinion, column: str) -> list[float]:
    said = opinion.counted(form, column).values()
    return [score for label in said if (score := form.score(label)) is not None]


def _whole(scores: Sequence[Sequence[float]]) -> list[float]:
    """Return the means of some items' scores times a number that makes them whole.

    t does not depend on it, and thirds would not add up to 0 where they should.
    """
    factor = math.lcm(*map(len, scores))
    return [sum(found) * (factor // len(found)) for found in scores]


def _share(form: Form, labels: Sequence[str]) -> float | None:
    """Return the share of yes among answers to a question of yes or no; None of another one."""
    if any(form.score(label) is not None for label in labels):
        return None
    return mean([float(label == YES) for label in labels])
