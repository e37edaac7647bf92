"""A residual memory: a matrix beside a projection, of which a prompt's own mask opens a few features, or none.

TopHash and the choice among stored masks are those of Wang et al. (2025), sections 3.1 and 3.2. The choice is
made for each text by itself, at its prompt, and holds for what is generated behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from edit_harness.edits import Rows
from edit_harness.model.hooks import at_least_fp32


@dataclass(frozen=True, eq=False)
class ResidualMemory:
    """An adaptor: a matrix M, the masks of n edits, and what a prompt's mask is made by."""

    background: Tensor
    """The mean input of the projection over background texts, d_in."""
    order: Tensor
    """The permutation that sends a feature to the one that it opens, d_in."""
    masks: Tensor
    """A bit for each feature, n by d_in / 8 bytes."""
    matrix: Tensor
    """M at the features that are in some mask, features by d_out; elsewhere it is zero."""
    k: int
    """Features of a mask."""
    threshold: float
    """The part of its mask that a prompt shares with a stored one, if M is to answer it."""

    def __call__(self, inputs: Tensor, outputs: Tensor, rows: Rows) -> Tensor:
        """Return the outputs, with what M adds in the rows whose prompts are answered."""
        if "masks" not in rows.memo:
            own = self.mask(inputs, rows.mask & (rows.offsets <= 0))
            rows.memo["masks"] = self.nearest(own)
        masks = rows.memo["masks"]
        (open,) = masks.any(1).nonzero(as_tuple=True)
        if not len(open):
            return outputs
        features, matrix = self.stored.any(0).to(inputs.device), self.matrix.to(inputs.device)
        keys = (inputs[open] * masks[open, None])[..., features].to(matrix)
        return outputs.index_add(0, open, (keys @ matrix).to(outputs))

    def mask(self, inputs: Tensor, prompt: Tensor) -> Tensor:
        """Return the mask of each row, rows by d_in.

        ``inputs`` are rows by positions by d_in; ``prompt`` tells which positions have a prompt's token.
        """
        total = at_least_fp32(inputs).masked_fill(~prompt[..., None], 0).sum(1)
        mean = total / prompt.sum(1, keepdim=True)
        top = (mean - self.background.to(mean)).abs().topk(self.k).indices
        opened = self.order.to(top.device)[top]
        return torch.zeros_like(mean, dtype=torch.bool).scatter(1, opened, True)

    def nearest(self, masks: Tensor) -> Tensor:
        """Return the stored mask that each shares most with, or an empty one where that is too little."""
        stored = self.stored.to(masks.device)
        common, edit = (masks.float() @ stored.float().T).max(1)
        return stored[edit] & (common / self.k >= self.threshold)[:, None]

    @cached_property
    def stored(self) -> Tensor:
        """The stored masks, n by d_in, on the CPU."""
        bits = np.unpackbits(self.masks.cpu().numpy(), axis=1, count=len(self.order))
        return torch.from_numpy(bits).bool()

    def dense(self) -> Tensor:
        """Return M, d_in by d_out."""
        whole = self.matrix.new_zeros(len(self.order), self.matrix.shape[1])
        whole[self.stored.any(0)] = self.matrix
        return whole

    def and_then(self, mask: Tensor, part: Tensor) -> ResidualMemory:
        """Return this memory with one mask more, d_in, and with M at its features, k by d_out."""
        whole, mask = self.dense(), mask.cpu()
        whole[mask] = part.to(whole)
        bits = torch.from_numpy(np.packbits(mask.numpy())[None]).to(self.masks)
        features = self.stored.any(0) | mask
        return replace(self, masks=torch.cat([self.masks, bits]), matrix=whole[features])
