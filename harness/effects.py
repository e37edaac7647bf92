"""What edits do besides: the answers of controls before and after, paired, as numbers.

It reads records and computes; what is asked, and of which edited models, stands in the plan. Any
number here can be computed from the log alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from edit_harness import stats
from edit_harness.cases import Graded, Marks, Scores
from edit_harness.encoding import decode_answer
from edit_harness.stats import Estimate

SIDES = ("before", "after")


class Seen(NamedTuple):
    """A control's answers to one edited model, as a record stores them."""

    state: int
    before: Any
    after: Any


@dataclass(frozen=True)
class Effect:
    """One measure of a control, before and after the edits."""

    control: str
    """Its name, as it was asked for."""
    name: str
    """The measure."""
    better: str
    before: float
    after: float
    change: Estimate
    """After less before, with the interval of the paired difference."""
    over: Literal["documents", "models"]
    """What the interval resamples."""
    documents: int
    models: int
    """How many edited models were asked."""
    states: Mapping[int, tuple[float, float]]
    """Before and after, by state of the model."""

    @property
    def data(self) -> dict[str, Any]:
        """The same as JSON-ready data, but for what it is called."""
        return {
            "before": self.before,
            "after": self.after,
            "difference": self.change.value,
            "difference_low": self.change.low,
            "difference_high": self.change.high,
            "interval_over": self.over,
            "documents": self.documents,
            "models": self.models,
            "better": self.better,
            "states": [
                {"state": state, "before": old, "after": new}
                for state, (old, new) in self.states.items()
            ],
        }


def effects(
    control: str, seen: Sequence[Seen], *, last: bool, level: float, seed: int
) -> Iterator[Effect]:
    """Yield what a control's measures came to over edited models, of which there is one at least.

    Of several models the models are resampled, since all documents share an edit; of one, or if the
    ``last`` is to stand for all of them as at the end of a sequence, its documents.
    """
    pairs = {each.state: (_graded(each.before), _graded(each.after)) for each in seen}
    paired = {
        state: pair
        for state, pair in sorted(pairs.items())
        if pair[0].documents == pair[1].documents
    }
    for name in next(iter(paired.values()))[0].marks if paired else ():
        marks = {s: (b.marks[name], a.marks[name]) for s, (b, a) in paired.items()}
        yield _effect(control, name, marks, last=last, level=level, seed=seed)


def _effect(
    control: str,
    name: str,
    marks: Mapping[int, tuple[Marks, Marks]],
    *,
    last: bool,
    level: float,
    seed: int,
) -> Effect:
    used = list(marks.values())[-1:] if last else list(marks.values())
    single = len(used) == 1
    columns = _documents(used[0]) if single else _models(used)
    how, better = used[0][0].how, used[0][0].better

    def summed(drawn: stats.Columns) -> dict[str, float]:
        before, after = (_value(drawn[s].sum(), drawn[f"{s} of"].sum(), how) for s in SIDES)
        return {"before": before, "after": after, "change": after - before}

    units = len(columns["before"])
    few = np.arange(units) if units < stats.FEW else None
    found = stats.bootstrap(columns, summed, level=level, seed=seed, groups=few)
    return Effect(
        control,
        name,
        better,
        found["before"].value,
        found["after"].value,
        found["change"],
        "documents" if single else "models",
        len(used[0][0].values),
        len(used),
        {state: tuple(_whole(each) for each in pair) for state, pair in marks.items()},  # type: ignore[misc]
    )


def _documents(pair: tuple[Marks, Marks]) -> dict[str, np.ndarray]:
    """Return a row for each document of one model: sums and weights, before and after."""
    columns = {}
    for side, marks in zip(SIDES, pair, strict=True):
        columns[side] = np.array(marks.values)
        columns[f"{side} of"] = np.array(marks.weights or np.ones(len(marks.values)))
    return columns


def _models(pairs: Sequence[tuple[Marks, Marks]]) -> dict[str, np.ndarray]:
    """Return a row for each edited model: sums and weights of all its documents."""
    each = [_documents(pair) for pair in pairs]
    return {name: np.array([columns[name].sum() for columns in each]) for name in each[0]}


def _whole(marks: Marks) -> float:
    weight = sum(marks.weights) if marks.weights else len(marks.values)
    return _value(sum(marks.values), weight, marks.how)


def _value(total: float, weight: float, how: str) -> float:
    """Return what values that sum up to ``total`` come to; see `Marks.how`."""
    mean = float(total) / float(weight)
    if how == "perplexity":
        with np.errstate(over="ignore"):
            return float(np.exp(-mean))
    return -mean / float(np.log(2)) if how == "bits" else mean


def _graded(stored: Any) -> Graded:
    """Return a stored answer as marks: a text's tokens are one document, by its perplexity."""
    answer = decode_answer(stored)
    if isinstance(answer, Graded):
        return answer
    assert isinstance(answer, Scores)
    (logprobs,) = answer.logprobs
    marks = Marks((sum(logprobs),), (len(logprobs),), "perplexity", "lower")
    return Graded(str(answer.tokens), {"perplexity": marks})
