"""Texts, edits and naive generation without a cache, for tests of continuations."""

from contextlib import contextmanager

import torch

from edit_harness.edits import Dense, Edit

FAMILIES = ["gpt2", "gptj", "gpt_neox", "llama", "qwen2", "opt", "gemma2", "bloom"]
PROMPT = "Ada lives in the city of"


def edit_of(model, seed=0):
    noise = torch.Generator().manual_seed(seed)
    projection = model.architecture.projection(1)
    left, right = (torch.randn(n, generator=noise) for n in projection.matrix.shape)
    return Edit(projection.low_rank(left[:, None], right[None]))


def uncached(module, ids, query):
    """Tokens without a cache: every step reads the whole text anew."""
    new, sampler = [], torch.Generator().manual_seed(query.seed)
    for _ in range(query.max_new_tokens):
        logits = module(input_ids=torch.tensor([[*ids, *new]]), use_cache=False).logits
        top = logits[0, -1].topk(query.top_k)
        drawn = query.top_k > 1 and torch.multinomial(top.values.softmax(-1), 1, generator=sampler)
        new.append(int(top.indices[int(drawn)]))
    return new


TEXTS = ["Ada", "Bob works at Fiat in Rome, and Ann", "Where is the Eiffel", "It rains"]


def tied(model):
    """An edit that hooks cannot carry, since two modules share the weight."""
    weight = model.module.get_input_embeddings().weight
    noise = torch.randn(weight.shape, generator=torch.Generator().manual_seed(3))
    name = next(n for n, p in model.module.named_parameters() if p is weight)
    return Edit({name: Dense(0.1 * noise)})


class Switch:
    """Adds a vector from the prompt's end on, or takes it away: the mean of the inputs decides.

    It looks at all that it is shown of the prompt, so padding would mislead it.
    """

    def __init__(self, width):
        self.value = torch.randn(width, generator=torch.Generator().manual_seed(4))

    def __call__(self, inputs, outputs, rows):
        at_prompt = rows.offsets == 0
        if at_prompt.any():
            assert (at_prompt.sum(1) == 1).all()
            assert not rows.memo
            rows.memo["sign"] = self.signs = inputs[..., 0].mean(1).sign()
            rows.memo["passes"] = 0
        else:
            rows.memo["passes"] += 1
            assert (rows.offsets == rows.memo["passes"]).all()
        signs = rows.memo["sign"][:, None] * (rows.offsets >= 0)
        return outputs + signs[..., None] * self.value


def switched(model, name="", width=0):
    projection = model.architecture.projection(1)
    return Edit(adaptors={name or projection.name: Switch(width or projection.matrix.shape[1])})


@contextmanager
def passes(model):
    """Collect (rows, columns) of every forward pass."""
    seen = []

    def hook(_, args, kwargs):
        seen.append(tuple(kwargs["input_ids"].shape))

    handle = model.module.register_forward_pre_hook(hook, with_kwargs=True)
    try:
        yield seen
    finally:
        handle.remove()
