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
from transformers.cache_utils import DynamicLayer

from ..data import Generate, Query, Text
from ..edits import UNEDITED, Edit
from .batch import padded
from .hooks import prompted, waits
from .packing import additive, agrees, run_halving
from .tokens import Tokens

if TYPE_CHECKING:
    from .model import Model

AHEAD = 8
"""Steps whose random numbers are drawn at once."""
KEPT = 2
"""How many tokens can be kept for the room that one takes which is read: keys and values alone."""


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

    most = (model.batch_rows or len(prompts)) if model.pads else 1
    batch, longest = list[Prompt](), 0
    for prompt in sorted(prompts, key=lambda p: (mates(p), _steps(model, p), len(p))):
        width = max(longest, len(prompt)) + _steps(model, prompt)
        full = len(batch) == most or (len(batch) + 1) * width > KEPT * model.batch_tokens
        # A row that has ended is filled up to the width; that must not lead it past the limit.
        full |= width > (model.tokens.limit or width)
        if batch and (full or mates(prompt) != mates(batch[0])):
            yield sorted(batch, key=lambda p: order[p.edit])
            batch, longest = [], 0
        batch.append(prompt)
        longest = max(longest, len(prompt))
    yield sorted(batch, key=lambda p: order[p.edit])


def _continued(model: Model, prompts: Sequence[Prompt]) -> list[list[int]]:
    """Return the new tokens of one batch; the weights hold already what rows cannot carry."""
    edits = {p.edit for p in prompts}
    carried = {e: e if model.carries(e) else e.without_weights() for e in edits}
    # A row that has ended stays, since an adaptor's memo knows its rows by their place.
    lines = [GeneratedRow(prompt, _steps(model, prompt)) for prompt in prompts]
    left = max(line.left for line in lines)
    stream, next_tokens = (
        Stream(model, [p.ids for p in prompts], left),
        Chooser(lines, model.device),
    )
    waiting: list[Tensor] = []
    with model.edited_rows(stream.batch, [carried[p.edit] for p in prompts], [*map(len, prompts)]):
        while left:
            waiting.append(next_tokens(stream.read()))
            if len(waiting) == min(waits(model.device), left):
                for line, tokens in zip(lines, torch.stack(waiting, 1).tolist(), strict=True):
                    line.take(tokens, model.tokens)
                left, waiting = max(line.left for line in lines), []
            stream.append(next_tokens.last)
    return [line.new for line in lines]


@dataclass
class GeneratedRow:
    """The continuation of one row."""

    prompt: Prompt
    left: int
    """How many tokens it may still take; 0 once it has ended."""
    new: list[int] = field(default_factory=list)

    def take(self, tokens: Sequence[int], texts: Tokens) -> None:
        """Take tokens until the row ends, by its number of tokens, the token that ends it or its stop."""
        for token in tokens[: self.left]:
            ends = token == self.prompt.stop
            self.new += [] if ends else [token]
            self.left -= 1
            if ends or stopped(texts, self.new, self.prompt.query.stop):
                self.left = 0
                return


class Chooser:
    """Chooses each row's next token among its k likeliest, drawn by their logits with the row's own seed.

    A draw is the largest of p / e over exponential e, as `torch.multinomial` does it. Rows with another k are
    searched apart, so that a tie falls as it would without them.
    """

    last: Tensor
    """The tokens that were chosen last."""

    def __init__(self, lines: Sequence[GeneratedRow], device: torch.device) -> None:
        queries = [line.prompt.query for line in lines]
        self._seeded = [torch.Generator().manual_seed(query.seed) for query in queries]
        self._ks = torch.tensor([query.top_k for query in queries], device=device)
        self._noise = {query.top_k: list[Tensor]() for query in queries}

    def __call__(self, logits: Tensor) -> Tensor:
        """Return a token for every row."""
        self.last = torch.zeros_like(self._ks)
        for k, noise in self._noise.items():
            top = logits.topk(min(k, logits.shape[-1]))
            values = top.values.float().softmax(-1)
            if k > 1:
                if not noise:
                    noise += self._drawn(values)
                values = values / noise.pop(0)
            chosen = top.indices.gather(1, values.argmax(-1, keepdim=True))[:, 0].to(self.last)
            self.last = chosen.where(self._ks == k, self.last)
        return self.last

    def _drawn(self, values: Tensor) -> Iterator[Tensor]:
        """Yield the noise of the coming steps, rows by k."""
        noise = torch.empty(len(values), AHEAD, values.shape[1])
        for row, own in zip(noise, self._seeded, strict=True):
            row.exponential_(generator=own)
        yield from noise.to(values.device).unbind(1)


class Roomy(DynamicLayer):
    """Keys and values of a block with room for those to come, so that none is copied again at each token."""

    def __init__(self, full: Any, room: int) -> None:
        super().__init__()
        self.__dict__.update(full.__dict__)
        self._whole = [functional.pad(side, (0, 0, 0, room)) for side in (full.keys, full.values)]
        self._filled: int = full.keys.shape[-2]

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> Any:
        """Keep new keys and values, and return all."""
        start, self._filled = self._filled, self._filled + key_states.shape[-2]
        for whole, new in zip(self._whole, (key_states, value_states), strict=True):
            whole[..., start : self._filled, :] = new
        self.keys, self.values = (whole[..., : self._filled, :] for whole in self._whole)
        return self.keys, self.values


class Stream:
    """Rows of tokens that end in one column, and what the model keeps of those that it has read.

    ``room`` is how many tokens will come behind them at most.
    """

    def __init__(self, model: Model, texts: Sequence[Sequence[int]], room: int) -> None:
        self.model, self.batch = model, padded(texts, left=True, device=model.device)
        self.ids, self.width, self.room = self.batch.ids, self.batch.ids.shape[1], room
        self.mask, self.cache = functional.pad(self.batch.mask, (0, room), value=1), None
        self._positions = (self.mask.cumsum(1) - 1).clamp(min=0)
        # What later tokens see is the same for all of them but for its length.
        later = additive(self.mask[:, None].bool(), model.dtype)
        self._later = later if model.sees(self.mask.shape[1]) else None

    def read(self) -> Tensor:
        """Read the new tokens; return the logits of what follows them, rows by vocabulary."""
        mask = self.mask if self.cache is None or self._later is None else self._later
        inputs: dict[str, Any] = {"input_ids": self.ids, "attention_mask": mask[..., : self.width]}
        if "position_ids" in self.model.takes:
            inputs["position_ids"] = self._positions[:, self.width - self.ids.shape[1] : self.width]
        # An edit of the head finds its rows in whole rows only.
        if "logits_to_keep" in self.model.takes and not self.model.architecture.head._forward_hooks:
            inputs["logits_to_keep"] = 1
        out = self.model.module(**inputs, past_key_values=self.cache, use_cache=True)
        layers = getattr(out.past_key_values, "layers", [])
        for i, layer in enumerate(layers):  # of the first pass
            layers[i] = Roomy(layer, self.room) if type(layer) is DynamicLayer else layer
        self.cache = out.past_key_values
        return out.logits[:, -1]

    def append(self, tokens: Tensor) -> None:
        """Put a token behind each row."""
        self.ids = tokens[:, None]
        self.width += 1


def pads(model: Model) -> bool:
    """Tell whether texts of several lengths have the logits together that they have alone."""
    size = model.architecture.config.vocab_size
    texts = [[(7 * i + j + 1) % size for j in range(n)] for i, n in enumerate((2, 5, 3))]

    def two_steps(texts: Sequence[Sequence[int]]) -> Tensor:
        stream = Stream(model, texts, 1)
        first = stream.read()
        stream.append(torch.tensor([text[0] for text in texts], device=model.device))
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
