"""Rows of token ids as the tensors of a forward pass. How texts share a row is `packing`'s matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .hooks import Places


@dataclass(frozen=True)
class Batch:
    """Rows of token ids, padded to one width."""

    ids: Tensor
    mask: Tensor
    """1 where a row has a token, rows by columns; or what to add to attention scores, in 4-D."""
    starts: Tensor
    """Column of each row's first token."""
    position_ids: Tensor
    """The place of each column in its text."""

    def places(self, rows: Sequence[int], positions: Sequence[int]) -> Places:
        """Return where positions, counted from each row's first token, lie in the batch."""
        index = torch.tensor(rows, device=self.ids.device)
        return Places(index, self.starts[index] + torch.tensor(positions, device=self.ids.device))


def padded(rows: Sequence[Sequence[int]], *, left: bool, device: torch.device) -> Batch:
    """Pad rows to the width of the longest, on the left or on the right."""
    width = max(len(row) for row in rows)
    pads = [width - len(row) for row in rows]
    padded = [
        [0] * pad + list(row) if left else [*row, *[0] * pad]
        for pad, row in zip(pads, rows, strict=True)
    ]
    ids = torch.tensor(padded, device=device)
    starts = torch.tensor(pads if left else [0] * len(rows), device=device)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    columns = torch.arange(width, device=device) - starts[:, None]
    mask = ((columns >= 0) & (columns < lengths[:, None])).long()
    return Batch(ids, mask, starts, position_ids=(mask.cumsum(1) - 1).clamp(min=0))
