"""What identifies a model's weights: a digest for records, quick marks to see that nothing changed.

Both are of weights wherever they are kept. What else an editor could leave in a model is read by
`edit_harness.run.integrity`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from . import offloading

BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
SPAN = 1 << 16
"""Elements that are added up at once: what a processor's cache holds."""
NOT_THE_MODEL = ("_name_or_path", "transformers_version")
"""Entries of a configuration that change with where and by what the model was saved."""


def of_module(module: nn.Module) -> str:
    """SHA-256 over the names, types, shapes and bits of all weights, and the configuration."""
    transformer: Any = module
    weights = ((name, offloading.value(module, name)) for name in sorted(module.state_dict()))
    return of_tensors(weights, of_config(transformer.config))


def of_tensors(tensors: Iterable[tuple[str, Tensor]], beside: str = "") -> str:
    """SHA-256 over the names, types, shapes and bits of tensors, and a text."""
    digest = hashlib.sha256(beside.encode())
    for name, tensor in tensors:
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().flatten()
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def of_config(config: Any) -> str:
    """SHA-256 over a configuration, without where and by what it was saved."""
    ours = {k: v for k, v in config.to_dict().items() if k not in NOT_THE_MODEL}
    return hashlib.sha256(json.dumps(ours, sort_keys=True, default=str).encode()).hexdigest()


def marks(module: nn.Module) -> dict[str, Any]:
    """Return the `mark` of each parameter: equal before and after what leaves them."""
    return {name: mark(module, name) for name, _ in module.named_parameters()}


def mark(module: nn.Module, name: str) -> Any:
    """Return what shows that a weight or a buffer is as it was: its `checksum`, where it is in memory.

    One that is kept in a file is not read for this, which would take as long as a forward pass: the
    mark is the file itself, its size and when it was last written. None where there is no such file.
    """
    place = offloading.kept(module, name)
    if place is None or place.file is None:
        return checksum(offloading.value(module, name))
    with suppress(OSError):
        state = place.file.stat()
        return str(place.file), state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns
    return None


@torch.no_grad()
def checksum(tensor: Tensor) -> int:
    """Return a sum over a tensor's bits, each element under a random factor of its own place.

    So two elements that changed places show, and changes that add up to nothing. That a change is
    missed has a chance below 2^-30; it is no defence against who looks for one on purpose.
    """
    size = tensor.element_size()
    if size not in BITS:  # complex numbers of double precision
        return checksum(torch.view_as_real(tensor))
    flat = tensor.detach().contiguous().flatten().view(BITS[size])
    pieces = flat.split(SPAN)
    factors = _factors(flat.device)
    if not len(flat):
        return 0
    sums = torch.stack([(piece * factors[0, : len(piece)]).sum() for piece in pieces])
    return int((sums * factors[1].repeat(len(sums) // SPAN + 1)[: len(sums)]).sum())


@cache
def _factors(device: torch.device) -> Tensor:
    """Return factors for the places in a piece and for the pieces, 2 by `SPAN`, all of them odd."""
    made = torch.Generator().manual_seed(0)
    return torch.randint(-(2**62), 2**62, (2, SPAN), generator=made).mul_(2).add_(1).to(device)
