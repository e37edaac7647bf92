"""Whether a model knows facts: greedy agreement with the whole object."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from edit_harness_plugins.builders.triples import Fact
from edit_harness_plugins.commands.authoring import Knows

from .tokenizer import END_ID

BATCH = 64


def knowing(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> Knows:
    """Return what tells builders of data whether the model knows an object."""
    return lambda asked: knows_objects(model, tokenizer, asked)


def known_facts(
    knows: Knows, facts: Sequence[Fact], prompts: Callable[[Fact], Sequence[str]]
) -> list[Fact]:
    """Return the facts whose object the model names after each of their prompts."""
    asked = [(fact, prompt) for fact in facts for prompt in prompts(fact)]
    answers = knows([(prompt, fact.object) for fact, prompt in asked])
    missed = {fact for (fact, _), right in zip(asked, answers, strict=True) if not right}
    return [fact for fact in facts if fact not in missed]


@torch.no_grad()
def knows_objects(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, items: Sequence[tuple[str, str]]
) -> list[bool]:
    """Tell of (prompt, object) pairs whether each token of the object is on top, teacher-forced."""
    encoded = [
        (tokenizer.encode(prompt), tokenizer.encode(f" {target}")) for prompt, target in items
    ]
    order = sorted(range(len(items)), key=lambda i: len(encoded[i][0]) + len(encoded[i][1]))
    found: dict[int, bool] = {}
    for start in range(0, len(order), BATCH):
        chosen = order[start : start + BATCH]
        rows = [encoded[i][0] + encoded[i][1] for i in chosen]
        width = max(map(len, rows))
        ids = torch.tensor([row + [END_ID] * (width - len(row)) for row in rows])
        logits = model(ids, use_cache=False).logits
        for line, index in enumerate(chosen):
            prompt, target = encoded[index]
            guess = logits[line, len(prompt) - 1 : len(prompt) - 1 + len(target)]
            found[index] = guess.argmax(-1).tolist() == target
    return [found[index] for index in range(len(items))]
