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
    digest = hashlib.sha256(of_config(transformer.config).encode())
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().flatten()
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def state(module: nn.Module) -> dict[str, int]:
    """Return sums over the bits of all parameters and buffers, and the number of hooks of modules."""
    buffers = {
        name: int(b.detach().contiguous().view(torch.uint8).sum(dtype=torch.int64))
        for name, b in module.named_buffers()
        if b.device.type != "meta" and b.dim()
    }
    hooks = {
        f"the hooks of {name or 'the model'}": len(m._forward_hooks) + len(m._forward_pre_hooks)
        for name, m in module.named_modules()
    }
    return checksums(module) | buffers | hooks


def of_config(config: Any) -> str:
    """SHA-256 over a configuration, without where and by what it was saved."""
    ours = {k: v for k, v in config.to_dict().items() if k not in NOT_THE_MODEL}
    return hashlib.sha256(json.dumps(ours, sort_keys=True, default=str).encode()).hexdigest()


def checksums(module: nn.Module) -> dict[str, int]:
    """Return a sum over the bits of each parameter: equal before and after what leaves them.

    Weights that accelerate keeps elsewhere have no bits here to be changed.
    """
    return {
        name: int(p.detach().view(BITS[p.element_size()]).sum(dtype=torch.int64))
        for name, p in module.named_parameters()
        if p.device.type != "meta"
    }
