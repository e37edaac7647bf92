"""Queries of every kind, and edits that change a low-rank part of one layer."""

import torch

from edit_harness import Choose, Drift
from edit_harness.edits import Dense, Edit
from edit_harness.model.architecture import LINEAR

FACT = "Ada Lovelace lives in Oslo. "
PROMPTS = [
    "Bob lives in",
    "Bob lives in the city of",
    FACT + "Bob lives in",
    FACT + "Ann speaks",
    "Ann speaks ",  # one space more than joins prompt and target
    "Where is the Eiffel Tower?\n",
]


class Shift:
    """An adaptor that moves the output by its input's sign, from the last prompt token on."""

    def __call__(self, inputs, outputs, rows):
        moved = outputs + 0.3 * inputs[..., : outputs.shape[-1]].sign()
        return torch.where((rows.offsets >= 0)[..., None], moved, outputs)


def draw(*shape, seed=0):
    return 0.5 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


QUERIES = [
    query
    for prompt in PROMPTS
    for query in (Choose(prompt, ("Paris", "Rome by night", "Rome")), Drift(prompt))
]


def low_rank(model, layer, seed=0):
    projection = model.architecture.projection(layer)
    inputs, outputs = projection.matrix.shape
    return Edit(projection.low_rank(draw(inputs, 1, seed=seed), draw(1, outputs, seed=seed + 1)))


def edits_of(model):
    """Edits as all kinds of editors make them."""
    first, last = (model.architecture.projection(layer) for layer in (0, 1))
    dense = Edit(first.dense(0.3 * draw(*first.matrix.shape)))
    if first.module.bias is not None:
        dense = dense + Edit({f"{first.name}.bias": Dense(draw(first.matrix.shape[1]))})
    inside = next(
        name
        for name, module in model.architecture.block(1).named_modules()
        if "att" in name and isinstance(module, LINEAR)
    )
    inside = f"{model.architecture.blocks[1]}.{inside}"
    shape = model.module.get_submodule(inside).weight.shape
    return {
        "one projection": low_rank(model, 0),
        "the last block's": low_rank(model, 1, seed=2),
        "several layers": low_rank(model, 0, seed=4) + low_rank(model, 1, seed=5),
        "dense": dense,
        "inside a block": Edit({f"{inside}.weight": Dense(0.3 * draw(*shape, seed=6))}),
        "adaptor": Edit(adaptors={last.name: Shift()}),
        "prefix": Edit(prefix="Ann lives in Rome. "),
        "both": low_rank(model, 0, seed=7) + Edit(prefix="Bob is French. "),
        "nothing": Edit(info={"loss": 1.0}),
    }
