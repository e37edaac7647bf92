"""The search for outputs: what a module should put out at one token to make a target likely.

Unlike the search of `value_search`, the output itself is what is moved, over the bare text, by a
fixed number of Adam's steps on the target's likelihood alone. Many outputs are searched together;
what they share is the forward passes, so each is what it would be alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from edit_harness.model.hooks import at_least_fp32
from edit_harness.model.model import Model
from edit_harness.model.reuse import CleanTexts

from .._search.suffix import SuffixForward
from .._search.texts import Text


@dataclass(frozen=True)
class Place:
    """A module of a block."""

    layer: int
    module: str


@dataclass(frozen=True)
class Settings:
    """Hyperparameters of the search."""

    steps: int
    lr: float


@dataclass(frozen=True)
class Found:
    """An output, of the module's width, and the loss before each step towards it."""

    value: Tensor
    losses: tuple[float, ...]


def inputs_at(model: Model, module: str, texts: Sequence[tuple[int, ...]]) -> Tensor:
    """Return what goes into a module at the last token of each text, texts by d_in."""
    base = CleanTexts(model)
    base.remember(texts, {module})
    (inputs,) = base.inputs(module)
    last = [slots[-1] for text in texts if (slots := base.slots(text))]
    return at_least_fp32(inputs[last]).to(model.device)


def search(
    model: Model,
    place: Place,
    texts: Sequence[Text],
    start: Callable[[int, Tensor], Tensor],
    given: Settings,
) -> list[Found]:
    """Find the output for each text, at the token where its first target token is predicted.

    ``start`` takes the index of a text and its clean output, and returns where the search begins.
    """
    found: dict[int, Found] = {}
    for group in _alike(model, texts):
        chosen = [texts[i] for i in group]
        firsts = [text.reads[0] for text in chosen]
        again = SuffixForward(
            model, place.layer, [text.ids for text in chosen], firsts, changed=[place.module]
        )
        (clean,) = again.values()
        values = torch.stack([start(i, own).to(clean) for i, own in zip(group, clean, strict=True)])
        found |= dict(zip(group, _descend(again, chosen, clean, values, given), strict=True))
    return [found[i] for i in range(len(texts))]


def _alike(model: Model, texts: Sequence[Text]) -> Iterator[list[int]]:
    """Yield texts, by index, with targets of one length and no more tokens than a pass may have."""
    lengths: dict[int, list[int]] = {}
    for i, text in enumerate(texts):
        lengths.setdefault(len(text.target), []).append(i)
    for same in lengths.values():
        rows = max(model.batch_tokens // max(len(texts[i].ids) for i in same), 1)
        rows = min(rows, model.batch_rows or rows)
        yield from (same[i : i + rows] for i in range(0, len(same), rows))


def _descend(
    again: SuffixForward, texts: Sequence[Text], clean: Tensor, values: Tensor, given: Settings
) -> list[Found]:
    """Move values, texts by width, by gradient descent on each text's mean loss over its target."""
    reads = [(i, place) for i, text in enumerate(texts) for place in text.reads]
    read = again.places(*zip(*reads, strict=True))
    target = torch.tensor([text.target for text in texts], device=clean.device)
    values = values.detach().clone().requires_grad_()
    optimizer = torch.optim.Adam([values], lr=given.lr)
    losses = []
    for _ in range(given.steps):
        log = again.logits(read, (values - clean)[:, None]).log_softmax(-1)
        loss = -log.gather(1, target.view(-1, 1)).view(target.shape).mean(1)
        losses.append(loss.tolist())
        optimizer.zero_grad()
        loss.sum().backward()
        optimizer.step()
    ends = values.detach()
    return [Found(v.clone(), own) for v, own in zip(ends, zip(*losses, strict=True), strict=True)]
