"""What is to be known of a judge that is a model: how often it fails, wavers, and what it costs.

These numbers are not of the edited model, and stand beside those that the judge gives. Of a judge
that is none, such as one that computes, there is nothing to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from edit_harness import Answer, Case, Measure, Metric, Text, Verdict
from edit_harness_plugins.citations import PAIRWISE

from ..people.groups import Columns

ANY = ("any with a key",)
SHARES = {"Unparsed": ("unparsed", "verdicts"), "Swapped": ("swapped", "tried")}
"""What a share is of: the columns of its two counts."""
SUMS = {"Tokens": "tokens", "USD": "usd"}
"""The entry of `Verdict.usage` that is summed up."""


class Judging(Metric):
    """The judge's own failings and cost, over all texts before the edits and after them."""

    citation = PAIRWISE
    measures: ClassVar[Mapping[str, Measure]] = {
        "Unparsed": Measure(
            "share of the judge's replies that are no verdict", "lower", source="ours", probes=ANY
        ),
        "Swapped": Measure(
            "share of verdicts that are others when two texts change places, of those tried", "lower",
            source="after Zheng et al. (2023), section 4.2, who count those that stay", probes=ANY,
        ),
        "Tokens": Measure(
            "sum of the tokens of the judge's prompts and replies", "lower",
            unit="", range=(0.0, float("inf")), source="ours", probes=ANY,
        ),
        "USD": Measure(
            "sum of what the judge's tokens cost, if all of them have a price", "lower",
            unit="", range=(0.0, float("inf")), source="ours", probes=ANY,
        ),
    }  # fmt: skip

    def measure(
        self, case: Case, before: Sequence[Answer], after: Sequence[Answer]
    ) -> dict[str, float]:
        """Return the shares and sums of a case, and the counts that the shares are of."""
        counts = account(told((*before, *after)))
        shares = {
            f"post_{name}": counts[part] / counts[whole]
            for name, (part, whole) in SHARES.items()
            if counts.get(whole)
        }
        sums = {f"post_{name}": counts[what] for name, what in SUMS.items() if what in counts}
        return counts | shares | sums

    def failed(self, case: Case, before: Sequence[Answer]) -> dict[str, float]:
        """Count what was judged before the edit, which cost as much."""
        return self.measure(case, before, ())

    def summarize(self, columns: Columns) -> dict[str, float]:
        """Return the shares of all verdicts of all cases, and the sums over all cases."""
        shares = {
            f"post_{name}": ratio(columns, *parts)
            for name, parts in SHARES.items()
            if f"post_{name}" in columns
        }
        took = spent(columns)
        return shares | {f"post_{name}": took[what] for name, what in SUMS.items() if what in took}


def told(answers: Iterable[Answer]) -> list[Verdict]:
    """Return the verdicts that a model gave, and its replies that are none."""
    verdicts = [answer.verdict for answer in answers if isinstance(answer, Text)]
    return [v for v in verdicts if v and v.status != "pending" and (v.served or not v.counts)]


def account(verdicts: Sequence[Verdict]) -> dict[str, float]:
    """Return how many verdicts of a model there are, of which kinds, and what they took."""
    if not verdicts:
        return {}
    tried = [v.swapped for v in verdicts if v.swapped is not None]
    counts = {
        "verdicts": len(verdicts),
        "unparsed": sum(v.status == "unparsed" for v in verdicts),
        "tried": len(tried),
        "swapped": sum(tried),
    }
    used = {
        what: sum(v.usage.get(what, 0.0) for v in verdicts)
        for what in SUMS.values()
        if any(what in v.usage for v in verdicts)
    }
    if any("tokens" in v.usage and "usd" not in v.usage for v in verdicts):
        used.pop("usd", None)
    return {name: float(value) for name, value in (counts | used).items()}


def spent(columns: Columns) -> dict[str, float]:
    """Return the sums of what verdicts took; of dollars only if all that took tokens have a price."""
    found = {what: columns[what] for what in SUMS.values() if what in columns}
    if found.keys() >= {"tokens", "usd"} and any(
        np.isnan(found["usd"]) & ~np.isnan(found["tokens"])
    ):
        del found["usd"]
    return {what: total(values) for what, values in found.items()}


def total(values: np.ndarray) -> float:
    """Return the sum of what there is; NaN if there is nothing."""
    present = values[~np.isnan(values)]
    return float(present.sum()) if len(present) else float("nan")


def ratio(columns: Columns, part: str, whole: str) -> float:
    """Return the ratio of the sums of two columns; NaN without anything to divide by."""
    below = total(columns[whole])
    return total(columns[part]) / below if below > 0 else float("nan")
