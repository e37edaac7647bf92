"""What identifies a model's weights: a digest for records, quick sums to see that nothing changed."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import torch
from torch import nn

BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
NOT_THE_MODEL = ("_name_or_path", "transformers_version")
"""Entries of a configuration that change with where and by what the model was saved."""


def of_module(module: nn.Module) -> str:
    """SHA-256 over the names, types, shapes and bits of all weights, and the configuration."""
    transformer: Any = module
    config = transformer.config.to_dict()
    ours = {key: value for key, value in config.items() if key not in NOT_THE_MODEL}
    digest = hashlib.sha256(json.dumps(ours, sort_keys=True, default=str).encode())
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().flatten()
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def checksums(module: nn.Module) -> dict[str, int]:
    """Return a sum over the bits of each parameter: equal before and after what leaves them.

    Weights that accelerate keeps elsewhere have no bits here to be changed.
    """
    return {
        name: int(p.detach().view(BITS[p.element_size()]).sum(dtype=torch.int64))
        for name, p in module.named_parameters()
        if p.device.type != "meta"
    }
