"""Side effects of a run: the measures of its controls before and after the edits, paired.

All numbers here come from the folder alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from edit_harness import stats
from edit_harness.data import Graded, Marks, Scores
from edit_harness.errors import counted
from edit_harness.folder.encoding import decode_answer
from edit_harness.folder.record import OK
from edit_harness.folder.table import RunTable
from edit_harness.run.controls import PREFIX
from edit_harness.run.estimates import LEVEL
from edit_harness.run.results import Results
from edit_harness.stats import Estimate

from .collapse import of_control

SIDES = ("before", "after")
ENOUGH = 5
"""The least number of edited models for an interval over them: with two, Student's has 64 errors each way."""
LIMITS = {"perplexity": (1.0, math.inf), "bits": (0.0, math.inf)}
"""The limits of a measure, by how its values are combined."""
Pairs = Sequence[tuple[Marks, Marks]]
"""A measure before and after, for each edited model."""


class Seen(NamedTuple):
    """One edited model's answers to a control, as a record stores them."""

    state: int
    before: Sequence[Any]
    after: Sequence[Any]


@dataclass(frozen=True, kw_only=True)
class Effect:
    """One measure of a control, before and after the edits."""

    control: str
    """Its name, as it was asked for."""
    name: str
    """The measure."""
    better: str
    over: Literal["documents", "models"]
    """The units of the interval."""
    documents: int
    models: int
    """How many edited models were asked."""
    before: float
    after: float
    change: Estimate
    """After less before, with the paired interval; its ends are NaN for one document or too few models."""
    states: Mapping[int, tuple[float, float]]
    """Before and after, by state of the model."""

    @property
    def data(self) -> dict[str, Any]:
        """The same as JSON-ready data, without its names."""
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


class SideEffects:
    """What the controls of a run were answered, and what that comes to."""

    def __init__(self, run: Results) -> None:
        rows = {
            name.removeprefix(PREFIX): of_control(run, name) for name in run.manifest.identity.asked
        }
        self.seen = {
            name: [Seen(r.state, r.before, r.after) for r in own if r.status == OK]
            for name, own in rows.items()
        }
        """The valid answers to each control, by name, in the order of asking."""
        last = run.regime.mode == "sequential"
        every = self.seen.items()
        self.effects = [e for name, seen in every for e in effects(name, seen, last=last)]
        found = {name: left_out(seen, last=last) for name, seen in every}
        self.uncompared = {name: whys for name, whys in found.items() if whys}
        """The measures without a number, with the reason, by control."""
        failed = {name: own.without(OK) for name, own in rows.items()}
        self.unmeasured: dict[str, RunTable] = {name: own for name, own in failed.items() if own}
        """The records without a valid answer of each control, by name."""

    @property
    def numberless(self) -> list[str]:
        """The controls that were answered and have no number at all."""
        known = {each.control for each in self.effects}
        return [name for name, seen in self.seen.items() if seen and name not in known]

    @property
    def whole(self) -> bool:
        """Whether every control has an answer of every edited model, and a number."""
        return not (self.unmeasured or self.numberless)

    @property
    def data(self) -> dict[str, Any]:
        """What ``results.json`` has of it."""
        found: dict[str, dict[str, Any]] = {}
        for each in self.effects:
            found.setdefault(each.control, {})[each.name] = each.data
        data: dict[str, Any] = {"control": found} if found else {}
        return data | ({"control_left_out": self.uncompared} if self.uncompared else {})


@lru_cache(maxsize=8)
def side_effects(run: Results) -> SideEffects:
    """Return the side effects of a run."""
    return SideEffects(run)


def effects(control: str, seen: Sequence[Seen], *, last: bool) -> Iterator[Effect]:
    """Yield a control's measures over one or more edited models.

    The units of intervals are the models, since all documents share an edit; of one model, or if only the
    ``last`` counts as at the end of a sequence, the documents.
    """
    pairs = paired(seen, last=last)
    for name, why in measures(pairs).items():
        if why:
            continue
        marks = {s: (b.marks[name], a.marks[name]) for s, (b, a) in pairs.items()}
        used = list(marks.values())[-1:] if last else list(marks.values())
        first, _ = used[0]
        found = estimated(used)
        yield Effect(
            control=control,
            name=name,
            better=first.better,
            over="documents" if len(used) == 1 else "models",
            documents=len(first.values),
            models=len(used),
            before=found["before"].value,
            after=found["after"].value,
            change=found["change"],
            states={state: (_whole(b), _whole(a)) for state, (b, a) in marks.items()},
        )


def estimated(pairs: Pairs) -> dict[str, Estimate]:
    """Return a measure ``before``, ``after``, and the ``change``: after less before."""
    single, how = len(pairs) == 1, pairs[0][0].how
    each = [_documents(pair) for pair in pairs]
    columns = each[0]
    if not single:  # a row for each edited model: sums and weights of all its documents
        columns = {name: np.array([own[name].sum() for own in each]) for name in columns}

    def summed(drawn: stats.Columns) -> dict[str, float]:
        sums = {s: _value(drawn[s].sum(), drawn[f"{s} of"].sum(), how) for s in SIDES}
        return {**sums, "change": sums["after"] - sums["before"]}

    before = None if single else summed(columns)["before"]
    found = stats.estimates(columns, summed, {"change": _limits(pairs, before)}, level=LEVEL)
    if not single and len(pairs) < ENOUGH:
        found["change"] = replace(found["change"], low=math.nan, high=math.nan)
    return found


def left_out(seen: Sequence[Seen], *, last: bool) -> dict[str, str]:
    """Return the measures of a control without a number, with the reasons.

    A reason without a measure is about edited models that were asked other documents than before.
    """
    pairs = paired(seen, last=last)
    found = {name: why for name, why in measures(pairs).items() if why}
    if other := len(seen) - len(pairs):
        models = counted(len(seen), "edited model")
        return {"": f"the documents of {other} of {models} are not those of before", **found}
    return found


def paired(seen: Sequence[Seen], *, last: bool) -> dict[int, tuple[Graded, Graded]]:
    """Return the answers of edited models that were asked the same documents before, by state.

    None, if only the ``last`` counts and was asked others.
    """
    pairs = {each.state: (graded(each.before), graded(each.after)) for each in seen}
    same = {s: pairs[s] for s in sorted(pairs) if pairs[s][0].documents == pairs[s][1].documents}
    return {} if last and same and max(same) != max(pairs) else same


def measures(pairs: Mapping[int, tuple[Graded, Graded]]) -> dict[str, str]:
    """Return all measures in the answers, with why they have no number, or an empty text.

    A measure needs a number of every model: models that an edit broke are not left out.
    """
    names = [n for pair in pairs.values() for side in pair for n in (*side.marks, *side.left_out)]
    found = {}
    for name in sorted({*names}):  # as the log has them
        whys = [why for pair in pairs.values() if (why := _missing(name, *pair))]
        of = f" ({len(whys)} of {len(pairs)} edited models)" if len(pairs) > 1 else ""
        found[name] = f"{whys[0]}{of}" if whys else ""
    return found


def _missing(name: str, before: Graded, after: Graded) -> str:
    """Say why a measure cannot be compared in one edited model; empty if it can."""
    for which, side in (("unedited", before), ("edited", after)):
        if name in side.left_out:
            return f"{side.left_out[name]}, of the {which} model"
        if not (marks := side.marks.get(name)) or not marks.values:
            return f"the {which} model has none"
        weights = marks.weights or (1.0,) * len(marks.values)
        if not all(v is not None and math.isfinite(v) for v in (*marks.values, *weights)):
            return f"not all documents have a finite number, of the {which} model"
        if len(weights) != len(marks.values) or sum(weights) <= 0:
            return f"the documents have no weight, of the {which} model"
    same = len(before.marks[name].values) == len(after.marks[name].values)
    return "" if same else "it is of other documents than before"


def _limits(pairs: Sequence[tuple[Marks, Marks]], before: float | None) -> tuple[float, float]:
    """Return the limits of a change; over models, of which all were one before the edits, from there.

    A mean of zeros and ones is a share.
    """
    marks = [side for pair in pairs for side in pair]
    share = all({*each.values} <= {0, 1} and not each.weights for each in marks)
    shares = (0.0, 1.0) if share else (-math.inf, math.inf)
    least, most = shares if marks[0].how == "mean" else LIMITS[marks[0].how]
    return (least - most, most - least) if before is None else (least - before, most - before)


def _documents(pair: tuple[Marks, Marks]) -> dict[str, np.ndarray]:
    """Return a row for each document of one model: sums and weights, before and after."""
    columns = {}
    for side, marks in zip(SIDES, pair, strict=True):
        columns[side] = np.array(marks.values)
        columns[f"{side} of"] = np.array(marks.weights or np.ones(len(marks.values)))
    return columns


def _whole(marks: Marks) -> float:
    weight = sum(marks.weights) if marks.weights else len(marks.values)
    return _value(sum(marks.values), weight, marks.how)


def _value(total: float, weight: float, how: str) -> float:
    """Return the measure of values with a sum of ``total``; see `Marks.how`."""
    mean = float(total) / float(weight)
    if how == "perplexity":
        with np.errstate(over="ignore"):
            return float(np.exp(-mean))
    return -mean / float(np.log(2)) if how == "bits" else mean


def graded(stored: Sequence[Any]) -> Graded:
    """Return stored answers as marks: each text is a document, by the perplexity of its tokens."""
    answers = [decode_answer(answer) for answer in stored]
    if isinstance(answers[0], Graded):
        return answers[0]
    texts = [answer.logprobs[0] for answer in answers if isinstance(answer, Scores)]
    totals: Any = tuple(None if None in text else sum(text) for text in texts)  # as JSON has NaN
    marks = Marks(totals, tuple(map(len, texts)), "perplexity", "lower")
    asked = [answer.tokens for answer in answers if isinstance(answer, Scores)]
    return Graded(",".join(map(str, asked)), {"perplexity": marks})
