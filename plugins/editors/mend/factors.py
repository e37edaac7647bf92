"""The changes that MEND's network makes of gradients, and the passes that give these as factors.

The gradient of W is a sum of x gᵀ over tokens, with x the input of the map and g the gradient of its output
(Mitchell et al., 2022, section 3.1). A backward pass down to the outputs finds both.
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

from .._search.texts import Targets, Text
from .network import Network


@dataclass(frozen=True)
class Part(Text):
    """A text of an edit."""

    owner: int
    """Index of the edit."""
    weight: float
    """What each of its target's tokens weighs in that edit's loss."""


@dataclass
class Probed:
    """What went into a map, and zeros added to its output, whose gradient is the output's."""

    inputs: Tensor
    zeros: Tensor


@dataclass(frozen=True)
class Factors:
    """The factors of one matrix.

    Tokens whose gradient is zero are left out, such as padding and, in the last block, all that
    predict nothing of the target.
    """

    inputs: Tensor
    """x, tokens by inputs."""
    gradients: Tensor
    """g, tokens by outputs."""
    owners: Tensor
    """The edit that each token is of."""


def changes(
    model: Model,
    network: Network,
    matrices: Sequence[Projection],
    batches: Sequence[Sequence[Text]],
) -> tuple[list[dict[str, Delta]], list[float]]:
    """Return the changes that the network makes of each batch, by parameter, and its loss.

    A batch is one edit. Its loss is the mean over all its target tokens of their negative
    log-likelihood, in nats; losses of different batches are added up, so that each has the
    gradients that it has alone. A change has as many ranks as tokens, and is differentiable in the
    network's parameters.
    """
    parts = [
        Part(text.ids, text.reads, text.target, owner, 1 / sum(len(each.target) for each in batch))
        for owner, batch in enumerate(batches)
        for text in batch
    ]
    losses = torch.zeros(len(batches))
    passes = [_run(model, matrices, group, losses) for group in _passes(model, parts)]
    edits: list[dict[str, Delta]] = [{} for _ in batches]
    for index, (matrix, own) in enumerate(zip(matrices, zip(*passes, strict=True), strict=True)):
        owners = torch.cat([factors.owners for factors in own])
        order = owners.argsort(stable=True).to(model.device)
        sizes = owners.bincount(minlength=len(batches)).tolist()
        x, g = (
            torch.cat(side)[order] for side in ([f.inputs for f in own], [f.gradients for f in own])
        )
        lefts, rights = network(index, x, g)
        for edit, left, right in zip(edits, lefts.split(sizes), rights.split(sizes), strict=True):
            edit |= matrix.low_rank(left.T, right)
    return edits, losses.tolist()


def _passes(model: Model, parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Yield texts of about one length, as many as a pass of the model may have."""
    group: list[Part] = []
    for part in sorted(parts, key=lambda part: len(part.ids)):
        rows = len(group) + 1
        full = rows * len(part.ids) > model.batch_tokens
        if group and (full or rows > (model.batch_rows or rows)):
            yield group
            group = []
        group.append(part)
    if group:
        yield group


def _run(
    model: Model, matrices: Sequence[Projection], parts: Sequence[Part], losses: Tensor
) -> list[Factors]:
    """Return the factors of each matrix, and add the texts' parts to the losses of their edits."""
    device, targets = model.device, Targets(parts, model.device)
    batch = model.batch([part.ids for part in parts])
    weights = [parts[row].weight for row in targets.rows]
    with torch.enable_grad(), _probing(matrices, len(parts)) as seen:
        logits = model.logits(batch, batch.places(targets.rows, targets.positions))
        chosen = targets.log_likelihoods(logits)
        terms = -chosen * chosen.new_tensor(weights)
        gradients = torch.autograd.grad(terms.sum(), [probed.zeros for probed in seen])
    owners = torch.tensor([part.owner for part in parts])
    losses.index_add_(0, owners[targets.rows], terms.detach().to(losses))
    found = []
    for x, g in zip((probed.inputs for probed in seen), gradients, strict=True):
        kept = x.any(-1) & g.any(-1)
        inputs, slopes = (at_least_fp32(side[kept]).to(device) for side in (x, g))
        found.append(Factors(inputs, slopes, owners[kept.nonzero()[:, 0].cpu()]))
    return found


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
