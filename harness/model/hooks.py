"""Forward hooks: read a pass, add to it, or give each row the effect of its own edit.

Every function returns a context that removes its hooks whatever happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor, nn

from ..edits import Adaptor, Dense, Edit, LowRank, Prompter, Rows
from ..errors import HarnessError, PluginError
from ..registry.guard import blamed, named
from .weights import executing_on

if TYPE_CHECKING:
    from .batch import Batch

NOT_ITS_OWN = (HarnessError, torch.OutOfMemoryError, torch.AcceleratorError, MemoryError)
"""Errors that an adaptor's code may raise without being at fault."""
Spans: TypeAlias = Sequence[tuple[Edit, slice]]
"""Edits with the rows that each of them has."""


@dataclass(frozen=True)
class Places:
    """Positions in a padded batch: one row and one column for each."""

    rows: Tensor
    columns: Tensor

    def on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return rows and columns as an index of a tensor on a device."""
        return self.rows.to(device), self.columns.to(device)

    @cached_property
    def distinct(self) -> Places:
        """The places without repetition."""
        return Places(*torch.stack([self.rows, self.columns]).unique(dim=1))


def changing(
    module: nn.Module, rows: int, change: Callable[[Tensor, Tensor], Tensor | None]
) -> AbstractContextManager[Any]:
    """Call ``change`` on a module's inputs and outputs for a while, rows by positions by width.

    The module puts out what it returns, unless that is None.
    """

    def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        own = first(output)
        if (changed := change(by_row(entered(args, kwargs), rows), by_row(own, rows))) is None:
            return None
        changed = changed.view_as(own)
        return changed if isinstance(output, Tensor) else (changed, *output[1:])

    return module.register_forward_hook(hook, with_kwargs=True)


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
            stack.enter_context(
                module.register_forward_pre_hook(partial(hook, kept), with_kwargs=True)
            )
        with suppress(Enough):
            yield seen


def adding(
    module: nn.Module, places: Places, values: Tensor, rows: int
) -> AbstractContextManager[Any]:
    """Add values, one vector for each place, to the module's output; differentiable in them."""

    def add(_: Tensor, outputs: Tensor) -> Tensor:
        return outputs.index_put(places.on(outputs.device), values.to(outputs), accumulate=True)

    return changing(module, rows, add)


def gathering(head: nn.Module, places: Places) -> AbstractContextManager[Any]:
    """Let the head see the given places only, so that its output has one position for each."""

    def hook(_: nn.Module, args: tuple[Any, ...], kwargs: Any) -> tuple[Any, Any]:
        return (args[0][places.on(args[0].device)][None], *args[1:]), kwargs

    return head.register_forward_pre_hook(hook, with_kwargs=True)


@contextmanager
def only_at(module: nn.Module, places: Places) -> Iterator[None]:
    """Let a module that treats each position alone run at the given places; elsewhere it puts out zeros."""
    entered: list[Tensor] = []

    def enter(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        entered[:] = args[:1]
        return (args[0][places.distinct.on(args[0].device)][None], *args[1:])

    def leave(_: nn.Module, __: Any, output: Tensor) -> Tensor:
        whole = output.new_zeros(*entered.pop().shape[:2], output.shape[-1])
        return whole.index_put(places.distinct.on(output.device), output[0])

    with module.register_forward_pre_hook(enter), module.register_forward_hook(leave):
        yield


@contextmanager
def editing(
    module: nn.Module, batch: Batch, edits: Sequence[Edit], prompt_lengths: Sequence[int]
) -> Iterator[None]:
    """Give each row its own edit's effect, in passes that begin with a batch and may go on from it."""
    spans = spans_of(edits)
    names = (name for edit, _ in spans for name in (*map(owner, edit.weights), *edit.adaptors))
    shared: list[dict[str, Any]] = [{} for _ in spans]
    seen: list[Tensor] = []  # offsets, mask and ids of the pass that runs

    def enter(_: nn.Module, __: tuple[Any, ...], inputs: dict[str, Any]) -> None:
        ids = inputs.get("input_ids", batch.ids)
        if seen:  # a generation goes on from the last column
            seen[:] = seen[0][:, -1:] + 1, torch.ones_like(ids, dtype=torch.bool), ids
        else:
            last = batch.starts + torch.tensor(prompt_lengths, device=ids.device) - 1
            offsets = torch.arange(ids.shape[1], device=ids.device) - last[:, None]
            seen[:] = offsets, inputs.get("attention_mask", batch.mask).bool(), ids

    def change(
        name: str, changes: Changes, memos: list[Any], inputs: Tensor, outputs: Tensor
    ) -> Tensor:
        # Accelerate moves what goes into a module after it is seen here.
        inputs = inputs.to(outputs.device)
        changed = changes.added(inputs, outputs)
        for (edit, rows), memo, common in zip(spans, memos, shared, strict=True):
            # An adaptor may have a length, and be empty.
            if (adaptor := edit.adaptors.get(name)) is not None:
                offsets, mask, ids = (each[rows].to(changed.device) for each in seen)
                told = Rows(offsets, mask, ids, memo, common)
                with blaming(adaptor, f"failed at {name}"):
                    made = adaptor(inputs[rows], changed[rows], told)
                    if (found := tuple(made.shape)) != (asked := tuple(changed[rows].shape)):
                        raise ValueError(f"it returned the shape {found} for outputs of {asked}")
                    changed[rows] = made
        return changed

    with ExitStack() as stack:
        if any(edit.adaptors for edit, _ in spans):
            stack.enter_context(module.register_forward_pre_hook(enter, with_kwargs=True))
        for name in dict.fromkeys(names):
            target = module.get_submodule(name)
            changes = Changes(name, target, edits, batch.ids.shape[1])
            own = partial(change, name, changes, [{} for _ in spans])
            stack.enter_context(changing(target, len(edits), own))
        yield


def blaming(adaptor: Adaptor | Prompter, failed: str) -> AbstractContextManager[None]:
    """Blame an adaptor for what its code raises; ``failed`` says in which way it did."""
    whose = named("adaptor", type(adaptor).__qualname__, adaptor)
    return blamed(f"{whose} {failed}", adaptor, passing=NOT_ITS_OWN)


def prompted(edit: Edit, prompt: str) -> str:
    """Return a prompt with what its edit puts before it."""
    if isinstance(edit.prefix, str):
        return edit.prefix + prompt
    with blaming(edit.prefix, "failed at a prompt"):
        return edit.prefix(prompt) + prompt


class Changes:
    """What the edits of a batch's rows add to a linear map's outputs; ``width`` is its padded tokens.

    Low-rank changes are stacked once, a pair of factors for each row, so that two products apply those of all
    edits; unless the stack were larger than the hidden states that it is for.
    """

    def __init__(self, name: str, module: nn.Module, edits: Sequence[Edit], width: int) -> None:
        self.out_in = isinstance(module, nn.Linear)
        self.dense: list[tuple[Dense, slice]] = []
        self.factors: list[tuple[Tensor | None, Tensor, Tensor]] = []
        alike: dict[Any, list[tuple[LowRank, int]]] = {}
        for edit, rows in spans_of(edits):
            for part in ("weight", "bias"):
                delta = edit.weights.get(f"{name}.{part}")
                if isinstance(delta, LowRank):
                    kind = rank if (rank := delta.left.shape[1]) <= width else delta
                    own = [(delta, i) for i in range(rows.start, rows.stop)]
                    alike.setdefault(kind, []).extend(own)
                elif delta:
                    self.dense.append((delta, rows))
        for kind, pairs in alike.items():
            where = torch.tensor([i for _, i in pairs]) if len(pairs) < len(edits) else None
            sides = [[getattr(delta, side) for delta, _ in pairs] for side in ("left", "right")]
            left, right = (own[0] if kind is pairs[0][0] else torch.stack(own) for own in sides)
            self.factors.append((where, *((right.mT, left.mT) if self.out_in else (left, right))))

    def added(self, inputs: Tensor, outputs: Tensor) -> Tensor:
        """Return new outputs, with what is added to each row; all are rows by positions by width."""
        changed = outputs if self.factors else outputs.clone()
        for where, inner, outer in self.factors:
            index = None if where is None else where.to(inputs.device)
            # In fp32 at least: half precision would lose small edits.
            x = inputs if index is None else inputs[index]
            x = x.to(torch.promote_types(inputs.dtype, inner.dtype))
            new = (x @ inner.to(x) @ outer.to(x)).to(outputs)
            changed = changed + new if index is None else changed.index_add(0, index, new)
        for delta, rows in self.dense:
            changed[rows].add_(delta.through(inputs[rows], out_in=self.out_in).to(outputs))
        return changed


def spans_of(edits: Sequence[Edit]) -> Spans:
    """Group consecutive rows of the same edit; unedited rows are left out."""
    spans: list[tuple[Edit, slice]] = []
    stop = 0
    for edit, same in groupby(edits):
        start, stop = stop, stop + len(list(same))
        if not edit.touches_nothing:
            spans.append((edit, slice(start, stop)))
    return spans


def owner(parameter: str) -> str:
    """Return the name of the module that a parameter belongs to."""
    return parameter.rpartition(".")[0]


def entered(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Return what goes into a module: its first argument, or the one that attention gets by name."""
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


def by_row(tensor: Tensor, rows: int) -> Tensor:
    """Return rows by positions by width, also where a model flattens the first two (OPT), or of tokens."""
    if not tensor.is_floating_point():
        return tensor[..., None]
    return tensor if tensor.dim() == 3 else tensor.view(rows, -1, tensor.shape[-1])


def device_of(module: nn.Module) -> torch.device:
    """Return where a module's inputs go: as accelerate says, or else where its first weight is."""
    device = executing_on(module) or next(parameter.device for parameter in module.parameters())
    return torch.device("cpu") if device.type == "meta" else device


def waits(device: torch.device) -> int:
    """Return after how many steps the host looks at what is done: on a GPU it has to wait for it."""
    return 1 if device.type == "cpu" else 5


def at_least_fp32(tensor: Tensor) -> Tensor:
    """Return half precision as fp32; fp64 stays, so that a test can tell an error from rounding."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
