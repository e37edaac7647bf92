"""Passes that searches run again and again, of as little as their changes reach.

A change at a token alters nothing before that token and nothing below that block: one clean pass keeps what
comes before. `SuffixForward` runs the ends of the texts alone against it, with gradients; `LastTokens` sees
what arrives at modules while edits below them grow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import fields
from typing import Self
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from edit_harness.edits import Edit
from edit_harness.errors import PluginError
from edit_harness.model.batch import Batch, Beginning, TokenRow
from edit_harness.model.hooks import Places, adding, at_least_fp32, inputs_of
from edit_harness.model.model import Model
from edit_harness.model.packing import Pass, Tree, additive, run_trees, same, trees_of
from edit_harness.model.reuse import (
    NOWHERE,
    TRIAL,
    CleanTexts,
    Start,
    start_at_block,
    start_at_projection,
)

from .memory import Cache, memory


class SuffixForward:
    """Passes over texts, each from its start on, under changes of what modules put out.

    ``changed`` names the modules, all of the block of ``layer``: linear maps, or the block itself for
    the residual stream behind it; by default the layer's projection. ``starts`` counts from each
    text's first token. ``whole`` says whether to run whole texts, and is found out by default.
    """

    keys: Tensor
    """Clean input of the first changed module, or output of the block, texts by tokens by width;
    token 0 is each text's start."""

    def __init__(
        self,
        model: Model,
        layer: int,
        texts: Sequence[Beginning],
        starts: Sequence[int],
        *,
        changed: Sequence[str] = (),
        whole: bool | None = None,
    ) -> None:
        self.model, self.starts = model, starts
        names = tuple(changed) or (model.architecture.projection(layer).name,)
        self.changed = [model.module.get_submodule(name) for name in names]
        if whole is None:
            whole = not fits_suffix(model, layer, max(map(len, texts)), names)
        self._start = None if whole else start_of(model, layer, names)
        self._hooked = self._start is None or self._start.block == layer
        block = model.architecture.blocks[layer]
        seen = [behind(model, layer) if name == block else name for name in names]
        self._is_block = [name == block for name in names]
        base = CleanTexts(model)
        base.remember(texts, {*seen, *(base.names(self._start) if self._start else ())})
        slots = [base.slots(ids) or [] for ids in texts]
        ends, self._real = _table(
            (s[start:] for s, start in zip(slots, starts, strict=True)), model.device
        )
        self._clean = [
            at_least_fp32(i[ends.to(i.device)]).to(model.device) for i in base.inputs(*seen)
        ]
        self.keys = self._clean[0]
        self._hidden: Tensor | None = None
        self._kept: dict[int, tuple[Tensor, Tensor]] = {}
        self._changes: dict[int, tuple[Tensor, ...]] = {}
        if self._start is None:
            self.batch = model.batch(texts)
            self._first = self.batch.starts + torch.tensor(starts, device=model.device)
        else:
            (entered,) = base.inputs(model.architecture.blocks[self._start.block])
            self._hidden = entered[ends.to(entered.device)]
            self._kept = _memory(base, self._start, texts, starts)
            self._first = torch.zeros(len(texts), dtype=torch.long, device=model.device)
            self.batch = self._ends(texts)

    @torch.no_grad()
    def values(self, at: int = 0) -> list[Tensor]:
        """Return what each changed module puts out, so far behind each text's start, texts by width."""
        first = [clean[:, at] for clean in self._clean]
        return [
            value if block else through(self.model, module, value)
            for module, value, block in zip(self.changed, first, self._is_block, strict=True)
        ]

    def _ends(self, texts: Sequence[Beginning]) -> Batch:
        device = self.model.device
        ids, _ = _table((t[b:] for t, b in zip(texts, self.starts, strict=True)), device)
        begin = torch.tensor(self.starts, device=device)
        known = torch.arange(max(self.starts), device=device) < begin[:, None]
        positions = begin[:, None] + torch.arange(ids.shape[1], device=device)
        return Batch(ids, additive(_sees(self._real, known), self.model.dtype), -begin, positions)

    def only(self, texts: Sequence[int]) -> Self:
        """Return the passes of some of the texts, by index."""
        fewer, index = copy(self), torch.tensor(texts, device=self.model.device)
        fewer.starts = [self.starts[i] for i in texts]
        parts = (getattr(self.batch, each.name) for each in fields(Batch))
        fewer.batch = Batch(*(part[index] for part in parts))
        fewer._real, fewer._first = self._real[index], self._first[index]
        fewer._changes = {}
        if self._hidden is not None:
            fewer._hidden = self._hidden[index.to(self._hidden.device)]
        fewer._kept = {
            block: (keys[index.to(keys.device)], values[index.to(values.device)])
            for block, (keys, values) in self._kept.items()
        }
        return fewer

    def places(self, rows: Sequence[int], positions: Sequence[int]) -> Places:
        """Return where positions, counted from each text's first token, lie in the passes."""
        return self.batch.places(rows, positions)

    def logits(self, read: Places, *changes: Tensor) -> Tensor:
        """Return logits at places, places by vocabulary, under a change of each changed module.

        A change, texts by n by width, is added at the n tokens from each text's start on; the logits
        are differentiable in it.
        """
        hidden = self._hidden
        with ExitStack() as stack:
            for module, change in zip(self.changed, changes, strict=True):
                where, values = self._spread(change)
                if self._hooked:
                    stack.enter_context(adding(module, where, values, len(self.starts)))
                elif hidden is not None:
                    at = where.on(hidden.device)
                    hidden = hidden.index_put(at, values.to(hidden), accumulate=True)
            if self._start is None or hidden is None:
                return self.model.logits(self.batch, read)
            stack.enter_context(start_at_block(self.model, self._start.block, hidden))
            return self.model.logits(self.batch, read, cache=Cache(self._kept))

    def _spread(self, change: Tensor) -> tuple[Places, Tensor]:
        """Return the places that a change is added at, and what is added there."""
        width = change.shape[1]
        if width not in self._changes:  # the host waits for these
            self._changes[width] = self._real[:, :width].nonzero(as_tuple=True)
        rows, offsets = self._changes[width]
        return Places(rows, self._first[rows] + offsets), change[rows, offsets]


def behind(model: Model, layer: int) -> str:
    """Return the name of the module that takes the residual stream behind a layer.

    Raises `PluginError` if no norm stands between the last block and the head.
    """
    architecture = model.architecture
    if layer + 1 < architecture.layers:
        return architecture.blocks[layer + 1]
    if model not in _last_norms:
        norms = {
            child: name
            for name, child in model.module.named_modules()
            if "norm" in type(child).__name__.lower() and architecture.block_of(name) is None
        }
        _last_norms[model] = architecture.last_to_run(norms)
    if not _last_norms[model]:
        raise PluginError(f"the residual stream behind block {layer} cannot be read")
    return _last_norms[model]


_last_norms: WeakKeyDictionary[Model, str] = WeakKeyDictionary()


def through(model: Model, module: nn.Module, inputs: Tensor) -> Tensor:
    """Return a linear map's outputs, rows by width, in fp32 or more."""
    dtype = next(module.parameters()).dtype
    outputs = module(inputs.to(dtype)[:, None])[:, 0]
    return at_least_fp32(outputs).to(model.device)


def start_of(model: Model, layer: int, changed: Sequence[str]) -> Start | None:
    """Return where passes can begin that change modules of a block; None if at the start."""
    if list(changed) == [model.architecture.down(layer)]:
        return start_at_projection(model, layer)
    behind = list(changed) == [model.architecture.blocks[layer]]
    block = layer + 1 if behind else layer
    there = 0 < block < model.architecture.layers and model.starts_at(block)
    return Start(block) if there else None


_fitting: WeakKeyDictionary[Model, dict[tuple[str, ...], bool]] = WeakKeyDictionary()
"""What `_fits` has found of each model, by the modules that change."""


def fits_suffix(model: Model, layer: int, longest: int, changed: Sequence[str] = ()) -> bool:
    """Tell whether ends of texts of up to so many tokens can be run alone; tried once for a model."""
    key = tuple(changed) or (model.architecture.projection(layer).name,)
    known = _fitting.setdefault(model, {})
    if key not in known:
        known[key] = _fits(model, layer, key)
    return known[key] and model.sees(longest)


def _fits(model: Model, layer: int, changed: Sequence[str]) -> bool:
    """Tell whether running ends alone gives what running whole texts does, by a trial."""
    if not model.packs or start_of(model, layer, changed) is None:
        return False
    size = model.architecture.config.vocab_size
    texts = [tuple(token % size for token in text) for text in TRIAL]
    starts, rows = [2, 1, 1], range(len(TRIAL))
    found = []
    try:
        for whole in (True, False):
            run = SuffixForward(model, layer, texts, starts, changed=changed, whole=whole)
            noise = torch.Generator().manual_seed(0)
            changes = [
                torch.randn(len(texts), 1, value.shape[1], generator=noise).to(value) * value.std()
                for value in run.values()
            ]
            with torch.no_grad():
                found.append(run.logits(run.places(rows, [len(t) - 1 for t in texts]), *changes))
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError):
        return False
    entire, ends = found
    return same(entire, ends, model.dtype)


def _memory(
    base: CleanTexts, start: Start, texts: Sequence[Beginning], starts: Sequence[int]
) -> dict[int, tuple[Tensor, Tensor]]:
    """Return keys and values before each text's start by block, texts by heads by longest by width."""
    before = [text[:begin] for text, begin in zip(texts, starts, strict=True)]
    begun = [text for text in dict.fromkeys(before) if text]
    known = memory(base, begun, start) if begun else {}
    kept: dict[int, tuple[Tensor, Tensor]] = {}
    for row, text in enumerate(before):
        for block, sides in known.get(text, {}).items():
            if block not in kept:
                heads, _, width = sides[0].shape
                shape = len(texts), heads, max(starts), width
                kept[block] = sides[0].new_zeros(shape), sides[1].new_zeros(shape)
            for whole, side in zip(kept[block], sides, strict=True):
                whole[row, :, : len(text)] = side
    return kept


def _table(lines: Iterable[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return lines of unequal length as one table, and which of its entries are real.

    A line that is shorter than the longest is filled with its first entry.
    """
    given = [list(line) for line in lines]
    width = max(map(len, given))
    filled = [line + line[:1] * (width - len(line)) for line in given]
    lengths = torch.tensor([len(line) for line in given], device=device)
    real = torch.arange(width, device=device) < lengths[:, None]
    return torch.tensor(filled, device=device), real


def _sees(real: Tensor, known: Tensor) -> Tensor:
    """Return which kept and new columns each new column attends to, padding itself alone."""
    size = real.shape[1]
    before = known[:, None, :] & real[:, :, None]
    causal = torch.ones(size, size, dtype=torch.bool, device=real.device).tril()
    itself = torch.eye(size, dtype=torch.bool, device=real.device)
    within = (causal & real[:, None, :] & real[:, :, None]) | itself
    return torch.cat([before, within], dim=2)


class LastTokens:
    """Texts whose last tokens are looked at again and again while edits grow.

    ``lowest`` is the lowest layer that any of the edits changes.
    """

    def __init__(self, model: Model, texts: Sequence[Beginning], lowest: int) -> None:
        self.model, self.texts = model, texts
        self._base = CleanTexts(model)
        self._start = Start(lowest) if lowest > 0 and model.starts_at(lowest) else None
        if self._start:
            self._base.remember(texts, self._base.names(self._start))

    @torch.no_grad()
    def inputs(self, edits: Sequence[Edit], names: Sequence[str]) -> list[Tensor]:
        """Return what goes into each named module, texts by width, in fp32 or more.

        ``edits`` has one for each text; texts of one and the same object share rows.
        """
        modules = [self.model.module.get_submodule(name) for name in names]
        rows = [TokenRow(e, ids, len(ids)) for e, ids in zip(edits, self.texts, strict=True)]
        found: dict[TokenRow, tuple[Tensor, ...]] = {}

        def run(trees: Sequence[Tree]) -> None:
            ran = Pass.of(self.model, trees)
            firsts = [tree.rows[0][0] for tree in trees]
            hidden = self._base.entry(ran, self._start) if self._start else None
            with ExitStack() as stack:
                own = [row.edit for row in firsts]
                lengths = [row.prompt_length for row in firsts]
                stack.enter_context(self.model.edited_rows(ran.batch, own, lengths))
                seen = stack.enter_context(inputs_of(modules, len(trees), only=True))
                if self._start and hidden is not None:
                    stack.enter_context(start_at_block(self.model, self._start.block, hidden))
                self.model.logits(ran.batch, NOWHERE)
            ends = {row: (i, path[-1]) for i, tree in enumerate(trees) for row, path in tree.rows}
            places = ran.batch.places(*zip(*ends.values(), strict=True))
            lines = [kept[places.on(kept.device)] for (kept,) in seen]
            found.update(zip(ends, zip(*lines, strict=True), strict=True))

        run_trees(self.model, trees_of(self.model, rows), run)
        columns = zip(*(found[row] for row in rows), strict=True)
        return [at_least_fp32(torch.stack(column)).to(self.model.device) for column in columns]
