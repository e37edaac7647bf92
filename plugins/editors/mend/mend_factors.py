"""Gradients of matrices as factors: what MEND's network is given, and the changes it gives back.

The gradient of W, inputs by outputs, is a sum of x gᵀ over the tokens of the edit's texts, with x
the input of the map and g the gradient of its output (Mitchell et al., 2022, section 3.1). A
backward pass down to the outputs finds both; no gradient of a parameter is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from edit_harness.edits import Delta
from edit_harness.model.architecture import Projection
from edit_harness.model.hooks import at_least_fp32, changing
from edit_harness.model.model import Model
from edit_harness.model.tokens import Continuation

from .mend_network import Network


@dataclass(frozen=True)
class Factors:
    """The factors of one matrix, for several edits: their tokens one edit after the other.

    Tokens whose gradient is zero are left out, such as padding and, in the last block, all that
    predict nothing of the target.
    """

    inputs: Tensor
    """x, tokens by inputs."""
    gradients: Tensor
    """g, tokens by outputs."""
    sizes: tuple[int, ...]
    """How many tokens each edit has."""


@dataclass(frozen=True)
class Text:
    """A text of an edit, and what each of its target's tokens weighs in that edit's loss."""

    owner: int
    """Index of the edit."""
    part: Continuation
    weight: float


@dataclass(frozen=True)
class Tokens:
    """The tokens of one matrix in one pass, with the edit that each is of."""

    inputs: Tensor
    gradients: Tensor
    owners: Tensor


@dataclass
class Probed:
    """What went into a map, and zeros added to its output, whose gradient is the output's."""

    inputs: Tensor
    zeros: Tensor


def gradient_factors(
    model: Model, matrices: Sequence[Projection], batches: Sequence[Sequence[Continuation]]
) -> tuple[list[Factors], list[float]]:
    """Return the factors of each matrix, and the loss of each batch of texts.

    A batch is one edit. Its loss is the mean over all its target tokens of their negative
    log-likelihood, in nats; losses of different batches are added up, so that each has the
    gradients that it has alone.
    """
    texts = [
        Text(owner, part, 1 / sum(len(each.target) for each in batch))
        for owner, batch in enumerate(batches)
        for part in batch
    ]
    losses = torch.zeros(len(batches))
    found: list[list[Tokens]] = [[] for _ in matrices]
    for group in _passes(model, texts):
        for kept, tokens in zip(found, _run(model, matrices, group, losses), strict=True):
            kept.append(tokens)
    return [_by_edit(passes, len(batches)) for passes in found], losses.tolist()


def changes(
    network: Network, matrices: Sequence[Projection], factors: Sequence[Factors]
) -> list[dict[str, Delta]]:
    """Return the changes that the network makes of the factors, by parameter, for each edit.

    A change has as many ranks as tokens. It is differentiable in the network's parameters.
    """
    edits: list[dict[str, Delta]] = [{} for _ in factors[0].sizes]
    for index, (matrix, own) in enumerate(zip(matrices, factors, strict=True)):
        lefts, rights = network(index, own.inputs, own.gradients)
        sides = zip(edits, lefts.split(own.sizes), rights.split(own.sizes), strict=True)
        for edit, left, right in sides:
            edit |= matrix.low_rank(left.T, right)
    return edits


def _passes(model: Model, texts: Sequence[Text]) -> Iterator[list[Text]]:
    """Yield texts of about one length, as many as a pass of the model may have."""
    group: list[Text] = []
    for text in sorted(texts, key=lambda text: len(text.part.inputs)):
        rows = len(group) + 1
        full = rows * len(text.part.inputs) > model.batch_tokens
        if group and (full or rows > (model.batch_rows or rows)):
            yield group
            group = []
        group.append(text)
    if group:
        yield group


def _run(
    model: Model, matrices: Sequence[Projection], texts: Sequence[Text], losses: Tensor
) -> list[Tokens]:
    """Return the tokens of each matrix, and add the texts' parts to the losses of their edits."""
    device = model.device
    batch = model.batch([text.part.inputs for text in texts])
    read = [(row, place) for row, text in enumerate(texts) for place in text.part.places]
    target = torch.tensor([t for text in texts for t in text.part.target], device=device)
    weights = [text.weight for text in texts for _ in text.part.target]
    with torch.enable_grad(), _probing(matrices, len(texts)) as seen:
        logits = model.logits(batch, batch.places(*zip(*read, strict=True)))
        chosen = logits.log_softmax(-1).gather(1, target[:, None])[:, 0]
        terms = -chosen * chosen.new_tensor(weights)
        gradients = torch.autograd.grad(terms.sum(), [probed.zeros for probed in seen])
    owners = torch.tensor([text.owner for text in texts])
    owner_of_term = owners[[row for row, _ in read]]
    losses.index_add_(0, owner_of_term, terms.detach().to(losses))
    return [
        _kept(probed.inputs, gradient, owners, device)
        for probed, gradient in zip(seen, gradients, strict=True)
    ]


@contextmanager
def _probing(matrices: Sequence[Projection], rows: int) -> Iterator[list[Probed]]:
    """Let gradients of each map's output be taken in the coming pass, but of no parameter."""
    seen = [Probed(torch.empty(0), torch.empty(0)) for _ in matrices]

    def probe(kept: Probed, inputs: Tensor, outputs: Tensor) -> Tensor:
        kept.inputs, kept.zeros = inputs.detach(), torch.zeros_like(outputs, requires_grad=True)
        return outputs + kept.zeros

    with ExitStack() as stack:
        for matrix, kept in zip(matrices, seen, strict=True):
            stack.enter_context(changing(matrix.module, rows, partial(probe, kept)))
        yield seen


def _kept(x: Tensor, g: Tensor, owners: Tensor, device: torch.device) -> Tokens:
    """Return the tokens of which neither factor is zero; all are rows by positions by width."""
    kept = x.any(-1) & g.any(-1)
    rows = kept.nonzero()[:, 0].cpu()
    return Tokens(
        at_least_fp32(x[kept]).to(device), at_least_fp32(g[kept]).to(device), owners[rows]
    )


def _by_edit(passes: Sequence[Tokens], count: int) -> Factors:
    """Join the passes of one matrix, and put the tokens of each edit together."""
    owners = torch.cat([tokens.owners for tokens in passes])
    order = owners.argsort(stable=True)
    inputs, gradients = (
        torch.cat(side) for side in ([t.inputs for t in passes], [t.gradients for t in passes])
    )
    at = order.to(inputs.device)
    sizes = owners.bincount(minlength=count).tolist()
    return Factors(inputs[at], gradients[at], tuple(sizes))
