"""How a codebook grows: GRACE's rules (Hartvigsen et al., 2023, algorithm 1).

Which entry a request belongs to follows from keys, radii and labels alone, so it is settled before
any value is searched; the search is the matter of `output_search`. The rules are those of the
published code, but labels are compared token by token, where that code compares means of token
numbers, and what rounding decides there is decided here.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from edit_harness import PluginError
from edit_harness.edits import Edit

from .codebook import Codebook, nearest

MARGIN = 1e-5
"""What a split takes off the radius of the older entry."""
ROUNDING = {
    torch.float64: 1e-14,
    torch.float32: 1e-6,
    torch.bfloat16: 1.6e-2,
    torch.float16: 2e-3,
}
"""How far apart, in norms, two passes may see one key: a little more than was seen on pocket."""
PADDING = -1
"""Behind a label that is shorter than the longest."""


class Book:
    """A codebook while requests are taken in: entries have keys, radii and labels before values.

    ``new`` are the keys of the requests to come, requests by d_in, in order; ``dtype`` is the
    precision of the passes that they are from.
    """

    values: dict[int, Tensor]
    """By entry, once they are found."""
    losses: list[float]
    """Of each request, before the last step."""

    def __init__(
        self, edit: Edit, module: str, new: Tensor, epsilon: float, dtype: torch.dtype
    ) -> None:
        self.module, self.epsilon, self.rounding = module, epsilon, ROUNDING[dtype]
        self.losses = []
        old = _codebook(edit, module)
        self._coming = iter(new)
        self._keys = torch.cat([old.keys.to(new), torch.empty_like(new)]) if old else new.clone()
        self.radii: list[float] = old.radii.tolist() if old else []
        self.values = dict(enumerate(old.values.to(new))) if old else {}
        self.labels = _labels(edit, module) if old else []

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
        return replace(
            previous,
            adaptors={**previous.adaptors, self.module: book},
            info={
                "loss": sum(self.losses) / len(self.losses),
                "steps": steps,
                "entries": count,
            },
            state={
                **previous.state,
                _state(self.module): pad_sequence(labels, batch_first=True, padding_value=PADDING),
            },
        )


def _state(module: str) -> str:
    """Return the name under which an edit's state has the labels of a module's codebook."""
    return f"{module}.labels"


def _codebook(edit: Edit, module: str) -> Codebook | None:
    """Return the codebook of an edit, or None if it has none."""
    adaptor = edit.adaptors.get(module)
    if adaptor is None and not edit.adaptors:
        return None
    if (
        len(edit.adaptors) > 1
        or not isinstance(adaptor, Codebook)
        or _state(module) not in edit.state
        or len(edit.state[_state(module)]) != len(adaptor)
    ):
        raise PluginError(
            f"the edit so far is no codebook of {module} with labels, so grace cannot extend it",
            "extend an edit that grace made with the same layer and module",
        )
    return adaptor


def _labels(edit: Edit, module: str) -> list[tuple[int, ...]]:
    """Return the label of each entry as the tokens of its target."""
    padded = edit.state[_state(module)].tolist()
    return [tuple(token for token in label if token != PADDING) for label in padded]
