"""Keys and values of tokens that are not run again, from a clean pass and for later ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from edit_harness.edits import UNEDITED
from edit_harness.model.batch import Beginning, TokenRow
from edit_harness.model.hooks import Enough
from edit_harness.model.packing import Pass, Tree, run_trees, trees_of
from edit_harness.model.reuse import NOWHERE, CleanTexts, Start, start_at_block


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


@torch.no_grad()
def memory(
    base: CleanTexts, texts: Sequence[Beginning], start: Start
) -> dict[Beginning, dict[int, tuple[Tensor, Tensor]]]:
    """Return keys and values of beginnings of clean texts, heads by tokens by width, by block.

    They are those of the blocks from the start on.
    """
    model, found = base.model, dict[Beginning, dict[int, tuple[Tensor, Tensor]]]()

    def run(trees: Sequence[Tree]) -> None:
        ran = Pass.of(model, trees, masked=True)
        cache = Cache(last=model.architecture.layers - 1)
        hidden = base.entry(ran, start)
        assert hidden is not None
        with suppress(Enough), start_at_block(model, start.block, hidden):
            model.logits(ran.batch, NOWHERE, cache=cache)
        for i, tree in enumerate(trees):
            for row, path in tree.rows:
                found[row.ids] = {
                    block: (keys[i][:, path], values[i][:, path])
                    for block, (keys, values) in cache.seen.items()
                }

    rows = [TokenRow(UNEDITED, ids, len(ids)) for ids in dict.fromkeys(texts)]
    run_trees(model, trees_of(model, rows), run)
    return found
