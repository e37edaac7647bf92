"""Trials of a model before its first edit: its answers must be trustworthy.

It must answer in a batch as alone, and an edit that changes nothing must change no answer: a missing mask
or positions off by one would be in every number. Below float32, a trial measures what the precision costs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edit_harness.data import Answer, Case, Distribution, Divergence, Generate, NextToken, Scores
from edit_harness.edits import UNEDITED, Edit
from edit_harness.errors import DataError, HarnessError, PluginError
from edit_harness.folder.manifest import Preview
from edit_harness.model.batch import divergences, padded
from edit_harness.model.model import Model

TOLERANCE = {"float64": 1e-6, "float32": 1e-4, "tf32": 2e-2, "float16": 2e-2, "bfloat16": 1e-1}
"""How far a log-probability may differ between batches, in nats, by the model's precision."""
LENGTHS = (13, 5)
"""Tokens of the rows, of which one is padded: each pass of a large model reads all its weights."""
EXACT = ("float32", "float64")
PROMPTS = 32
"""How many prompts measure the effect of rounding."""
REPORT = "this is a mistake of the harness: please report it with the model's name"


@torch.no_grad()
def check_batches(model: Model) -> None:
    """Raise `DataError` if padding changes the answers to rows of tokens."""
    rows = _rows(model)
    alone = torch.cat([_alone(model, row) for row in rows])
    if not alone.isfinite().all():
        raise DataError(
            "the unedited model answers with NaN or infinity",
            "check the weights, or load it with --dtype float32",
        )
    sides = ("right", "left") if "position_ids" in model.takes else (model.padding,)
    for side in sides:
        apart = float((_together(model, rows, left=side == "left") - alone).abs().max())
        if not apart <= TOLERANCE[model.precision]:
            raise DataError(
                f"the model answers by {apart:.2g} nats otherwise in a batch that is padded on the "
                f"{side} than alone; rounding makes at most {TOLERANCE[model.precision]:g}",
                "run texts one by one with --batch-size 1, and " + REPORT,
            )


def _rows(model: Model) -> list[list[int]]:
    """Return rows of tokens of two lengths, none longer than the model has room for."""
    size, limit = model.architecture.config.vocab_size, model.tokens.limit or max(LENGTHS)
    return [
        [(13 * i + 7 * j * j + j + 1) % size for j in range(min(length, limit))]
        for i, length in enumerate(LENGTHS)
    ]


def _alone(model: Model, row: list[int]) -> Tensor:
    """Return the log-probability of each token but the first, by the bare module."""
    module: Any = model.module
    ids = torch.tensor([row], device=model.device)
    logits = module(input_ids=ids, use_cache=False).logits[0, :-1].double()
    return _chosen(logits, ids[0, 1:].to(logits.device)).to(model.device)


def _together(model: Model, rows: list[list[int]], *, left: bool) -> Tensor:
    """Return the same of all rows in one batch, the way answers are made."""
    batch = padded(rows, left=left, device=model.device)
    spots = [(i, j) for i, row in enumerate(rows) for j in range(len(row) - 1)]
    wanted = torch.tensor([rows[i][j + 1] for i, j in spots], device=model.device)
    return _chosen(model.logits(batch, batch.places(*zip(*spots, strict=True))).double(), wanted)


def _chosen(logits: Tensor, tokens: Tensor) -> Tensor:
    return logits.log_softmax(-1).gather(1, tokens[:, None])[:, 0]


def check_nothing(model: Model, case: Case) -> None:
    """Raise `HarnessError` if an empty edit, or one of zeros, changes an answer of a case.

    Under the empty one answers must be equal to the bit; the other takes the route of all edits, where
    rounding is allowed. It asks the first query of each kind, but no texts, since they take long.
    """
    kinds = {type(probe.query): probe.query for probe in reversed(case.probes)}
    queries = [query for kind, query in kinds.items() if kind is not Generate]
    edits = (UNEDITED, Edit(), zeros(model))
    try:
        found = iter(model.answer([(edit, query) for edit in edits for query in queries]))
    except DataError:  # the case cannot be asked, and its row will say so
        return
    plain, *others = ([next(found) for _ in queries] for _ in edits)
    for answers, allowed in zip(others, (0.0, TOLERANCE[model.precision]), strict=True):
        apart = max(map(distance, plain, answers), default=0.0)
        if not apart <= allowed:
            raise HarnessError(
                f"an edit that changes nothing changes an answer of case {case.id} by {apart:.2g} nats",
                REPORT,
            )


def zeros(model: Model) -> Edit:
    """Return an edit that adds zeros to a projection in the middle; an empty one without projections."""
    try:
        projection = model.architecture.projection(model.architecture.layers // 2)
        inputs, outputs = projection.shape
    except (PluginError, AttributeError, RuntimeError):
        return Edit()
    left = torch.zeros(inputs, 1, dtype=projection.dtype, device=projection.device)
    return Edit(projection.low_rank(left, left.new_zeros(1, outputs)))


def distance(one: Answer, other: Answer) -> float:
    """Return by how many nats two answers to one query differ; infinity if they differ in kind."""
    if isinstance(one, Scores) and isinstance(other, Scores) and one.tokens == other.tokens:
        pairs = zip(one.logprobs, other.logprobs, strict=True)
        return max((abs(a - b) for p in pairs for a, b in zip(*p, strict=True)), default=0.0)
    if isinstance(one, Divergence) and isinstance(other, Divergence):
        return max(abs(one.forward - other.forward), abs(one.reverse - other.reverse))
    if isinstance(one, Distribution) and isinstance(other, Distribution):
        return float(abs(one.logprobs - other.logprobs).max())
    return 0.0 if one == other else math.inf


def preview(model: Model, cases: Sequence[Case]) -> Preview | None:
    """Measure the effect of rounding on the first prompts of the cases; None in full precision.

    Half precision and TF32 hide small effects of an edit. Each prompt is answered alone and in a batch, which
    differ by rounding only; tables show numbers in nats below that floor as below it.
    """
    if model.precision in EXACT:
        return None
    prompts = [p.query.prompt for case in cases[:PROMPTS] for p in case.probes]
    questions = [(UNEDITED, NextToken(prompt)) for prompt in dict.fromkeys(prompts)][:PROMPTS]
    together = _stacked(model.answer(questions))
    alone = _stacked([model.answer([question])[0] for question in questions])
    drift = [d.forward for d in divergences(alone, together)]
    likely = alone > alone.max(-1, keepdim=True).values - 5
    largest = (alone - together).abs()[likely].max()
    floor = float(np.mean(drift))
    return Preview(precision=model.precision, floor=floor, largest=float(largest))


def _stacked(answers: Sequence[object]) -> torch.Tensor:
    return torch.stack([
        torch.from_numpy(answer.logprobs) for answer in answers if isinstance(answer, Distribution)
    ])  # fmt: skip
