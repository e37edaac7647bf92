"""What a precision costs: scores of record are float32, all below it gives previews.

Half precision and TF32 round so coarsely that small effects of an edit drown. How coarsely is
measured on the run's own prompts: each is answered alone and together with the others, which only
rounding tells apart. What a table gives in nats below that floor is shown as below it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ..data import Case, Distribution, NextToken
from ..edits import UNEDITED
from ..folder.manifest import Preview
from ..model.batch import divergences
from ..model.model import Model

EXACT = ("float32", "float64")
PROMPTS = 32


def preview(model: Model, cases: Sequence[Case]) -> Preview | None:
    """Measure what rounding does to the first prompts of the cases; None in full precision."""
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
