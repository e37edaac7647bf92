"""Rows of tokens to forward passes: many texts in one tree, many trees in one batch.

A CounterFact+ case asks ten prompts behind one fact, each for two objects: as rows of their own,
the fact would be run twenty times. In a tree a node is a token, and stands for all texts that begin
in the same way up to it. It attends to its ancestors, by the mask, and its position is its depth. A
causal model answers as if every text ran alone, but for the order in which numbers are added. A
model whose attention follows no such mask (ALiBi) fails the trial `packs`, and gets plain rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..edits import UNEDITED
from .batch import Batch, Beginning, Prediction, TokenRow, Wanted, predict
from .hooks import Places

if TYPE_CHECKING:
    from .model import Model


T = TypeVar("T", bound=Sized)
NODES = 256
"""Largest tree: the mask of a tree grows with the square of its nodes."""
SPREAD = 1.15
"""Trees of a batch differ in size by this factor at most, or padding eats what sharing saves."""
SLICE = 32
"""Predictions that are read at once: a softmax takes as much memory as the logits themselves."""
TRIED = 8
"""Tokens of the texts by which a model is tried."""
TRIAL_TOLERANCE = {"float64": 1e-6, "float32": 1e-3, "bfloat16": 0.2, "float16": 0.05}
"""Largest difference of a log-probability, in nats, that passes for rounding."""


def agrees(model: Model, expected: Tensor, tried: Callable[[], Tensor]) -> bool:
    """Tell whether a trial succeeds and gives what is expected, but for rounding."""
    try:
        return same(expected, tried(), model.dtype)
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError):
        return False


def same(one: Tensor, other: Tensor, dtype: torch.dtype) -> bool:
    """Tell whether logits or log-probabilities of a model are equal but for rounding."""
    difference = one.log_softmax(-1) - other.log_softmax(-1)
    return float(difference.abs().max()) <= TRIAL_TOLERANCE[str(dtype)[6:]]


@dataclass
class Tree:
    """A prefix tree of rows of one edit."""

    tokens: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    rows: list[tuple[TokenRow, list[int]]] = field(default_factory=list)
    """Each row with the nodes of its tokens."""
    wanted: dict[int, Wanted] = field(default_factory=dict)
    """What is read at nodes, for all rows together."""
    _children: dict[tuple[int, int], int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.tokens)

    def known(self, ids: Sequence[int]) -> list[int]:
        """Return the nodes of the beginning of a text that is in the tree already."""
        path: list[int] = []
        for token in ids:
            child = self._children.get((path[-1] if path else -1, token))
            if child is None:
                break
            path.append(child)
        return path

    def add(self, row: TokenRow) -> None:
        """Add a row's text, and what it wants."""
        path = self.known(row.ids)
        for depth in range(len(path), len(row.ids)):
            parent = path[-1] if path else -1
            self._children[parent, row.ids[depth]] = len(self.tokens)
            path.append(len(self.tokens))
            self.tokens.append(row.ids[depth])
            self.depths.append(depth)
        self.rows.append((row, path))
        for position, want in row.wanted.items():
            self.wanted.setdefault(path[position], Wanted()).merge(want)

    def sees(self) -> Tensor:
        """Return which nodes each node attends to, nodes by nodes: itself and its ancestors."""
        sees = np.eye(len(self), dtype=bool)
        for _, path in self.rows:
            for parent, node in pairwise(path):
                sees[node] |= sees[parent]
        return torch.from_numpy(sees)


def grow(rows: Sequence[TokenRow], limit: int = NODES) -> list[Tree]:
    """Put rows of one edit into trees of at most ``limit`` nodes, or of one row that is longer."""
    # In the order of their tokens, texts with the longest beginnings in common come together.
    trees: list[Tree] = []
    for row in sorted(rows, key=lambda row: row.ids):
        tree = trees[-1] if trees else None
        if tree is None or len(tree) + len(row.ids) - len(tree.known(row.ids)) > limit:
            trees.append(Tree())
        trees[-1].add(row)
    return trees


def batches(trees: Sequence[T], tokens: int, most: int | None = None) -> Iterator[list[T]]:
    """Yield at most ``most`` trees or rows of nearly one size, the largest first.

    They have at most ``tokens`` nodes with padding, or are one.
    """
    batch: list[T] = []
    for tree in sorted(trees, key=len, reverse=True):
        if batch:
            widest = len(batch[0])
            full = (len(batch) + 1) * widest > tokens or len(batch) == most
            if full or widest > SPREAD * len(tree):
                yield batch
                batch = []
        batch.append(tree)
    if batch:
        yield batch


def padded_trees(trees: Sequence[Tree], dtype: torch.dtype, device: torch.device) -> Batch:
    """Lay trees out as rows; padding sees itself alone, since minus infinities have no softmax."""
    width = max(map(len, trees))
    ids = torch.zeros(len(trees), width, dtype=torch.long)
    positions = torch.zeros_like(ids)
    sees = torch.eye(width, dtype=torch.bool).repeat(len(trees), 1, 1)
    for i, tree in enumerate(trees):
        size = len(tree)
        ids[i, :size] = torch.tensor(tree.tokens)
        positions[i, :size] = torch.tensor(tree.depths)
        sees[i, :size, :size] = tree.sees()
    parts = (ids, additive(sees, dtype), ids.new_zeros(len(trees)), positions)
    return Batch(*(part.to(device) for part in parts))


def additive(sees: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what to add to attention scores, rows by 1 by columns by columns."""
    mask = torch.zeros(sees.shape, dtype=dtype, device=sees.device)
    return mask.masked_fill_(~sees, torch.finfo(dtype).min)[:, None]


def trees_of(model: Model, rows: Sequence[TokenRow]) -> list[Tree]:
    """Return the rows as trees: those of one edit together where the model allows it."""
    # Adaptors count tokens from the prompt's end, which the texts of a tree do not share.
    together: dict[int, list[TokenRow]] = {}
    alone: list[Tree] = []
    for row in rows:
        if not row.edit.adaptors and model.sees(len(row.ids)):
            together.setdefault(id(row.edit), []).append(row)
        else:
            alone += grow([row])
    return [tree for group in together.values() for tree in grow(group)] + alone


def run_trees(model: Model, trees: Sequence[Tree], run: Callable[[Sequence[Tree]], None]) -> None:
    """Run trees in batches; those of a single text apart, since they need no mask."""
    for single in (False, True):
        run_halving(model, [tree for tree in trees if (len(tree.rows) == 1) == single], run)


def run_halving(
    model: Model,
    rows: Sequence[T],
    run: Callable[[Sequence[T]], None],
    made: Sequence[Sequence[T]] = (),
) -> None:
    """Run trees or rows in `batches`, or in those that are ``made`` already.

    Halves a batch that memory does not hold, and with it the model's budget of tokens.
    """
    waiting = list(made or batches(rows, model.batch_tokens, model.batch_rows))[::-1]
    while waiting:
        batch = waiting.pop()
        try:
            run(batch)
            continue
        except torch.OutOfMemoryError:
            if len(batch) == 1:
                raise
        # Out here the exception is gone, and with it the tensors that its frames hold.
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
        if masked or any(len(tree.rows) > 1 for tree in trees):
            return cls(trees, padded_trees(trees, model.dtype, model.device))
        return cls(trees, model.batch([tree.tokens for tree in trees]))

    @cached_property
    def reads(self) -> list[tuple[int, int, Wanted]]:
        """What is read: tree, node and what is wanted there."""
        return [(i, *want) for i, tree in enumerate(self.trees) for want in tree.wanted.items()]

    @property
    def places(self) -> Places:
        """Where the reads lie; the first token if there are none."""
        at = [(i, node) for i, node, _ in self.reads] or [(0, 0)]
        return self.batch.places(*zip(*at, strict=True))

    @property
    def nodes(self) -> Places:
        """Where all nodes lie, tree after tree."""
        at = [(i, node) for i, tree in enumerate(self.trees) for node in range(len(tree))]
        return self.batch.places(*zip(*at, strict=True))

    def take(self, logits: Tensor, base: Mapping[Beginning, Prediction]) -> None:
        """Give each row its predictions, from the logits at the `places`."""
        found: dict[tuple[int, int], Prediction] = {}
        for start in range(0, len(self.reads), SLICE):
            reads = self.reads[start : start + SLICE]
            lines = logits[start : start + SLICE]
            made = predict(lines, [want for *_, want in reads], base)
            found |= zip(((i, node) for i, node, _ in reads), made, strict=True)
        for i, tree in enumerate(self.trees):
            for row, path in tree.rows:
                row.found |= {at: found[i, path[at]] for at in row.wanted}


@torch.no_grad()
def packs(model: Model) -> bool:
    """Tell whether a tree of texts is answered as the texts alone, by a trial.

    Its texts part at once, late and not at all, and are of several lengths.
    """
    size = model.architecture.config.vocab_size
    longest = min(TRIED, model.tokens.limit or TRIED)
    ids, other = ([(a * i + b) % size for i in range(longest)] for a, b in ((7, 1), (11, 5)))
    half = longest // 2
    texts = [t for t in (ids, ids[:half] + other[: half - 1], ids[: half + 1], other) if t]

    def last(*texts: Sequence[int]) -> Tensor:
        """Return the logits behind each of the texts, run as one tree."""
        (tree,) = grow([TokenRow(UNEDITED, tuple(text), len(text)) for text in texts])
        ends = {row.ids: path[-1] for row, path in tree.rows}
        ran = Pass.of(model, [tree])
        return model.logits(
            ran.batch, ran.batch.places([0] * len(texts), [ends[tuple(t)] for t in texts])
        )

    return agrees(model, torch.cat([last(text) for text in texts]), lambda: last(*texts))
