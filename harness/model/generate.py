"""Continuations, many at a time, each under its own edit, with a cache of keys and values.

Prompts of many edits share forward passes: padded on the left they end in one column, and every
pass after the first reads one new token of each row. A row has its own seed, k, length and stop, so
a text does not depend on its neighbours, but for the order in which numbers are added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from ..data import Generate, Query, Text
from ..edits import UNEDITED, Edit
from .batch import padded
from .hooks import prompted
from .packing import agrees, run_halving
from .tokens import Tokens

if TYPE_CHECKING:
    from .model import Model


@dataclass(frozen=True)
class Prompt:
    """Tokens to go on from, and how: the query's text is not used."""

    ids: tuple[int, ...]
    query: Generate
    edit: Edit = UNEDITED
    stop: int | None = None
    """The token that ends a continuation and is not part of it."""

    def __len__(self) -> int:
        return len(self.ids)


def generate_all(model: Model, questions: Sequence[tuple[Edit, Query]]) -> Iterator[Text]:
    """Yield the text of every `Generate` query, in order.

    A text ends before its query's stop, at the tokenizer's EOS, unless it is to go on, or where the
    model is full. Raises `TooLongError` for a prompt that does not fit the model.
    """
    prompts = [_prompt(model, e, query) for e, query in questions if isinstance(query, Generate)]
    for prompt, new in zip(prompts, samples(model, prompts), strict=True):
        text, stop = model.tokens.continuation(prompt.ids, new), prompt.query.stop
        kept = tuple(new) if isinstance(stop, tuple) else ()
        yield Text(text[: stop_at(text, stop)], tokens=kept)


def _prompt(model: Model, edit: Edit, query: Generate) -> Prompt:
    stop = None if query.to_the_end else model.tokens.tokenizer.eos_token_id
    if query.max_tokens is not None:
        # As many new tokens under every edit, or a text would be short for the edit's prefix.
        left = query.max_tokens - len(model.tokens.encode(query.prompt).ids)
        query = replace(query, max_new_tokens=max(min(query.max_new_tokens, left), 0))
    return Prompt(model.tokens.encode(prompted(edit, query.prompt)).ids, query, edit, stop)


@torch.no_grad()
def samples(model: Model, prompts: Sequence[Prompt]) -> list[list[int]]:
    """Return the new tokens of each prompt, in order; equal prompts are continued once.

    Where a query has a stop, they go at least as far as the token that brings it.
    """
    new: dict[Prompt, list[int]] = {prompt: [] for prompt in prompts}
    groups: dict[Edit, list[Prompt]] = {}
    for prompt in new:
        if _steps(model, prompt) > 0:
            held = UNEDITED if model.carries(prompt.edit) else prompt.edit
            groups.setdefault(held, []).append(prompt)

    def run(batch: Sequence[Prompt]) -> None:
        new.update(zip(batch, _continued(model, batch), strict=True))

    for held, group in groups.items():
        batches = list(_batches(model, group))
        with model.applied(held):
            run_halving(model, group, run, batches)
    return [new[prompt] for prompt in prompts]


def _steps(model: Model, prompt: Prompt) -> int:
    """Return how many tokens may follow: as many as are asked for and the model has room for."""
    limit, asked = model.tokens.limit, prompt.query.max_new_tokens
    return min(asked, limit - len(prompt)) if limit else asked


def _batches(model: Model, prompts: Sequence[Prompt]) -> Iterator[list[Prompt]]:
    """Yield prompts that run together: alike in new tokens and length, and sorted by edit."""
    order = {edit: i for i, edit in enumerate(dict.fromkeys(p.edit for p in prompts))}

    def mates(prompt: Prompt) -> int:
        # Code that looks at whole rows would see the padding.
        code = prompt.edit.adaptors or prompt.edit.patch
        return len(prompt) if code else 0

    def fits(batch: Sequence[Prompt]) -> bool:
        width = max(map(len, batch)) + max(_steps(model, p) for p in batch)
        most = (model.batch_rows or len(batch)) if model.pads else 1
        # A row that has ended is filled up to the width; that must not lead it past the limit.
        roomy = width <= (model.tokens.limit or width)
        return roomy and len(batch) <= most and len(batch) * width <= model.batch_tokens

    batch: list[Prompt] = []
    for prompt in sorted(prompts, key=lambda p: (mates(p), _steps(model, p), len(p))):
        if batch and (mates(prompt) != mates(batch[0]) or not fits([*batch, prompt])):
            yield sorted(batch, key=lambda p: order[p.edit])
            batch = []
        batch.append(prompt)
    yield sorted(batch, key=lambda p: order[p.edit])


def _continued(model: Model, prompts: Sequence[Prompt]) -> list[list[int]]:
    """Return the new tokens of one batch; the weights hold already what rows cannot carry."""
    edits = {p.edit for p in prompts}
    carried = {e: e if model.carries(e) else e.without_weights() for e in edits}
    stream = Stream(model, [p.ids for p in prompts])
    # A row that has ended stays, since an adaptor's memo knows its rows by their place.
    lines = [GeneratedRow(prompt, _steps(model, prompt)) for prompt in prompts]
    with model.edited_rows(stream.batch, [carried[p.edit] for p in prompts], [*map(len, prompts)]):
        while any(line.left for line in lines):
            stream.append(drawn(stream.read(), lines))
            for line in lines:
                if line.left and stopped(model.tokens, line.new, line.prompt.query.stop):
                    line.left = 0
    return [line.new for line in lines]


@dataclass
class GeneratedRow:
    """The continuation of one row."""

    prompt: Prompt
    left: int
    """How many tokens it may still take; 0 once it has ended."""
    new: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sampler = torch.Generator().manual_seed(self.prompt.query.seed)

    def take(self, values: Tensor, indices: Tensor) -> int:
        """Take one of the likeliest tokens, drawn by their logits, and return it."""
        place = 0
        if len(values) > 1:
            place = int(torch.multinomial(values.softmax(-1), 1, generator=self.sampler))
        token = int(indices[place])
        ends = token == self.prompt.stop
        self.left = 0 if ends else self.left - 1
        self.new += [] if ends else [token]
        return token


def drawn(logits: Tensor, lines: Sequence[GeneratedRow]) -> list[int]:
    """Let each line that goes on take its next token; return a token for every row.

    Rows with another k are searched apart, so that a tie falls as it would without them.
    """
    ks = {line.prompt.query.top_k for line in lines if line.left}
    tops = {k: logits.topk(min(k, logits.shape[-1])) for k in ks}
    likeliest = {k: (top.values.float().cpu(), top.indices.cpu()) for k, top in tops.items()}
    tokens = [0] * len(lines)
    for i, line in enumerate(lines):
        if line.left:
            values, indices = likeliest[line.prompt.query.top_k]
            tokens[i] = line.take(values[i], indices[i])
    return tokens


class Stream:
    """Rows of tokens that end in one column, and what the model keeps of those that it has read."""

    def __init__(self, model: Model, texts: Sequence[Sequence[int]]) -> None:
        self.model, self.batch = model, padded(texts, left=True, device=model.device)
        self.ids, self.mask = self.batch.ids, self.batch.mask
        self.cache: Any = None

    def read(self) -> Tensor:
        """Read the new tokens; return the logits of what follows them, rows by vocabulary."""
        inputs: dict[str, Any] = {"input_ids": self.ids, "attention_mask": self.mask}
        if "position_ids" in self.model.takes:
            positions = (self.mask.cumsum(1) - 1).clamp(min=0)
            inputs["position_ids"] = positions[:, -self.ids.shape[1] :]
        # An edit of the head finds its rows in whole rows only.
        if "logits_to_keep" in self.model.takes and not self.model.architecture.head._forward_hooks:
            inputs["logits_to_keep"] = 1
        out = self.model.module(**inputs, past_key_values=self.cache, use_cache=True)
        self.cache = out.past_key_values
        return out.logits[:, -1]

    def append(self, tokens: Sequence[int]) -> None:
        """Put a token behind each row."""
        self.ids = torch.tensor(tokens, device=self.ids.device)[:, None]
        self.mask = functional.pad(self.mask, (0, 1), value=1)


def pads(model: Model) -> bool:
    """Tell whether texts of several lengths have the logits together that they have alone."""
    size = model.architecture.config.vocab_size
    texts = [[(7 * i + j + 1) % size for j in range(n)] for i, n in enumerate((2, 5, 3))]

    def two_steps(texts: Sequence[Sequence[int]]) -> Tensor:
        stream = Stream(model, texts)
        first = stream.read()
        stream.append([text[0] for text in texts])
        return torch.stack([first, stream.read()]).float()

    return agrees(
        model, torch.cat([two_steps([text]) for text in texts], dim=1), lambda: two_steps(texts)
    )


def stop_at(text: str, stop: str | tuple[str, ...]) -> int | None:
    """Return where the stop stands behind white space at a text's beginning, or the first of several; if any."""
    if isinstance(stop, tuple):
        return min((at for each in stop if (at := text.find(each)) >= 0), default=None)
    at = text.find(stop, len(text) - len(text.lstrip())) if stop else -1
    return None if at < 0 else at


def stopped(tokens: Tokens, new: Sequence[int], stop: str | tuple[str, ...]) -> bool:
    """Tell whether new tokens bring a stop, whatever the prompt's end makes of the first."""
    return bool(stop) and stop_at(tokens.decode(new), stop) is not None
