"""Patches: neurons beside an MLP, each with a key, a bias and a value (T-Patcher).

This is what an edit holds and what the model runs. How patches are learnt is the matter of
`editor`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from edit_harness.edits import Rows
from torch import Tensor
from torch.nn.functional import gelu


@dataclass(frozen=True, eq=False)
class Patches:
    """An adaptor of n neurons. Raises `ValueError` if their tensors do not belong together."""

    keys: Tensor
    """What each looks for in the MLP's inputs, n by width."""
    biases: Tensor
    """What is added to the match, n."""
    values: Tensor
    """What each adds to the MLP's outputs as it fires, n by width."""

    def __post_init__(self) -> None:
        count = len(self.keys)
        if self.keys.dim() != 2 or self.values.shape != self.keys.shape:
            raise ValueError("keys and values of patches are of one shape, patches by width")
        if self.biases.shape != (count,):
            raise ValueError(f"{count} patches need as many biases")

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """Keys, biases and values."""
        return self.keys, self.biases, self.values

    def __len__(self) -> int:
        return len(self.keys)

    def __add__(self, other: Patches) -> Patches:
        """Return these patches and the others behind them."""
        pairs = zip(self.tensors, other.tensors, strict=True)
        return Patches(*(torch.cat([mine.to(theirs), theirs]) for mine, theirs in pairs))

    def match(self, inputs: Tensor) -> Tensor:
        """Return what each patch is a GELU of, inputs by patches; far below 0 it is off."""
        keys, biases = (each.to(inputs.device) for each in (self.keys, self.biases))
        return inputs.to(keys.dtype) @ keys.T + biases

    def __call__(self, inputs: Tensor, outputs: Tensor, rows: Rows) -> Tensor:
        """Return the MLP's outputs with what the patches add; all are rows by tokens by width."""
        added = gelu(self.match(inputs)) @ self.values.to(inputs.device)
        return outputs + added.to(outputs)

    def detached(self) -> Patches:
        """Return a copy without the graph that led to it."""
        return Patches(*(tensor.detach().clone() for tensor in self.tensors))
