"""Begin a forward pass at a block, with the hidden states that an earlier pass left there.

An edit changes nothing below the block it touches, so what runs again is the blocks from there on.
Masks, rotary positions, norms and the head are the model's own: its list of blocks is cut short
for the while, and the hidden states are put in front of the first block that is left. Keys and
values of tokens that are not run again come from a cache that hands them out and never stores.

Where passes begin, and with what, is decided in `base` (evaluation) and in the searches of editors. A
model for which this does not hold is found out by `begins`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .hooks import Enough, inputs_of
from .packing import same

if TYPE_CHECKING:
    from .model import Model

TRIAL = ((1, 2, 3, 4, 5), (6, 2, 7, 1), (8, 3))
"""Texts of the trials, as tokens."""


@dataclass
class Cache:
    """Keys and values in the manner of transformers: rows by heads by positions by width.

    ``kept`` stand in front of what a pass computes; ``seen`` is what it computed. A pass that has
    come to the keys and values of block ``last`` ends there.
    """

    kept: Mapping[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    seen: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    last: int | None = None
    is_compileable: bool = False

    def update(
        self, keys: Tensor, values: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Return the kept keys and values with the new ones behind them."""
        self.seen[layer_idx] = keys, values
        if layer_idx == self.last:
            raise Enough
        if layer_idx not in self.kept:
            return keys, values
        before = [kept.to(keys.device) for kept in self.kept[layer_idx]]
        return torch.cat([before[0], keys], dim=2), torch.cat([before[1], values], dim=2)

    def get_seq_length(self, *_: Any) -> int:
        """Return 0: positions are given, and the mask counts the kept ones."""
        return 0


@contextmanager
def begun(model: Model, block: int, hidden: Tensor) -> Iterator[None]:
    """Let the coming passes begin at a block, with these hidden states."""
    path, _, name = model.architecture.blocks[0].rpartition(".")[0].rpartition(".")
    parent = model.module.get_submodule(path)
    whole = getattr(parent, name)

    def hook(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if args:
            return (hidden, *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": hidden}

    handle = whole[block].register_forward_pre_hook(hook, with_kwargs=True)
    setattr(parent, name, whole[block:])
    try:
        yield
    finally:
        setattr(parent, name, whole)
        handle.remove()


def begins(model: Model, block: int) -> bool:
    """Tell whether a pass begun at a block gives what the whole pass does, by a trial."""
    size = model.architecture.config.vocab_size
    batch = model.batch([[token % size for token in text] for text in TRIAL])
    read = batch.places(range(len(TRIAL)), [len(text) - 1 for text in TRIAL])
    with torch.no_grad():
        with inputs_of([model.architecture.block(block)], len(TRIAL)) as (entered,):
            whole = model.logits(batch, read)
        try:
            with begun(model, block, entered[0]):
                cut = model.logits(batch, read)
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError):
            return False
    return same(whole, cut, model.dtype)
