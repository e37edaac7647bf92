"""A codebook: what a module puts out instead, for inputs that lie near a key (GRACE's memory).

It asks at the last token of a text's prompt alone; later tokens see the new output in their keys and values.
It grows by GRACE's rules (Hartvigsen et al., 2023, algorithm 1), as published but for labels, which are
compared token by token (that code compares means of token numbers), and for what rounding decides there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from edit_harness.edits import Edit, Rows
from edit_harness.model.hooks import at_least_fp32

from .._search.bases import earlier

MARGIN = 1e-5
"""What a split takes off the radius of the older entry."""
ROUNDING = {torch.float64: 1e-14, torch.float32: 1e-6, torch.bfloat16: 1.6e-2, torch.float16: 2e-3}
"""How far apart, in norms, two passes may see one key: a little more than was seen on pocket."""
PADDING = -1
"""Behind a label that is shorter than the longest."""


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


class Book:
    """A codebook while requests are taken in: entries have keys, radii and labels before values.

    ``new`` are the keys of the requests to come, requests by d_in, in order; ``dtype`` is the
    precision of the passes that they are from. ``losses`` are those of each request, before the
    last step.
    """

    def __init__(
        self, edit: Edit, module: str, new: Tensor, epsilon: float, dtype: torch.dtype
    ) -> None:
        self.module, self.epsilon, self.rounding = module, epsilon, ROUNDING[dtype]
        self._coming = iter(new)
        self._keys, self.radii, self.values = new.clone(), list[float](), dict[int, Tensor]()
        self.labels, self.losses = list[tuple[int, ...]](), list[float]()
        if old := earlier(edit, module, Codebook, "grace", f"{module}.labels"):
            labels = edit.state[f"{module}.labels"]
            self._keys = torch.cat([old.keys.to(new), torch.empty_like(new)])
            self.radii, self.values = old.radii.tolist(), dict(enumerate(old.values.to(new)))
            self.labels = [tuple(t for t in own if t != PADDING) for own in labels.tolist()]

    def take(self, label: tuple[int, ...]) -> tuple[int, bool]:
        """Return the entry of the next request, and whether its value is to be searched anew.

        ``label`` are the target's tokens. Far from all entries, the request gets one of its own.
        Within reach of one with its label, it expands that; with another label, the two share the
        way between them, and for one and the same key the last label holds.
        """
        key, count = next(self._coming), len(self.radii)
        if not count:
            return self._add(key, label, self.epsilon), True
        near, index = nearest(self._keys[:count], key[None])
        distance, entry = near.item(), int(index)
        if distance > self.epsilon + self.radii[entry]:
            return self._add(key, label, self.epsilon), True
        rounding = self.rounding * float(key.norm())
        if label == self.labels[entry]:
            if distance > self.radii[entry]:
                # The published radius is the distance itself, which the next pass may exceed.
                self.radii[entry] = distance + rounding
            return entry, False
        if distance <= max(2 * MARGIN, rounding):
            # A split of nothing would leave two entries that answer nobody.
            self.labels[entry] = label
            return entry, True
        self.radii[entry] = distance / 2 - MARGIN
        return self._add(key, label, distance / 2), True

    def _add(self, key: Tensor, label: tuple[int, ...], radius: float) -> int:
        self._keys[len(self.radii)] = key
        self.radii.append(radius)
        self.labels.append(label)
        return len(self.radii) - 1

    def edit(self, previous: Edit, steps: int) -> Edit:
        """Return the previous edit with this book in the place of its own, all values found."""
        count = len(self.radii)
        values = torch.stack([self.values[entry] for entry in range(count)])
        book = Codebook(self._keys[:count].clone(), values, torch.tensor(self.radii).to(values))
        labels = [torch.tensor(label) for label in self.labels]
        padded = pad_sequence(labels, batch_first=True, padding_value=PADDING)
        loss = sum(self.losses) / len(self.losses)
        return replace(
            previous,
            adaptors={**previous.adaptors, self.module: book},
            info={"loss": loss, "steps": steps, "entries": count},
            state={**previous.state, f"{self.module}.labels": padded},
        )
