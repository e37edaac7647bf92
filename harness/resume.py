"""Run only what a change can reach: the blocks above it, at the positions from it on.

A change of one projection's output at a token alters nothing before that token and nothing below
that block. So one clean pass keeps the hidden states at the block and, for every block above, the
keys and values of the tokens before; each pass of a search then runs the suffixes alone against
them. Masks, rotary positions, norms and the head are the model's own: its list of blocks is cut
short for the while, the hidden states are put in front of the first block that is left, and a
cache hands out the kept keys and values without ever storing.

`fits` tries this on a model and compares; where it does not hold, searches run whole rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from edit_harness.hooks import Places, adding, recording
from edit_harness.packing import TRIAL_TOLERANCE, additive

if TYPE_CHECKING:
    from edit_harness.batch import Batch
    from edit_harness.model import Model


@dataclass
class Cache:
    """Keys and values in the manner of transformers: rows by heads by positions by width.

    ``kept`` stand in front of what a pass computes; ``seen`` is what it computed.
    """

    kept: Mapping[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    seen: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    is_compileable: bool = False

    def update(
        self, keys: Tensor, values: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Return the kept keys and values with the new ones behind them."""
        self.seen[layer_idx] = keys, values
        if layer_idx not in self.kept:
            return keys, values
        before = self.kept[layer_idx]
        return torch.cat([before[0], keys], dim=2), torch.cat([before[1], values], dim=2)

    def get_seq_length(self, *_: Any) -> int:
        """Return 0: positions are given, and the mask counts the kept ones."""
        return 0


@dataclass(frozen=True)
class Suffixes:
    """The ends of rows, ready to be run from a block on."""

    batch: Batch
    """Suffixes as rows; the mask is rows by 1 by suffix by kept and suffix."""
    first: int
    """The first block that is run."""
    hidden: Tensor
    """What goes into that block, rows by suffix by width."""
    kept: Mapping[int, tuple[Tensor, Tensor]]


def freeze(model: Model, batch: Batch, starts: Sequence[int], layer: int) -> Suffixes:
    """Run rows whole once, and keep what a change at ``layer`` from each row's start on needs.

    ``starts`` counts from each row's first token. The change is one of the output of the layer's
    projection; if a norm stands between it and the residual stream, the layer runs again too.
    """
    first = layer if "post_norm" in model.architecture.flags else layer + 1
    cache = Cache()
    with torch.no_grad(), _entering(model, first) as entered:
        model.logits(_explicit(batch, model.dtype), batch.places([0], [0]), cache=cache)
    begin = batch.starts + torch.tensor(starts, device=model.device)
    ends = batch.starts + _lengths(batch)
    index, valid = _window(begin, ends)
    earlier, known = _window(batch.starts, begin)
    suffix = replace(
        batch,
        ids=batch.ids.gather(1, index),
        mask=additive(_sees(valid, known), model.dtype),
        starts=torch.zeros_like(batch.starts),
        position_ids=batch.position_ids.gather(1, index),
    )
    kept = {
        block: (_pick(keys, earlier), _pick(values, earlier))
        for block, (keys, values) in cache.seen.items()
        if block >= first
    }
    hidden = entered[0].gather(1, index[..., None].expand(*index.shape, entered[0].shape[-1]))
    return Suffixes(suffix, first, hidden, kept)


def logits(model: Model, suffixes: Suffixes, read: Places, layer: int, delta: Tensor) -> Tensor:
    """Return logits at places of the suffixes, under a change at each suffix's first token.

    ``delta``, rows by width, is added to the output of the layer's projection; the logits are
    differentiable in it.
    """
    rows = len(suffixes.hidden)
    start = suffixes.batch.places(range(rows), [0] * rows)
    if suffixes.first == layer:
        projection = model.architecture.projection(layer).module
        with adding(projection, start, delta, rows), _from(model, suffixes.first, suffixes.hidden):
            return model.logits(suffixes.batch, read, cache=Cache(suffixes.kept))
    index = (start.rows, start.columns)
    hidden = suffixes.hidden.index_put(index, delta.to(suffixes.hidden), accumulate=True)
    with _from(model, suffixes.first, hidden):
        return model.logits(suffixes.batch, read, cache=Cache(suffixes.kept))


def fits(model: Model, layer: int) -> bool:
    """Tell whether running suffixes gives what running whole rows does, by a trial."""
    if not model.packs or layer >= model.architecture.layers - 1:
        return False
    size = model.architecture.config.vocab_size
    rows = [[t % size for t in row] for row in ((1, 2, 3, 4, 5), (6, 2, 7, 1), (8, 3))]
    starts = [2, 1, 1]
    batch = model.batch(rows)
    last = [len(row) - 1 for row in rows]
    generator = torch.Generator().manual_seed(0)
    delta = torch.randn(len(rows), model.architecture.hidden, generator=generator)
    projection = model.architecture.projection(layer).module
    places = batch.places(range(len(rows)), starts)
    with torch.no_grad():
        with recording(projection, len(rows)) as seen:
            model.logits(batch, places)
        delta = delta.to(seen.outputs) * seen.outputs.float().std()
        with adding(projection, places, delta, len(rows)):
            whole = model.logits(batch, batch.places(range(len(rows)), last))
        try:
            suffixes = freeze(model, batch, starts, layer)
            ends = [end - start for end, start in zip(last, starts, strict=True)]
            read = suffixes.batch.places(range(len(rows)), ends)
            cut = logits(model, suffixes, read, layer, delta)
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError):
            return False
    difference = whole.log_softmax(-1) - cut.log_softmax(-1)
    return float(difference.abs().max()) <= TRIAL_TOLERANCE[model.dtype]


@contextmanager
def _entering(model: Model, block: int) -> Iterator[list[Tensor]]:
    """Keep what goes into a block in the coming pass."""
    entered: list[Tensor] = []

    def hook(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        entered.append(args[0] if args else kwargs["hidden_states"])

    handle = model.architecture.block(block).register_forward_pre_hook(hook, with_kwargs=True)
    try:
        yield entered
    finally:
        handle.remove()


@contextmanager
def _from(model: Model, block: int, hidden: Tensor) -> Iterator[None]:
    """Let the coming passes begin at a block, with these hidden states."""
    path, _, name = model.architecture.blocks[0].rpartition(".")[0].rpartition(".")
    parent = model.module.get_submodule(path)
    whole = getattr(parent, name)
    first = whole[block]

    def hook(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if args:
            return (hidden, *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": hidden}

    handle = first.register_forward_pre_hook(hook, with_kwargs=True)
    setattr(parent, name, whole[block:])
    try:
        yield
    finally:
        setattr(parent, name, whole)
        handle.remove()


def _lengths(batch: Batch) -> Tensor:
    """Return how many tokens each row has."""
    return batch.mask.sum(1)


def _window(begin: Tensor, end: Tensor) -> tuple[Tensor, Tensor]:
    """Return the columns from begin to end of each row, and which of them are real.

    A row that is shorter than the longest is filled with its first column.
    """
    steps = torch.arange(max(int((end - begin).max()), 0), device=begin.device)
    columns = begin[:, None] + steps
    valid = columns < end[:, None]
    return torch.where(valid, columns, begin[:, None]), valid


def _sees(valid: Tensor, known: Tensor) -> Tensor:
    """Return which kept and new columns each new column attends to, padding itself alone."""
    size = valid.shape[1]
    before = known[:, None, :] & valid[:, :, None]
    causal = torch.ones(size, size, dtype=torch.bool, device=valid.device).tril()
    itself = torch.eye(size, dtype=torch.bool, device=valid.device)
    within = (causal & valid[:, None, :] & valid[:, :, None]) | itself
    return torch.cat([before, within], dim=2)


def _explicit(batch: Batch, dtype: torch.dtype) -> Batch:
    """Return the batch with its mask in full, which asks nothing of a cache."""
    valid = batch.mask.bool()
    return replace(batch, mask=additive(_sees(valid, valid[:, :0]), dtype))


def _pick(tensor: Tensor, columns: Tensor) -> Tensor:
    """Return the given columns of keys or values, rows by heads by columns by width."""
    index = columns[:, None, :, None].expand(-1, tensor.shape[1], -1, tensor.shape[3])
    return tensor.gather(2, index)
