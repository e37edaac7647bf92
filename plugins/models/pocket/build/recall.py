"""Whether a model knows facts: greedy agreement with the whole object, and its probability."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from edit_harness_plugins.builders.triples import Fact
from edit_harness_plugins.commands.authoring import Knows

from .tokenizer import END_ID


class Score(NamedTuple):
    """How a model does on one prompt and object."""

    correct: bool
    probability: float


def knowing(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> Knows:
    """Return what tells builders of data whether the model knows an object."""
    return lambda asked: [score.correct for score in score_objects(model, tokenizer, asked)]


def known_facts(
    knows: Knows, facts: Sequence[Fact], prompts: Callable[[Fact], Sequence[str]]
) -> list[Fact]:
    """Return the facts whose object the model names after each of their prompts."""
    asked = [(fact, prompt) for fact in facts for prompt in prompts(fact)]
    answers = knows([(prompt, fact.object) for fact, prompt in asked])
    missed = {fact for (fact, _), right in zip(asked, answers, strict=True) if not right}
    return [fact for fact in facts if fact not in missed]


@torch.no_grad()
def score_objects(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    items: Sequence[tuple[str, str]],
    batch: int = 64,
) -> list[Score]:
    """Score (prompt, object) pairs by teacher forcing.

    An object is correct if each of its tokens is on top; the probability is its first token's.
    """
    encoded = [
        (tokenizer.encode(prompt), tokenizer.encode(f" {target}")) for prompt, target in items
    ]
    order = sorted(range(len(items)), key=lambda i: len(encoded[i][0]) + len(encoded[i][1]))
    scores: list[Score | None] = [None] * len(items)
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        rows = [encoded[i][0] + encoded[i][1] for i in chosen]
        width = max(map(len, rows))
        ids = torch.tensor([row + [END_ID] * (width - len(row)) for row in rows])
        logits = model(ids, use_cache=False).logits
        for line, index in enumerate(chosen):
            prompt, target = encoded[index]
            guess = logits[line, len(prompt) - 1 : len(prompt) - 1 + len(target)]
            scores[index] = Score(
                guess.argmax(-1).tolist() == target,
                guess[0].softmax(-1)[target[0]].item(),
            )
    return [score for score in scores if score is not None]
