"""Many texts in one row: a prefix tree of tokens, so that a shared beginning is computed once.

A CounterFact+ case asks ten neighbourhood prompts behind the same edited fact, and each of them
for two objects; as rows of their own, the fact would be run twenty times. Here a node is a token
and stands for all texts that begin in the same way up to it. Its keys and values are those of its
ancestors, which the attention mask says, and its position is its depth. A causal model cannot tell
this from running every text alone, but for the order in which numbers are added.

What may share a tree is decided by `Model`: rows of one edit, none of an edit that counts tokens.
A model whose attention does not follow such a mask (ALiBi, for one) is found out by a trial when
it is first asked and gets plain rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from .worksheet import Read, Row

T = TypeVar("T", bound=Sized)

NODES = 256
"""Largest tree: the mask of a tree grows with the square of its nodes."""
SPREAD = 1.15
"""Trees of a batch differ in size by this factor at most, or padding eats what sharing saves."""

TRIAL_TOLERANCE = {
    torch.float64: 1e-6,
    torch.float32: 1e-3,
    torch.bfloat16: 0.2,
    torch.float16: 0.05,
}
"""Largest difference of a log-probability, in nats, that passes for rounding."""


def same(one: Tensor, other: Tensor, dtype: torch.dtype) -> bool:
    """Tell whether logits or log-probabilities of a model are equal but for rounding."""
    difference = one.log_softmax(-1) - other.log_softmax(-1)
    return float(difference.abs().max()) <= TRIAL_TOLERANCE[dtype]


@dataclass
class Tree:
    """A prefix tree of rows of one edit."""

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    """Index of each node's parent; -1 for the first token of a text."""
    depths: list[int] = field(default_factory=list)
    rows: list[tuple[Row, list[int]]] = field(default_factory=list)
    """Each row with the nodes of its tokens."""
    _children: dict[tuple[int, int], int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.tokens)

    def new_nodes(self, ids: Sequence[int]) -> int:
        """Return how many nodes a text would add."""
        return len(ids) - len(self._known(ids))

    def add(self, row: Row) -> None:
        """Add a row's text."""
        path = self._known(row.ids)
        for depth in range(len(path), len(row.ids)):
            parent = path[-1] if path else -1
            self._children[parent, row.ids[depth]] = len(self.tokens)
            path.append(len(self.tokens))
            self.tokens.append(row.ids[depth])
            self.parents.append(parent)
            self.depths.append(depth)
        self.rows.append((row, path))

    @property
    def is_chain(self) -> bool:
        """Whether the tree is a single text, which needs no mask of its own."""
        return len(self.rows) == 1

    def reads(self) -> dict[int, Read]:
        """Return what is read at each node, by all rows together."""
        merged: dict[int, Read] = {}
        for row, path in self.rows:
            for position, read in row.reads.items():
                node = path[position]
                merged.setdefault(node, Read(node)).merge(read)
        return merged

    def _known(self, ids: Sequence[int]) -> list[int]:
        """Return the nodes of the beginning of a text that is in the tree already."""
        path: list[int] = []
        for token in ids:
            child = self._children.get((path[-1] if path else -1, token))
            if child is None:
                break
            path.append(child)
        return path

    def sees(self) -> Tensor:
        """Return which nodes each node attends to, nodes by nodes: itself and its ancestors."""
        sees = np.eye(len(self), dtype=bool)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                sees[node] |= sees[parent]
        return torch.from_numpy(sees)


def grow(rows: Sequence[Row], limit: int = NODES) -> list[Tree]:
    """Put rows of one edit into trees of at most ``limit`` nodes, or of one row that is longer.

    Taken in the order of their tokens, texts with the longest beginnings in common come together.
    """
    trees: list[Tree] = []
    for row in sorted(rows, key=lambda row: row.ids):
        if not trees or len(trees[-1]) + trees[-1].new_nodes(row.ids) > limit:
            trees.append(Tree())
        trees[-1].add(row)
    return trees


def batches(trees: Sequence[T], tokens: int, most: int | None = None) -> Iterator[list[T]]:
    """Yield trees, or rows, of nearly one size, the largest first: at most ``most`` of them.

    A batch has at most ``tokens`` nodes with padding, or a single tree.
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


def padded(trees: Sequence[Tree], dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Return ids and positions, trees by nodes, and the mask to add to attention scores.

    The mask is trees by 1 by nodes by nodes, 0 where a node sees another. A node of padding sees
    itself alone, since a row of nothing but minus infinity has no softmax.
    """
    width = max(map(len, trees))
    ids = torch.zeros(len(trees), width, dtype=torch.long)
    positions = torch.zeros_like(ids)
    sees = torch.eye(width, dtype=torch.bool).repeat(len(trees), 1, 1)
    for i, tree in enumerate(trees):
        size = len(tree)
        ids[i, :size] = torch.tensor(tree.tokens)
        positions[i, :size] = torch.tensor(tree.depths)
        sees[i, :size, :size] = tree.sees()
    return ids, positions, additive(sees, dtype)


def additive(sees: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what to add to attention scores, rows by 1 by columns by columns."""
    mask = torch.zeros(sees.shape, dtype=dtype, device=sees.device)
    return mask.masked_fill_(~sees, torch.finfo(dtype).min)[:, None]
