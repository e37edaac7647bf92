"""Two devices on a machine that has none, so that what mixes them fails as it would there.

Every tensor lies in the CPU's memory, and its storage has a label: ``cpu``, ``cuda:0`` or ``cuda:1``.
Within `devices`, a tensor says that it is on its label, results have the label of what went in, moving makes
a copy with another label, also of gradients on their way back, and an operation on two labels raises
torch's own error. As on real devices, a single number of the CPU goes with everything, and an index may
be the CPU's.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from accelerate import dispatch_model
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from edit_harness.model.model import Model

CPU, ONE, TWO = torch.device("cpu"), torch.device("cuda:0"), torch.device("cuda:1")
_LABELS: dict[int, tuple[StorageWeakRef, torch.device]] = {}
"""By storage. A weak reference keeps the address from being used again."""
aten = torch.ops.aten
COPIES = (aten.copy_.default,)
LISTS = ("_foreach_", "_fused_")
"""Operations on lists, each element by itself, by which optimizers take steps."""
INDEXED = (aten.index.Tensor, aten.index_put.default, aten.index_put_.default)
MOVES = {torch.Tensor.to: None, torch.Tensor.cpu: CPU, torch.Tensor.cuda: ONE}


def label(tensor: Tensor) -> torch.device:
    """Return where a tensor is said to be."""
    kept = _LABELS.get(tensor.untyped_storage()._cdata)
    return kept[1] if kept and not kept[0].expired() else CPU


def put(tensor: Tensor, device: torch.device) -> Tensor:
    """Say where a tensor is, and return it."""
    storage = tensor.untyped_storage()
    if device != CPU or storage._cdata in _LABELS:
        _LABELS[storage._cdata] = StorageWeakRef(storage), device
    return tensor


def _tensors(values: Any) -> list[Tensor]:
    return [t for t in tree_leaves(values) if isinstance(t, Tensor) and not t.is_meta]


class Moved(torch.autograd.Function):
    """A copy elsewhere, whose gradient goes back."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, device: torch.device) -> Tensor:
        ctx.home = label(tensor)
        return put(tensor.clone(), device)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return put(gradient.clone(), ctx.home), None


class Operations(TorchDispatchMode):
    """Lets every operation have one label."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunction():
            if func in COPIES:
                return func(*args, **(kwargs or {}))
            if func.__name__.startswith(LISTS):
                lists = [each for each in args if isinstance(each, list) and each]
                homes = [_home(func, together) for together in zip(*lists, strict=True)]
                results = func(*args, **(kwargs or {}))
                for tensor, home in zip(results or (), homes, strict=bool(results)):
                    put(tensor, home)
                return results
            home = _home(func, args, kwargs)
            result = func(*args, **(kwargs or {}))
            for tensor in _tensors(result):
                put(tensor, home)
            return result


def _home(func: Any, args: Any, kwargs: Any = None) -> torch.device:
    """Return where an operation is, given what goes into it. Raises torch's error if that mixes devices."""
    given = [t for t in _tensors((args, kwargs)) if t.dim() or label(t) != CPU]
    if func in INDEXED:
        given = [t for t in given if t is args[0] or label(t) != CPU]
    found = sorted({str(label(t)) for t in given})
    if len(found) > 1:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{' and '.join(found)}! ({func})"
        )
    return torch.device(found[0]) if found else CPU


class Calls(TorchFunctionMode):
    """Answers what is asked about devices, and moves."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func == torch.Tensor.device.__get__ and not args[0].is_meta:
            return label(args[0])
        if func == torch.Tensor.is_cuda.__get__:
            return label(args[0]) != CPU
        if func is torch.Tensor.numpy and label(args[0]) != CPU:
            raise TypeError("can't convert cuda device type tensor to numpy")
        if func == torch.Tensor.new_tensor:  # whose only operation is on the new one
            kwargs.setdefault("device", label(args[0]))
        if func in MOVES:
            return _moved(args[0], *_wanted(MOVES[func], args[1:], kwargs))
        device = _device(kwargs.get("device"))
        if device is None or device.type == "meta":
            return func(*args, **kwargs)
        result = func(*args, **{**kwargs, "device": CPU})
        shared = {t.untyped_storage()._cdata for t in _tensors((args, kwargs))}
        return put(result.clone() if result.untyped_storage()._cdata in shared else result, device)


def _device(given: Any) -> torch.device | None:
    if given is None or isinstance(given, bool):
        return None
    device = torch.device("cuda", given) if isinstance(given, int) else torch.device(given)
    return ONE if device == torch.device("cuda") else device


def _wanted(device: Any, args: Any, kwargs: Any) -> tuple[torch.device | None, torch.dtype | None]:
    """Return device and dtype that `torch.Tensor.to` is asked for."""
    dtype = kwargs.get("dtype")
    device = kwargs.get("device", device)
    for each in args:
        if isinstance(each, Tensor):
            device, dtype = label(each), each.dtype
        elif isinstance(each, torch.dtype):
            dtype = each
        elif isinstance(each, str | int | torch.device) and not isinstance(each, bool):
            device = each
    return _device(device), dtype


def _moved(tensor: Tensor, device: torch.device | None, dtype: torch.dtype | None) -> Tensor:
    same = tensor if dtype is None else tensor.to(dtype)
    if device is None or tensor.is_meta or device.type == "meta":
        return same if device is None else same.to("meta" if device.type == "meta" else CPU)
    return same if label(same) == device else Moved.apply(same, device)


_as_it_is = saved_tensors_hooks.__init__


def _seen_by_hooks(self: Any, pack: Any, unpack: Any) -> None:
    """Let hooks of saved tensors see devices too: torch calls them where modes are off."""

    def seeing(hook: Any) -> Any:
        def call(given: Any) -> Any:
            with Calls():
                return hook(given)

        return call

    _as_it_is(self, seeing(pack), seeing(unpack))


@contextmanager
def devices() -> Iterator[None]:
    """Have `ONE` and `TWO` for a while."""
    with Operations(), Calls(), patch.object(saved_tensors_hooks, "__init__", _seen_by_hooks):
        yield
    for key in [key for key, (kept, _) in _LABELS.items() if kept.expired()]:
        del _LABELS[key]


def spread(model: Model, places: dict[str, str], folder: Any = None) -> Model:
    """Return a model that accelerate has placed, by modules; its inputs and logits are on `ONE`."""
    skipped = "past_key_values"
    dispatch_model(
        model.module, places, ONE, offload_dir=folder, skip_keys=skipped, force_hooks=True
    )
    return Model(model.module, model.tokens.tokenizer)


def by_block(model: Model, outside: str, *blocks: str) -> dict[str, str]:
    """Return a map with a place for each block, and one for all that is of no block."""
    places = dict(zip(model.architecture.blocks, blocks, strict=True))
    named = model.module.named_parameters(remove_duplicate=False)
    for name, _ in (*named, *model.module.named_buffers()):
        if model.architecture.block_of(name) is None:
            places[name.rpartition(".")[0]] = outside
    return places
