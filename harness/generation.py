"""Continuations under an edit, token by token with a cache of keys and values.

One prompt at a time: each sample has its own seed, so a text depends on its query alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from edit_harness.cases import Generate, Query, Text
from edit_harness.edits import UNEDITED, Edit

if TYPE_CHECKING:
    from edit_harness.model import Model


def generate_all(model: Model, questions: Sequence[tuple[Edit, Query]]) -> Iterator[Text]:
    """Yield the text of every `Generate` query, in order."""
    for edit, query in questions:
        if isinstance(query, Generate):
            yield generate(model, edit, query)


def generate(model: Model, edit: Edit, query: Generate) -> Text:
    """Return one continuation; it ends at the tokenizer's EOS or where the model is full."""
    ids = model.tokens.encode(edit.prefix + query.prompt).ids
    stop = model.tokens.tokenizer.eos_token_id
    new = sample(model, ids, query, edit=edit, stop=stop)
    return Text(model.tokens.decode(new))


@torch.no_grad()
def sample(
    model: Model,
    ids: Sequence[int],
    query: Generate,
    *,
    edit: Edit = UNEDITED,
    stop: int | None = None,
) -> list[int]:
    """Return the tokens that the model puts after ``ids``, up to but without ``stop``.

    Of the query, the number of tokens, k and the seed are used.
    """
    written, carried = (UNEDITED, edit) if model.carries(edit) else (edit, edit.without_weights())
    room = (model.tokens.limit or len(ids) + query.max_new_tokens) - len(ids)
    sampler = torch.Generator().manual_seed(query.seed)
    batch = model.batch([ids])
    new: list[int] = []
    cache, inputs = None, batch.ids
    with model.applied(written), model.edited_rows(batch, [carried], [len(ids)]):
        for _ in range(min(query.max_new_tokens, room)):
            out = model.module(input_ids=inputs, past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            token = pick(out.logits[0, -1].float().cpu(), query.top_k, sampler)
            if token == stop:
                break
            new.append(token)
            inputs = torch.tensor([[token]], device=model.device)
    return new


def pick(logits: Tensor, top_k: int, sampler: torch.Generator) -> int:
    """Return one of the k likeliest tokens, drawn by their probabilities; greedy for k = 1."""
    top = logits.topk(min(top_k, len(logits)))
    if top_k == 1:
        return int(top.indices[0])
    return int(top.indices[torch.multinomial(top.values.softmax(-1), 1, generator=sampler)])
