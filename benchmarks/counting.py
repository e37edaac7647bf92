"""What a route runs and holds, in exact integers, and the seconds that it takes.

Passes are counted by hooks on all modules of the process, not on those of the model: `Model` reads
a head that carries a hook in another way, so a hook there would change what it is to count.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from functools import partial
from operator import add
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from edit_harness.model.architecture import Architecture
from edit_harness.model.hooks import owner


@dataclass
class Work:
    """What was run."""

    forwards: int = 0
    layers: int = 0
    """Positions times blocks, forward."""
    layers_back: int = 0
    """Those that a gradient went back through; weights need none, so each costs what it did."""
    heads: int = 0
    heads_back: int = 0
    unread: int = 0
    """Positions of the last block at which its MLP did not run."""
    unread_back: int = 0
    writes: int = 0
    """Times that a parameter was written to."""
    seconds: float = 0.0
    """Of the process on a CPU, of the stream on a GPU."""
    wall: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(*map(add, astuple(self), astuple(other)))

    def macs(self, cost: Cost) -> int:
        """Return the multiplications with weights; attention's scores are not among them."""
        blocks, heads = self.layers + self.layers_back, self.heads + self.heads_back
        return blocks * cost.block + heads * cost.head - (self.unread + self.unread_back) * cost.mlp


@dataclass(frozen=True)
class Cost:
    """What one position costs, in multiplications with weights."""

    block: int
    """12 d² in GPT-2 and GPT-J."""
    head: int
    mlp: int
    """That of a block: 8 d² there."""

    @classmethod
    def of(cls, architecture: Architecture) -> Cost:
        """Return the cost of a model."""
        mlp = architecture.module.get_submodule(owner(architecture.down(0)))
        parts = (architecture.block(0), architecture.head, mlp)
        return cls(*(sum(p.numel() for p in part.parameters() if p.dim() > 1) for part in parts))


@contextmanager
def counting(architecture: Architecture) -> Iterator[Work]:
    """Count and time what runs of a model."""
    work = Work()
    blocks = {architecture.block(i) for i in range(architecture.layers)}
    last = architecture.block(architecture.layers - 1)
    mlp = architecture.module.get_submodule(owner(architecture.down(architecture.layers - 1)))
    parameters = list(architecture.module.parameters())

    def hook(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if module is architecture.module:
            work.forwards += 1
        elif module in blocks:
            entered = args[0] if args else kwargs["hidden_states"]
            _count(work, "layers", entered, output)
            if module is last:
                _count(work, "unread", entered, output)
        elif module is mlp:
            _count(work, "unread", args[0], output, -1)
        elif module is architecture.head:
            _count(work, "heads", args[0], output)

    handle = register_module_forward_hook(hook, with_kwargs=True)
    written = sum(p._version for p in parameters)
    wall, seconds = time.perf_counter(), _clock(parameters[0].device)
    try:
        yield work
    finally:
        work.seconds, work.wall = seconds(), time.perf_counter() - wall
        work.writes = sum(p._version for p in parameters) - written
        handle.remove()


def _count(work: Work, what: str, entered: Tensor, output: Any, sign: int = 1) -> None:
    output = output if isinstance(output, Tensor) else output[0]
    positions = sign * output.shape[:-1].numel()
    setattr(work, what, getattr(work, what) + positions)

    def back(_: Tensor) -> None:
        setattr(work, f"{what}_back", getattr(work, f"{what}_back") + positions)

    # No gradient goes back through the block in which the change is made.
    if entered.requires_grad and output.requires_grad:
        output.register_hook(back)


def _clock(device: torch.device) -> Callable[[], float]:
    """Return what tells the seconds since now."""
    if device.type != "cuda":
        start = time.process_time()
        return lambda: time.process_time() - start
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()

    def seconds() -> float:
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1000

    return seconds


def peak_memory(device: torch.device, run: Callable[[], Any]) -> int:
    """Return how many bytes the tensors that a call makes take at most, at one time.

    The same on every machine, unlike the resident size of the process, whose peak was seen to be a
    tenth higher.
    """
    if device.type != "cuda":
        with _Live() as live:
            run()
        return live.peak
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    run()
    return torch.cuda.max_memory_allocated(device) - before


class _Live(TorchDispatchMode):
    """Sums the storages that operations make and that are still there."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._sizes: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and take in what it made, not what it only gave another view of."""
        given = {storage._cdata for storage in _storages((args, kwargs))}
        output = func(*args, **(kwargs or {}))
        for storage in _storages(output):
            if storage._cdata not in given and storage._cdata not in self._sizes:
                self._sizes[storage._cdata] = storage.nbytes()
                self.now += storage.nbytes()
                weakref.finalize(storage, partial(self._freed, storage._cdata))
        self.peak = max(self.peak, self.now)
        return output

    def _freed(self, key: int) -> None:
        self.now -= self._sizes.pop(key)


def _storages(values: Any) -> list[torch.UntypedStorage]:
    return [v.untyped_storage() for v in tree_leaves(values) if isinstance(v, Tensor)]
