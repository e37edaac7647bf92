"""Forward hooks: read a pass, add to it, or give each row the effect of its own edit.

Every function returns a context that removes its hooks whatever happens. Places are rows and
columns of the padded batch. Nothing here writes a weight.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from ..edits import Adaptor, Edit, Rows
from ..errors import Expired, HarnessError, PluginError
from ..registry.guard import blamed, named
from .weights import executing_on

NOT_ITS_OWN = (HarnessError, Expired, torch.OutOfMemoryError, torch.AcceleratorError, MemoryError)
"""Errors that an adaptor's code may raise without being at fault."""
Spans: TypeAlias = Sequence[tuple[Edit, slice]]
"""Edits with the rows that each of them has."""


@dataclass(frozen=True)
class Places:
    """Positions in a batch: one row and one column for each."""

    rows: Tensor
    columns: Tensor

    def on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return rows and columns as an index of a tensor on a device."""
        return self.rows.to(device), self.columns.to(device)


def registered(
    module: nn.Module, hook: Any, *, with_kwargs: bool = False
) -> AbstractContextManager[Any]:
    """Have a hook for a while that sees what comes out of a module, and may replace it."""
    return module.register_forward_hook(hook, with_kwargs=with_kwargs)


def before(module: nn.Module, hook: Any) -> AbstractContextManager[Any]:
    """Have a hook for a while that sees what goes into a module, and may replace it."""
    return module.register_forward_pre_hook(hook, with_kwargs=True)


@dataclass
class Recorded:
    """What went into a module and came out of it, rows by positions by width."""

    inputs: Tensor
    outputs: Tensor


@contextmanager
def recording(module: nn.Module, rows: int) -> Iterator[Recorded]:
    """Keep the module's input and output of the coming pass, with their gradients' history."""
    seen = Recorded(torch.empty(0), torch.empty(0))

    def hook(_: nn.Module, args: tuple[Tensor, ...], output: Any) -> None:
        seen.inputs, seen.outputs = by_row(args[0], rows), by_row(first(output), rows)

    with registered(module, hook):
        yield seen


@dataclass
class Probed:
    """What went into a module, and zeros added to its output, both rows by positions by width.

    The gradient of the zeros is that of the output.
    """

    inputs: Tensor
    zeros: Tensor


@contextmanager
def probing(modules: Sequence[nn.Module], rows: int) -> Iterator[list[Probed]]:
    """Let gradients of each module's output be taken in the coming pass, but of no parameter."""
    seen = [Probed(torch.empty(0), torch.empty(0)) for _ in modules]

    def hook(kept: Probed, _: nn.Module, args: tuple[Tensor, ...], output: Any) -> Any:
        whole = by_row(first(output), rows)
        kept.inputs = by_row(args[0].detach(), rows)
        kept.zeros = torch.zeros_like(whole, requires_grad=True)
        return with_first(output, whole + kept.zeros)

    with ExitStack() as stack:
        for module, kept in zip(modules, seen, strict=True):
            stack.enter_context(registered(module, partial(hook, kept)))
        yield seen


class Enough(Exception):
    """Ends a pass whose rest nobody needs."""


@contextmanager
def inputs_of(
    modules: Sequence[nn.Module], rows: int, *, only: bool = False
) -> Iterator[list[list[Tensor]]]:
    """Keep what goes into each module in the coming passes, rows by positions by width.

    With ``only``, the pass ends as soon as all modules have run, and the block of the ``with`` too.
    """
    seen: list[list[Tensor]] = [[] for _ in modules]

    def hook(kept: list[Tensor], _: nn.Module, args: tuple[Any, ...], kwargs: Any) -> None:
        kept.append(by_row(entered(args, kwargs), rows))
        if only and all(seen):
            raise Enough

    with ExitStack() as stack:
        for module, kept in zip(modules, seen, strict=True):
            stack.enter_context(before(module, partial(hook, kept)))
        with suppress(Enough):
            yield seen


@contextmanager
def adding(module: nn.Module, places: Places, values: Tensor, rows: int) -> Iterator[None]:
    """Add values, one vector for each place, to the module's output; differentiable in them."""

    def hook(_: nn.Module, __: tuple[Tensor, ...], output: Any) -> Any:
        whole = by_row(first(output), rows)
        index = places.on(whole.device)
        return with_first(output, whole.index_put(index, values.to(whole), accumulate=True))

    with registered(module, hook):
        yield


def gathering(head: nn.Module, places: Places) -> AbstractContextManager[Any]:
    """Let the head see the given places only, so that its output has one position for each.

    The vocabulary is the widest matrix of a small model; most positions are never read.
    """

    def hook(_: nn.Module, args: tuple[Tensor, ...], kwargs: Any) -> tuple[Any, Any]:
        return (args[0][places.on(args[0].device)][None], *args[1:]), kwargs

    return before(head, hook)


@dataclass
class Positions:
    """The positions of the pass that runs, rows by columns."""

    offsets: Tensor
    """The place of each, counted from the row's last prompt token."""
    ids: Tensor
    mask: Tensor
    """1 where a row has a token; of the columns that were read before, too."""
    passes: int = 0

    def enter(self, _: nn.Module, __: tuple[Any, ...], inputs: dict[str, Any]) -> None:
        """Take in what a pass reads; a later one of a generation goes on from the last column."""
        if self.passes:
            self.offsets = self.offsets[:, -1:] + 1
        self.passes += 1
        self.ids = inputs.get("input_ids", self.ids)
        self.mask = inputs.get("attention_mask", self.mask)

    def of(
        self, rows: slice, device: torch.device, memo: dict[str, Any], shared: dict[str, Any]
    ) -> Rows:
        """Return what an adaptor is told of its rows."""
        mask = self.mask[:, -self.ids.shape[1] :].bool()
        told = (each[rows].to(device) for each in (self.offsets, mask, self.ids))
        return Rows(*told, memo, shared)


@contextmanager
def editing(module: nn.Module, edits: Sequence[Edit], positions: Positions) -> Iterator[None]:
    """Give each row of the coming passes its own edit's effect; the first has these positions."""
    spans = spans_of(edits)
    touched = dict.fromkeys(
        name for edit, _ in spans for name in (*map(owner, edit.weights), *edit.adaptors)
    )
    shared: list[dict[str, Any]] = [{} for _ in spans]
    with ExitStack() as stack:
        stack.enter_context(before(module, positions.enter))
        for name in touched:
            hook = _row_hook(name, spans, positions, shared)
            stack.enter_context(registered(module.get_submodule(name), hook, with_kwargs=True))
        yield


def _row_hook(
    name: str, spans: Spans, positions: Positions, shared: Sequence[dict[str, Any]]
) -> Any:
    memos: list[dict[str, Any]] = [{} for _ in spans]

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        # Accelerate moves what goes into a module after it is seen here.
        outputs = by_row(first(output), len(positions.offsets))
        inputs = by_row(entered(args, kwargs), len(positions.offsets)).to(outputs.device)
        changed = outputs.clone()
        add_changes(name, module, spans, inputs, changed)
        for (edit, rows), memo, common in zip(spans, memos, shared, strict=True):
            # An adaptor may have a length, and be empty.
            if (adaptor := edit.adaptors.get(name)) is not None:
                told = positions.of(rows, changed.device, memo, common)
                with blaming(adaptor, f"failed at {name}"):
                    made = adaptor(inputs[rows], changed[rows], told)
                    if (found := tuple(made.shape)) != (asked := tuple(changed[rows].shape)):
                        raise ValueError(f"it returned the shape {found} for outputs of {asked}")
                    changed[rows] = made
        return with_first(output, changed)

    return hook


def blaming(adaptor: Adaptor, failed: str) -> AbstractContextManager[None]:
    """Blame an adaptor for what its code raises; ``failed`` says in which way it did."""
    whose = named("adaptor", type(adaptor).__qualname__, adaptor)
    return blamed(f"{whose} {failed}", adaptor, passing=NOT_ITS_OWN)


def add_changes(
    name: str, module: nn.Module, spans: Spans, inputs: Tensor, outputs: Tensor
) -> None:
    """Add to a module's outputs, in place, what each row's edit of its parameters adds."""
    for edit, rows in spans:
        for part in ("weight", "bias"):
            if delta := edit.weights.get(f"{name}.{part}"):
                added = delta.through(inputs[rows], out_in=isinstance(module, nn.Linear))
                outputs[rows] += added.to(outputs)


def spans_of(edits: Sequence[Edit]) -> Spans:
    """Group consecutive rows of the same edit; unedited rows are left out."""
    spans, stop = [], 0
    for edit, same in groupby(edits):
        start, stop = stop, stop + len(list(same))
        if not edit.touches_nothing:
            spans.append((edit, slice(start, stop)))
    return spans


def owner(parameter: str) -> str:
    """Return the name of the module that a parameter belongs to."""
    return parameter.rpartition(".")[0]


def entered(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Return what goes into a module: its first argument, or the one that attention has by name.

    Raises `PluginError` if that is no tensor.
    """
    inputs = args[0] if args else kwargs.get("hidden_states")
    if not isinstance(inputs, Tensor):
        raise PluginError(
            "an edit is of a module that has no hidden states as its input",
            "edit the module around it, or one within",
        )
    return inputs


def first(output: Any) -> Tensor:
    """Return a module's output tensor; some blocks return a tuple."""
    return output if isinstance(output, Tensor) else output[0]


def with_first(output: Any, changed: Tensor) -> Any:
    """Return a module's output with its tensor replaced, in the shape that it had."""
    changed = changed.view_as(first(output))
    return changed if isinstance(output, Tensor) else (changed, *output[1:])


def by_row(tensor: Tensor, rows: int) -> Tensor:
    """Return rows by positions by width, also where a model flattens the first two (OPT).

    Tokens, which go into an embedding, are of width 1.
    """
    if not tensor.is_floating_point():
        return tensor[..., None]
    return tensor if tensor.dim() == 3 else tensor.view(rows, -1, tensor.shape[-1])


def device_of(module: nn.Module) -> torch.device:
    """Return where a module's inputs go: as accelerate says, or else where its first weight is."""
    device = executing_on(module) or next(parameter.device for parameter in module.parameters())
    return torch.device("cpu") if device.type == "meta" else device


def at_least_fp32(tensor: Tensor) -> Tensor:
    """Return half precision as fp32; fp64 stays, so that a test can tell an error from rounding."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
