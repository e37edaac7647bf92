"""The gradients of linear maps as factors, of many edits in shared passes.

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

from edit_harness.model.architecture import Projection
from edit_harness.model.hooks import at_least_fp32, changing
from edit_harness.model.model import Model

from .texts import Targets, Text


@dataclass(frozen=True)
class Part(Text):
    """A text of an edit."""

    owner: int
    """Index of the edit."""
    weight: float
    """What each of its target's tokens weighs in that edit's loss."""


@dataclass(frozen=True)
class Factors:
    """The factors of one matrix, edit after edit."""

    inputs: Tensor
    """x, tokens by inputs."""
    gradients: Tensor
    """g, tokens by outputs."""
    sizes: list[int]
    """How many tokens each edit has."""


def factors(
    model: Model,
    matrices: Sequence[Projection],
    batches: Sequence[Sequence[Text]],
    answers: bool = False,
) -> tuple[list[Factors], list[float]]:
    """Return the factors of each matrix, and the loss of each batch, which is one edit.

    A loss is the mean over all the batch's target tokens of their negative log-likelihood, in nats.
    Losses of different batches are added up, so that each has the gradients that it has alone. With
    ``answers``, the tokens are those that predict the target's; else all whose gradient is not zero:
    no padding and, in the last block, none that predict nothing of the target.
    """
    parts = [
        Part(text.ids, text.reads, text.target, owner, 1 / sum(len(each.target) for each in batch))
        for owner, batch in enumerate(batches)
        for text in batch
    ]
    losses = torch.zeros(len(batches))
    passes = [_run(model, matrices, group, losses, answers) for group in _passes(model, parts)]
    found = []
    for own in zip(*passes, strict=True):
        x, g, owners = map(torch.cat, zip(*own, strict=True))
        order = owners.argsort(stable=True).to(model.device)
        found.append(Factors(x[order], g[order], owners.bincount(minlength=len(batches)).tolist()))
    return found, losses.tolist()


def _passes(model: Model, parts: Sequence[Part]) -> list[list[Part]]:
    """Return texts of about one length together, as many as a pass of the model may have."""
    groups: list[list[Part]] = []
    for part in sorted(parts, key=lambda part: len(part.ids)):
        rows = len(groups[-1]) + 1 if groups else 1
        full = rows * len(part.ids) > model.batch_tokens or rows > (model.batch_rows or rows)
        if full or not groups:
            groups.append([])
        groups[-1].append(part)
    return groups


def _run(
    model: Model,
    matrices: Sequence[Projection],
    parts: Sequence[Part],
    losses: Tensor,
    answers: bool,
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return x, g and owners of each matrix's tokens; add the texts' parts to their edits' losses."""
    device, targets = model.device, Targets(parts, model.device)
    batch = model.batch([part.ids for part in parts])
    weights = [parts[row].weight for row in targets.rows]
    places = batch.places(targets.rows, targets.positions)
    with torch.enable_grad(), _probing(matrices, len(parts)) as seen:
        chosen = targets.log_likelihoods(model.logits(batch, places))
        terms = -chosen * chosen.new_tensor(weights)
        inputs, zeros = zip(*seen, strict=True)
        gradients = torch.autograd.grad(terms.sum(), zeros)
    owners = torch.tensor([part.owner for part in parts])
    losses.index_add_(0, owners[targets.rows], terms.detach().to(losses))
    found = []
    for x, g in zip(inputs, gradients, strict=True):
        rows, columns = places.on(x.device) if answers else (x.any(-1) & g.any(-1)).nonzero().T
        x, g = (at_least_fp32(side[rows, columns]).to(device) for side in (x, g))
        found.append((x, g, owners[rows.cpu()]))
    return found


@contextmanager
def _probing(matrices: Sequence[Projection], rows: int) -> Iterator[list[list[Tensor]]]:
    """Keep each map's inputs in the coming pass, and zeros added to its outputs, for gradients."""
    seen: list[list[Tensor]] = [[] for _ in matrices]

    def probe(kept: list[Tensor], inputs: Tensor, outputs: Tensor) -> Tensor:
        kept.extend((inputs.detach(), torch.zeros_like(outputs, requires_grad=True)))
        return outputs + kept[1]

    with ExitStack() as stack:
        for matrix, kept in zip(matrices, seen, strict=True):
            stack.enter_context(changing(matrix.module, rows, partial(probe, kept)))
        yield seen
