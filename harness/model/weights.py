"""The weights of a model: reading, changing and identifying them, wherever they are kept.

Accelerate keeps some outside of the modules that use them, in memory or in files. The parameter
itself is then an empty one, of the meta device, and a hook of accelerate fills it for as long as
its module runs. Such a weight is found, read, and for a while stood in for; where it is kept
nothing is ever written.
"""

from __future__ import annotations

import hashlib
import json
from collections import ChainMap, Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..errors import PluginError, counted

if TYPE_CHECKING:
    from .architecture import Architecture


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

    def read(self) -> Tensor:
        """Return the weight, as it was saved: maybe in another precision than that of the model."""
        return self.hook.weights_map[self.key]

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
    """Return where a weight or a buffer is kept, or None if it is in the model itself.

    Raises `PluginError` if it is empty and kept nowhere.
    """
    if not _tensor(module, name).is_meta:
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
    """Return the content of a weight or a buffer, in the precision that the model computes in.

    That of one which is in the model is no copy.
    """
    tensor, place = _tensor(module, name).detach(), kept(module, name)
    return place.read().to(tensor.dtype) if place else tensor


def executing_on(module: nn.Module) -> torch.device | None:
    """Return where accelerate has a module compute, or None if it has no say in that."""
    for part in module.modules():
        for hook in hooks_of(part):
            if (device := getattr(hook, "execution_device", None)) is not None:
                return torch.device(device)
    return None


def same_weights(module: nn.Module) -> list[list[str]]:
    """Return the names of parameters, in their order, those of one weight together.

    Two empty parameters do not show that they are of one weight; of these, what the model says counts.
    """
    named = dict(module.named_parameters(remove_duplicate=False))
    said = getattr(module, "all_tied_weights_keys", None) or {}
    first: dict[int, str] = {}
    groups: dict[str, list[str]] = {}
    for name, parameter in named.items():
        source = said.get(name, name)
        empty = parameter.is_meta or named.get(source, parameter).is_meta
        own = source if empty and source in named else name
        groups.setdefault(first.setdefault(id(named[own]), own), []).append(name)
    return list(groups.values())


@contextmanager
def added(module: nn.Module, name: str, change: Tensor) -> Iterator[None]:
    """Have something added to a weight, under all names that it has, and take its bits back after.

    A weight that is kept elsewhere is stood in for; the others are written.
    """
    names = next(group for group in same_weights(module) if name in group)
    written: set[int] = set()
    with ExitStack() as stack:
        for each in names:
            if place := kept(module, each):
                weight, original = value(module, each), place.hook.weights_map
                stack.callback(setattr, place.hook, "weights_map", original)
                instead = {place.key: weight + change.to(weight)}
                place.hook.weights_map = ChainMap(instead, original)
            elif id(parameter := module.get_parameter(each)) not in written:
                written.add(id(parameter))
                stack.callback(_write, parameter, parameter.detach().clone())
                with torch.no_grad():
                    parameter.add_(change.to(parameter))
        yield


@torch.no_grad()
def _write(parameter: nn.Parameter, values: Tensor) -> None:
    parameter.copy_(values)


def _tensor(module: nn.Module, name: str) -> Tensor:
    parent, _, own = name.rpartition(".")
    tensor = getattr(module.get_submodule(parent), own)
    assert isinstance(tensor, Tensor)
    return tensor


def described(architecture: Architecture) -> str:
    """Return where a model is: its device, or how many blocks are in each place."""
    places = Counter(_place(architecture.block(layer)) for layer in range(architecture.layers))
    (first, count), *others = places.items()
    if not others and first != "disk":
        return first
    shown = [f"{first} ({counted(count, 'block')})", *(f"{p} ({n})" for p, n in others)]
    return f"spread over {', '.join(shown)}"


def _place(block: nn.Module) -> str:
    """Return where a block's first weight is."""
    name, parameter = next(block.named_parameters())
    place = kept(block, name)
    if place is None:
        return str(parameter.device)
    return "cpu" if place.file is None else "disk"


def of_module(module: nn.Module) -> str:
    """SHA-256 over the names, types, shapes and bits of all weights, and the configuration."""
    transformer: Any = module
    weights = ((name, value(module, name)) for name in sorted(module.state_dict()))
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
    place = kept(module, name)
    if place is None or place.file is None:
        return checksum(value(module, name))
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
