"""The search for a value: what a projection should put out at the subject to make a target likely.

Shared by the editors that write key-value pairs. See Meng et al. (2022), section 3.1, step 2: the
loss is the target's negative log-likelihood over contexts, plus the drift of the prediction for
"{subject} is a", plus a penalty on the change's norm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from edit_harness import Request, join
from edit_harness.architectures import Projection
from edit_harness.hooks import Places, adding, recording
from edit_harness.model import Batch, Model
from edit_harness_plugins.editors.contexts import fill

ESSENCE = "{} is a"


@dataclass(frozen=True)
class Settings:
    """Hyperparameters of the search."""

    steps: int
    """Forward passes; at most ``steps - 1`` Adam steps."""
    lr: float
    weight_decay: float
    """Factor of |δ| / |v|², with v the clean value; the norm in the numerator is not squared."""
    clamp: float
    """Largest |δ| in norms of the clean value."""
    kl_factor: float
    stop: float
    """No step is taken below this loss."""


@dataclass(frozen=True)
class Rows:
    """The rows of one request: its text in every context, then the essence prompt."""

    batch: Batch
    subjects: Places
    """The subject's last token in every row."""
    targets: Places
    tokens: Tensor
    """The target token of each of `targets`."""
    shares: Tensor
    """Weight of each of `targets` in the mean over contexts of the mean over tokens."""

    @property
    def reads(self) -> Places:
        """Where predictions are needed: the targets, then the essence prompt's subject."""
        rows = torch.cat([self.targets.rows, self.subjects.rows[-1:]])
        return Places(rows, torch.cat([self.targets.columns, self.subjects.columns[-1:]]))


@dataclass(frozen=True)
class Found:
    """A value and what was seen on the way to it."""

    keys: Tensor
    """Clean input of the projection at the subject, contexts by width."""
    values: Tensor
    """Clean output there, contexts by hidden size."""
    delta: Tensor
    """What to add to the first context's value."""
    losses: tuple[tuple[float, ...], ...]
    """Total, likelihood, drift and norm terms of each pass."""


def lay_out(model: Model, request: Request, contexts: Sequence[str]) -> Rows:
    """Return the rows of a request."""
    texts = [fill(context, request.text) for context in contexts]
    parts = [model.tokens.split(text, request.target_new) for text in texts]
    essence = Request(ESSENCE, request.subject, request.target_new)
    wholes = [join(text, request.target_new) for text in texts]
    subjects = [model.tokens.subject_last(request, whole) for whole in wholes]
    subjects.append(model.tokens.subject_last(essence))
    batch = model.batch([*(p.inputs for p in parts), model.tokens.encode(essence.text).ids])
    rows = [i for i, part in enumerate(parts) for _ in part.target]
    tokens = [token for part in parts for token in part.target]
    shares = [1 / len(part.target) / len(parts) for part in parts for _ in part.target]
    return Rows(
        batch,
        subjects=batch.places(range(len(subjects)), subjects),
        targets=batch.places(rows, [place for part in parts for place in part.places]),
        tokens=torch.tensor(tokens, device=model.device),
        shares=torch.tensor(shares, device=model.device),
    )


def search(model: Model, projection: Projection, rows: Rows, settings: Settings) -> Found:
    """Find the value of one request by gradient descent on its change δ."""
    keys, values, essence = _clean_pass(model, projection, rows)
    norm = float(values[0].norm())
    delta = torch.zeros_like(values[0], requires_grad=True)
    optimizer = torch.optim.Adam([delta], lr=settings.lr)
    losses: list[tuple[float, ...]] = []
    for step in range(settings.steps):
        likelihood, now = _pass_with(model, projection, rows, delta)
        drift = settings.kl_factor * (now.exp() * (now - essence)).sum()
        decay = settings.weight_decay * delta.norm() / norm**2
        loss = likelihood + drift + decay
        total, *terms = torch.stack([loss, likelihood, drift, decay]).tolist()
        losses.append((total, *terms))
        if total < settings.stop or step == settings.steps - 1:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        _shorten(delta, settings.clamp * norm)
    return Found(keys, values, delta.detach(), tuple(losses))


@torch.no_grad()
def _clean_pass(model: Model, projection: Projection, rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
    """Return keys and values of the contexts, and the essence prompt's log-probabilities."""
    with recording(projection.module, len(rows.batch.ids)) as seen:
        logits = model.logits(rows.batch, rows.reads)
    index = (rows.subjects.rows[:-1], rows.subjects.columns[:-1])
    return (
        at_least_fp32(seen.inputs[index]),
        at_least_fp32(seen.outputs[index]),
        logits[-1].log_softmax(-1),
    )


def at_least_fp32(tensor: Tensor) -> Tensor:
    """Return half precision as fp32; fp64 stays, so that a test can tell an error from rounding."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def _pass_with(
    model: Model, projection: Projection, rows: Rows, delta: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the mean negative log-likelihood and the essence prompt's log-probabilities."""
    count = len(rows.batch.ids)
    with adding(projection.module, rows.subjects, delta.expand(count, -1), count):
        logprobs = model.logits(rows.batch, rows.reads).log_softmax(-1)
    chosen = logprobs[:-1].gather(1, rows.tokens[:, None])[:, 0]
    return -(chosen * rows.shares).sum(), logprobs[-1]


@torch.no_grad()
def _shorten(delta: Tensor, longest: float) -> None:
    """Scale the change down to a largest norm."""
    if (norm := float(delta.norm())) > longest:
        delta.mul_(longest / norm)
