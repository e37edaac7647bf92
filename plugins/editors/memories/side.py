"""Side memories: copies of one MLP map that answer a text if they move its activations far enough (WISE).

Wang et al. (2024), sections 2.2 and 2.3. What is kept of a copy W' is W' - W, so that W' a is the map's own
output plus the change's. The choice is made for each text by itself, at its prompt, and holds for what is
generated behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from edit_harness.edits import Rows
from edit_harness.model.hooks import at_least_fp32

NONE = -1
"""The choice of a row that no memory answers."""


@dataclass(frozen=True, eq=False)
class SideMemories:
    """An adaptor of m memories."""

    changes: Tensor
    """W' - W of each memory, m by d_in by d_out."""
    nearest: Tensor
    """The smallest distance of an edit that each memory has learned, m."""
    act_ratio: float
    """The part of that distance beyond which a memory answers."""
    activation: str
    """The model's activation function, by its name in transformers."""

    def __call__(self, inputs: Tensor, outputs: Tensor, rows: Rows) -> Tensor:
        """Return the outputs, changed in the rows whose prompts a memory answers."""
        if "choice" not in rows.memo:
            prompt = rows.mask & (rows.offsets <= 0)
            rows.memo["choice"] = self.choose(inputs, outputs, prompt)
        for memory in range(len(self.changes)):
            (own,) = (rows.memo["choice"] == memory).nonzero(as_tuple=True)
            if len(own):
                added = self.added(inputs[own], memory).to(outputs)
                outputs = outputs.index_add(0, own, added)
        return outputs

    def choose(self, inputs: Tensor, outputs: Tensor, prompt: Tensor) -> Tensor:
        """Return the memory that answers each row, or `NONE`.

        It is that of the largest distance, of those beyond their threshold. ``prompt`` says which
        positions are of the prompt, rows by positions.
        """
        found = torch.stack(
            [
                distance(self.activation, outputs, self.added(inputs, memory), prompt)
                for memory in range(len(self.changes))
            ]
        )
        beyond = found > self.act_ratio * self.nearest.to(found)[:, None]
        largest, memory = torch.where(beyond, found, NONE).max(dim=0)
        return torch.where(largest == NONE, NONE, memory)

    def added(self, inputs: Tensor, memory: int) -> Tensor:
        """Return what a memory adds to the outputs, rows by positions by d_out."""
        keys = at_least_fp32(inputs)
        return keys @ self.changes[memory].to(keys)

    def begun(self) -> SideMemories:
        """Return the memories with a new one, which is W itself."""
        new = (
            self.changes.new_zeros(1, *self.changes.shape[1:]),
            self.nearest.new_tensor([torch.inf]),
        )
        pairs = zip((self.changes, self.nearest), new, strict=True)
        return self._with(*(torch.cat(pair) for pair in pairs))

    def learned(self, change: Tensor, distance: Tensor) -> SideMemories:
        """Return the memories, the last one trained on for an edit of this distance."""
        nearest = self.nearest[-1:].minimum(distance)
        return self._with(
            torch.cat([self.changes[:-1], change[None]]), torch.cat([self.nearest[:-1], nearest])
        )

    def merged(self, count: int, density: float) -> SideMemories:
        """Return the memories, the last ``count`` as one; see `ties`."""
        change, nearest = ties(self.changes[-count:], density), self.nearest[-count:].min()
        return self._with(
            torch.cat([self.changes[:-count], change[None]]),
            torch.cat([self.nearest[:-count], nearest[None]]),
        )

    def _with(self, changes: Tensor, nearest: Tensor) -> SideMemories:
        return replace(self, changes=changes, nearest=nearest)


def distance(activation: str, outputs: Tensor, added: Tensor, prompt: Tensor) -> Tensor:
    """Return how far a change moves the activations of each row: the mean over its prompt's tokens.

    The activation function is applied to the map's outputs, as in the authors' code.
    """
    # At the top it would change the environment of a process that only lists editors.
    from transformers.activations import ACT2FN

    function, clean = ACT2FN[activation], at_least_fp32(outputs)
    moved = (function(clean + added) - function(clean)).norm(dim=-1)
    return (moved * prompt).sum(1) / prompt.sum(1)


def ties(changes: Tensor, density: float) -> Tensor:
    """Return memories as one, by TIES (Yadav et al., 2023): trim, elect a sign, merge what has it.

    Of each change the share ``density`` of largest entries is kept; an entry is the mean of those
    that have the sign of their sum.
    """
    kept = torch.stack([_trimmed(change, density) for change in changes])
    sign = torch.where(kept.sum(0) >= 0, 1, -1)
    agrees = kept.sign() == sign
    return (kept * agrees).sum(0) / agrees.sum(0).clamp(min=1)


def _trimmed(change: Tensor, density: float) -> Tensor:
    size = change.abs()
    least = size.flatten().topk(max(int(density * size.numel()), 1)).values[-1]
    return change.where(size >= least, 0)
