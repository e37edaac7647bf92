"""The weights of a model: reading, changing and identifying them, wherever they are kept.

The parameter of an offloaded weight is empty, of the meta device; a hook of accelerate fills it for
as long as its module runs, from memory or a file. Nothing is written to where it is kept.
"""

from __future__ import annotations

import hashlib
import json
from collections import ChainMap
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import PluginError

BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
SPAN = 1 << 16
"""Elements that are added up at once: what a processor's cache holds."""
NOT_THE_MODEL = ("_name_or_path", "transformers_version")
"""Entries of a configuration that change with where and by what the model was saved."""


@dataclass(frozen=True)
class Kept:
    """Where a weight is kept: what a hook of accelerate has under a key."""

    hook: Any
    key: str

    @property
    def file(self) -> Path | None:
        """The file that has the weight, or None if it is in memory."""
        held, key = self.hook.weights_map, self.key
        while hasattr(held, "dataset"):
            held, key = held.dataset, f"{held.prefix}{key}"
        entry = getattr(held, "index", {}).get(key)
        if entry is None or key in held.state_dict:
            return None
        return Path(entry.get("safetensors_file") or f"{held.save_folder}/{key}.dat")


def hooks_of(module: nn.Module) -> tuple[Any, ...]:
    """Return the hooks that accelerate has put on a module."""
    hook = getattr(module, "_hf_hook", None)
    return getattr(hook, "hooks", () if hook is None else (hook,))


def kept(module: nn.Module, name: str) -> Kept | None:
    """Return where a weight or a buffer is kept outside of the model; None if it is in it."""
    if not attrgetter(name)(module).is_meta:
        return None
    parts = name.split(".")
    for depth in reversed(range(len(parts))):
        for hook in hooks_of(module.get_submodule(".".join(parts[:depth]))):
            if getattr(hook, "offload", False) and hook.weights_map is not None:
                return Kept(hook, ".".join(parts[depth:]))
    raise PluginError(
        f"{name} is on no device, so that it cannot be read", "load the model with its weights"
    )


def value(module: nn.Module, name: str) -> Tensor:
    """Return a weight or a buffer in the precision that the model computes in, no copy if it is there."""
    tensor, place = attrgetter(name)(module).detach(), kept(module, name)
    return place.hook.weights_map[place.key].to(tensor.dtype) if place else tensor


def executing_on(module: nn.Module) -> torch.device | None:
    """Return where accelerate has a module compute, or None if it has no say in that."""
    hooks = (hook for part in module.modules() for hook in hooks_of(part))
    devices = (getattr(hook, "execution_device", None) for hook in hooks)
    return next((torch.device(device) for device in devices if device is not None), None)


def same_weights(module: nn.Module) -> list[list[str]]:
    """Return the names of parameters, in their order, those of one weight together.

    Of empty parameters, the model's list of tied weights says which are one.
    """
    named = dict(module.named_parameters(remove_duplicate=False))
    tied = getattr(module, "all_tied_weights_keys", None) or {}
    groups: dict[int, list[str]] = {}
    for name, parameter in named.items():
        source = named.get(tied.get(name, name), parameter)
        own = source if parameter.is_meta or source.is_meta else parameter
        groups.setdefault(id(own), []).append(name)
    return list(groups.values())


@contextmanager
def added(module: nn.Module, name: str, change: Tensor) -> Iterator[None]:
    """Add something to a weight for a while, under all its names, and restore its bits."""
    names = next(group for group in same_weights(module) if name in group)
    written: set[int] = set()
    with ExitStack() as stack:
        for each in names:
            weight, place = value(module, each), kept(module, each)
            if place:
                original = place.hook.weights_map
                stack.callback(setattr, place.hook, "weights_map", original)
                instead = {place.key: weight + change.to(weight)}
                place.hook.weights_map = ChainMap(instead, original)
            elif weight.data_ptr() not in written:
                written.add(weight.data_ptr())
                stack.callback(weight.copy_, weight.clone())
                weight.copy_(weight + change.to(weight))
        yield


def of_module(module: Any) -> str:
    """SHA-256 over the names, types, shapes and bits of all weights, and the configuration."""
    weights = ((name, value(module, name)) for name in sorted(module.state_dict()))
    return of_tensors(weights, of_config(module.config))


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
    """Return what shows that a weight or a buffer is as it was: its `checksum`, if it is in memory.

    Of one in a file it is the file, its size and when it was last written; None if it is not there.
    """
    place = kept(module, name)
    if place is None or place.file is None:
        return checksum(value(module, name))
    with suppress(OSError):
        state = place.file.stat()
        return str(place.file), state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns
    return None


@torch.no_grad()
def checksum(tensor: Tensor) -> int:
    """Return a sum over a tensor's bits, each element times a random factor of its own place.

    A change is missed with a chance below 2^-30, unless somebody looks for one on purpose.
    """
    flat = tensor.detach().contiguous().flatten().view(BITS[tensor.element_size()])
    pieces, factors = flat.split(SPAN), _factors(flat.device)
    sums = torch.stack([(piece * factors[0, : len(piece)]).sum() for piece in pieces])
    return int((sums * factors[1].repeat(len(sums) // SPAN + 1)[: len(sums)]).sum())


@cache
def _factors(device: torch.device) -> Tensor:
    """Return factors for the places in a piece and for the pieces, 2 by `SPAN`, all of them odd."""
    made = torch.Generator().manual_seed(0)
    return torch.randint(-(2**62), 2**62, (2, SPAN), generator=made).mul_(2).add_(1).to(device)
