"""Whether a model survives edits that share it: the perplexity of the control text, in each of its states."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from edit_harness.data import Scores
from edit_harness.folder.encoding import decode_answer
from edit_harness.folder.table import RunTable
from edit_harness.run.controls import ID
from edit_harness.run.results import Results

COLLAPSE = 10.0
"""A model has collapsed if its perplexity is so many times the unedited model's."""


def of_control(run: Results, case: str) -> RunTable:
    """Return the records of a control, by its id, in all states of the model."""
    rows = RunTable.of(run.everything)
    return rows.taken(np.array([name == case for name in rows.cases], bool))


def perplexities(run: Results) -> dict[int, tuple[float, float]]:
    """Return the perplexity before and after the edits, by state of the model; of single edits none."""
    return {
        r.state: (of_answers(r.before), of_answers(r.after))
        for r in of_control(run, ID)
        if r.before and r.after
    }


def of_answers(answers: Sequence[Any]) -> float:
    """Return the perplexity of all texts' tokens but for their first words; infinite if it is not finite.

    ``answers`` are as a record stores them, one for each text.
    """
    scores = [decode_answer(answer) for answer in answers]
    tokens = [t for each in scores if isinstance(each, Scores) for t in each.logprobs[0]]
    try:
        return math.exp(-math.fsum(tokens) / len(tokens))
    except (TypeError, ZeroDivisionError, OverflowError):  # NaN is stored as None
        return math.inf


def collapsed(run: Results) -> list[int]:
    """Return the states at which the model no longer predicts the control text."""
    return [s for s, (old, new) in perplexities(run).items() if not new <= COLLAPSE * old]


def perplexity(run: Results) -> tuple[float, float] | None:
    """Return the perplexity before and after a sequence, or the worst batch; None if nothing was asked."""
    if run.regime.mode == "single":
        return None
    if run.regime.mode == "batch":
        return max(perplexities(run).values(), key=itemgetter(1), default=None)
    return perplexities(run).get(max((record.state for record in run.everything), default=0))
