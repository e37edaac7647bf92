"""A codebook: what a module puts out instead, for inputs that lie near a key (GRACE's memory).

It asks at one place of a text, the last token of its prompt, and never again: in blocks above, the
new output stays in the keys and values that later tokens see, so a generation goes on from it with
a cache as without one. How entries come about is the matter of `grace`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from edit_harness.edits import Rows
from edit_harness.model.hooks import at_least_fp32


@dataclass(frozen=True, eq=False)
class Codebook:
    """An adaptor of m entries. Raises `ValueError` if their tensors do not belong together."""

    keys: Tensor
    """Inputs of the module, m by d_in."""
    values: Tensor
    """What it puts out for them, m by d_out."""
    radii: Tensor
    """How far from its key an input may lie for an entry to answer, m."""

    def __post_init__(self) -> None:
        dimensions = self.keys.dim(), self.values.dim(), self.radii.dim()
        if dimensions != (2, 2, 1) or not len(self):
            raise ValueError("keys, values and radii of a codebook are 2-D, 2-D and 1-D, not empty")
        if not len(self.keys) == len(self.values) == len(self.radii):
            raise ValueError("a codebook needs as many values and radii as keys")

    def __len__(self) -> int:
        return len(self.keys)

    def __call__(self, inputs: Tensor, outputs: Tensor, rows: Rows) -> Tensor:
        """Return the outputs, those at the prompts' ends replaced where an entry answers."""
        row, column = (rows.offsets == 0).nonzero(as_tuple=True)
        if not len(row):
            return outputs
        distance, entry = nearest(self.keys, inputs[row, column])
        hit = distance <= self.radii.to(distance)[entry]
        values = self.values.to(outputs)[entry[hit]]
        return outputs.index_put((row[hit], column[hit]), values)


def nearest(keys: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
    """Return the Euclidean distance of each query, n by d_in, to the nearest key, and its index."""
    asked = at_least_fp32(queries)
    # By way of products of matrices, a key would be some 1e-3 away from itself.
    mode = "donot_use_mm_for_euclid_dist"
    distance, entry = torch.cdist(asked, keys.to(asked), compute_mode=mode).min(dim=1)
    return distance, entry
