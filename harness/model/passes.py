"""One forward pass over trees of texts: what shares it, what goes in, what is read off.

Which texts are run, under which edits and from which block on is decided elsewhere (`base`,
`model`); here they only become batches, and logits become readings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor

from ..edits import UNEDITED
from . import packing
from .batch import Batch
from .hooks import Places
from .packing import Tree
from .worksheet import Beginning, Read, Reading, Row, take

if TYPE_CHECKING:
    from .model import Model

T = TypeVar("T", bound=Sized)

TRIED = 8
"""Tokens of the texts by which a model is first tried."""


def trees_of(model: Model, rows: Sequence[Row]) -> list[Tree]:
    """Return the rows as trees: those of one edit together where the model allows it.

    An adaptor counts tokens from the prompt's end, which texts of a tree do not have in common.
    """
    together: dict[int, list[Row]] = {}
    alone: list[Tree] = []
    for row in rows:
        if model.packs and not row.edit.adaptors and model.sees(len(row.ids)):
            together.setdefault(id(row.edit), []).append(row)
        else:
            alone += packing.grow([row])
    return [tree for group in together.values() for tree in packing.grow(group)] + alone


def attempt(model: Model, trees: Sequence[Tree], run: Callable[[Sequence[Tree]], None]) -> None:
    """Run trees in batches, as `halved` does."""
    chains = [tree for tree in trees if tree.is_chain]
    rest = [tree for tree in trees if not tree.is_chain]
    for kind in (rest, chains):  # a chain goes without a mask of its own
        halved(model, kind, run)


def halved(model: Model, rows: Sequence[T], run: Callable[[Sequence[T]], None]) -> None:
    """Run trees or rows in batches; one that memory does not hold is halved, and so is the budget.

    Raises `torch.OutOfMemoryError` if a single one is too much.
    """
    waiting = list(packing.batches(rows, model.batch_tokens, model.batch_rows))[::-1]
    while waiting:
        batch = waiting.pop()
        try:
            run(batch)
        except torch.OutOfMemoryError:
            if len(batch) == 1:
                raise
            model.batch_tokens = max(model.batch_tokens // 2, 1)
            model.halved += 1
            torch.cuda.empty_cache()
            half = len(batch) // 2
            waiting += [batch[half:], batch[:half]]


@dataclass(frozen=True)
class Pass:
    """A batch of trees."""

    trees: Sequence[Tree]
    batch: Batch

    @classmethod
    def of(cls, model: Model, trees: Sequence[Tree], *, masked: bool = False) -> Pass:
        """Lay trees out; with masks of their own unless each is a single text, or if ``masked``."""
        if not masked and all(tree.is_chain for tree in trees):
            return cls(trees, model.batch([tree.tokens for tree in trees]))
        ids, positions, mask = packing.padded(trees, model.dtype)
        starts = torch.zeros(len(trees), dtype=torch.long)
        return cls(trees, Batch(*(t.to(model.device) for t in (ids, mask, starts, positions))))

    @property
    def longest(self) -> int:
        """Tokens of the longest text."""
        return 1 + max(max(tree.depths) for tree in self.trees)

    @cached_property
    def reads(self) -> list[tuple[int, Read]]:
        """What is read of which tree; a read's position is a node."""
        return [(i, read) for i, tree in enumerate(self.trees) for read in tree.reads().values()]

    @property
    def places(self) -> Places:
        """Where the reads lie; the first token if there are none."""
        at = [(i, read.position) for i, read in self.reads] or [(0, 0)]
        return self.batch.places(*zip(*at, strict=True))

    @property
    def nodes(self) -> Places:
        """Where all nodes lie, tree after tree."""
        at = [(i, node) for i, tree in enumerate(self.trees) for node in range(len(tree))]
        return self.batch.places(*zip(*at, strict=True))

    def readings(
        self, logits: Tensor, base: Mapping[Beginning, Reading]
    ) -> dict[tuple[Row, int], Reading]:
        """Return what was read at each row's positions, from the logits at the `places`."""
        reads = [read for _, read in self.reads]
        taken = take(logits[: len(reads)], reads, base)
        found = {
            (i, read.position): reading
            for (i, read), reading in zip(self.reads, taken, strict=True)
        }
        return {
            (row, position): found[i, path[position]]
            for i, tree in enumerate(self.trees)
            for row, path in tree.rows
            for position in row.reads
        }


@torch.no_grad()
def packs(model: Model, longest: int = TRIED) -> bool:
    """Tell whether a tree of texts is answered as the texts alone, by a trial.

    Its texts part at once, late and not at all, and are of several lengths; none is longer than
    the model has positions.
    """
    size = model.architecture.config.vocab_size
    longest = min(longest, model.tokens.limit or longest)
    ids = [(7 * i + 1) % size for i in range(longest)]
    other = [(11 * i + 5) % size for i in range(longest)]
    half = longest // 2
    texts = (ids, ids[:half] + other[: half - 1], ids[: half + 1], other)
    rows = [_whole_row(tuple(text)) for text in texts if text]
    apart = [_last(model, [row]) for row in rows]
    try:
        packed = _last(model, rows)
    except (RuntimeError, ValueError, TypeError, IndexError):
        return False
    return packing.same(packed, torch.cat(apart), model.dtype)


def _whole_row(ids: Beginning) -> Row:
    return Row(UNEDITED, ids, len(ids), {len(ids) - 1: Read(len(ids) - 1, whole=True)})


def _last(model: Model, rows: Sequence[Row]) -> Tensor:
    """Return the log-probabilities after each of the rows, run as one tree."""
    (tree,) = packing.grow(rows, limit=sum(len(row.ids) for row in rows))
    ran = Pass.of(model, [tree])
    read = ran.readings(model.logits(ran.batch, ran.places), {})
    wholes = [read[row, len(row.ids) - 1].whole for row in rows]
    return torch.stack([whole for whole in wholes if whole is not None])
