"""Many fine-tunings of one projection in shared passes, each with a change and an Adam of its own.

A pass runs only what lies above the projection: its keys are the clean ones, and the change
reaches its outputs. The gradient of the outputs is what autograd computes; that of a case's weight
is a product with its keys, made for one case at a time. What is trained is the change, in fp32 or
more: in a model of half precision it is not rounded with the weight.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod

import torch
from torch import Tensor

from edit_harness import Request
from edit_harness.edits import Delta, Dense, Edit
from edit_harness.model.architecture import Projection
from edit_harness.model.model import Model

from .._search.suffix import SuffixForward

GROUP_BYTES = 2 * 2**30
"""Most bytes of changes and their Adam moments that share passes, unless one case needs more."""
GROUP_TEXTS = 64
"""Most texts of a pass, unless one case's chunk has more."""
SPREAD = 1.5
"""Texts of a pass differ in length by this factor at most, or padding eats what sharing saves."""


@dataclass(frozen=True)
class Settings:
    """Hyperparameters of one case."""

    lr: float
    weight_decay: float
    bias: bool
    chunk: int
    device: torch.device
    bound: float | None
    """Half-width of the box around each weight, or None for no box."""


@dataclass(frozen=True)
class Text:
    """A request as tokens."""

    ids: tuple[int, ...]
    reads: tuple[int, ...]
    """Position where each target token is scored."""
    target: tuple[int, ...]


def teacher_forced(model: Model, request: Request) -> Text:
    """Return a request's text, each target token scored after those before it."""
    parts = model.tokens.split(request.text, request.target_new)
    return Text(parts.inputs, tuple(parts.places), parts.target)


class Case:
    """A batch of requests and its own change of the projection, moved by its own Adam."""

    chunks: list[Sequence[Text]]
    losses: list[float]
    """The mean over requests in each pass."""
    changes: dict[str, Tensor]
    """By parameter, in its orientation."""

    def __init__(self, given: Settings, projection: Projection, texts: Sequence[Text]) -> None:
        self.chunks = [texts[i : i + given.chunk] for i in range(0, len(texts), given.chunk)]
        self.losses, self._sum = [], 0.0
        self._out_in = projection.out_in
        self._originals = {
            name: tensor
            for name, tensor in projection.parameters.items()
            if given.bias or not name.endswith(".bias")
        }
        # Contiguous, as gradients are: the fused Adam takes no notice of strides.
        self.changes = {
            name: torch.zeros(tensor.shape, dtype=wide(tensor.dtype), device=given.device)
            for name, tensor in self._originals.items()
        }
        self._decay, self._bound = given.weight_decay, given.bound
        self._adam = torch.optim.Adam(
            list(self.changes.values()), given.lr, weight_decay=self._decay, fused=True
        )

    def outputs(self, keys: Tensor) -> Tensor:
        """Return what the change adds for keys, texts by tokens by d_in, to the outputs."""
        deltas = map(Dense, self.changes.values())
        weight, *bias = (delta.through(keys, out_in=self._out_in) for delta in deltas)
        return sum(bias, weight)

    def step(self, keys: Tensor, gradient: Tensor) -> None:
        """Take a step, given keys and the gradient of the outputs, texts by tokens by width."""
        x, g = keys.flatten(0, 1), gradient.flatten(0, 1)
        for name, change in self.changes.items():
            if change.dim() == 1:
                change.grad = g.sum(0)
            else:
                change.grad = g.T @ x if self._out_in else x.T @ g
            if self._decay:
                # Adam adds the term of the change; the decay is of the whole parameter.
                change.grad.add_(self._originals[name].to(change.device), alpha=self._decay)
        self._adam.step()
        self._adam.zero_grad()
        if self._bound is not None:
            for change in self.changes.values():
                change.clamp_(-self._bound, self._bound)

    def note(self, chunk: int, loss: float) -> None:
        """Take down the mean loss of a chunk."""
        self._sum += loss * len(self.chunks[chunk])

    def close(self) -> None:
        """End a pass over all chunks."""
        self.losses.append(self._sum / sum(map(len, self.chunks)))
        self._sum = 0.0

    def edit(self) -> Edit:
        """Return the change as it stands."""
        weights: dict[str, Delta] = {name: Dense(change) for name, change in self.changes.items()}
        return Edit(weights, info={"loss": self.losses[-1], "steps": len(self.losses)})


class Part:
    """One chunk of each case's requests, laid out to be run again and again.

    The rows of a case are consecutive, and so are its predictions.
    """

    rows: list[slice]
    """The rows of each case."""
    sizes: list[int]
    """How many predictions are read of each case."""
    tokens: Tensor
    """What each prediction should be."""
    shares: Tensor
    """One over the weight of each prediction in its case's loss."""

    def __init__(self, model: Model, layer: int, cases: Sequence[Case], chunk: int) -> None:
        self.chunk = chunk
        self.cases = [case for case in cases if chunk < len(case.chunks)]
        chunks = [case.chunks[chunk] for case in self.cases]
        texts = [text for own in chunks for text in own]
        ends = accumulate(map(len, chunks))
        self.rows = [slice(end - len(own), end) for end, own in zip(ends, chunks, strict=True)]
        self.sizes = [sum(len(text.reads) for text in own) for own in chunks]
        self.again = SuffixForward(model, layer, [text.ids for text in texts], [0] * len(texts))
        reads = [(i, position) for i, text in enumerate(texts) for position in text.reads]
        self.read = self.again.places(*zip(*reads, strict=True))
        tokens = [token for text in texts for token in text.target]
        self.tokens = torch.tensor(tokens, device=model.device)
        shares = [len(own) * len(text.reads) for own in chunks for text in own for _ in text.reads]
        self.shares = torch.tensor(shares, device=model.device)

    def change(self) -> Tensor:
        """Return what the cases add to the projection's outputs, texts by tokens by hidden."""
        keys, mine = self.again.keys, zip(self.cases, self.rows, strict=True)
        return torch.cat([case.outputs(keys[rows]) for case, rows in mine])


def grouped(batches: Sequence[Sequence[Text]], chunk: int, size: int) -> Iterator[list[int]]:
    """Yield batches, by index, in groups that share passes: texts of nearly one length.

    ``size`` is what each of them needs of `GROUP_BYTES`.
    """
    lengths = [max(len(text.ids) for text in batch) for batch in batches]
    group, texts = list[int](), 0
    for i in sorted(range(len(batches)), key=lengths.__getitem__):
        new = min(len(batches[i]), chunk)
        full = (len(group) + 1) * size > GROUP_BYTES or texts + new > GROUP_TEXTS
        if group and (full or lengths[i] > SPREAD * lengths[group[0]]):
            yield group
            group, texts = [], 0
        group.append(i)
        texts += new
    if group:
        yield group


def state_bytes(projection: Projection) -> int:
    """Return the bytes of one case's change and of Adam's two moments of it."""
    return 3 * prod(projection.shape) * wide(projection.dtype).itemsize


def wide(dtype: torch.dtype) -> torch.dtype:
    """Return the precision in which the change of a parameter of some precision is kept."""
    return torch.promote_types(dtype, torch.float32)
