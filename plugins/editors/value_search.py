"""The search for values: what a projection should put out at a subject to make a target likely.

Shared by the editors that write key-value pairs. See Meng et al. (2022), section 3.1, step 2: the
loss is the target's negative log-likelihood over contexts, plus the drift of the prediction for
"{subject} is a", plus a penalty on the change's norm.

Many requests are searched together. Each has its own change, loss, clamp and end; what they share
is the forward passes, so the values are those that each would find alone. Where the model allows
it, a pass runs only what the changes can reach: see `edit_harness.rerun`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from edit_harness import Request
from edit_harness.cases import SUBJECT
from edit_harness.model import Model
from edit_harness.rerun import Rerun
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


@dataclass(frozen=True)
class Text:
    """One row of a request: its text in a context with the target, or the essence prompt."""

    owner: int
    """Index of the request."""
    ids: tuple[int, ...]
    subject: int
    """Position of the subject's last token."""
    reads: tuple[int, ...] = ()
    """Positions where the target's tokens are predicted; none for the essence prompt."""
    target: tuple[int, ...] = ()


@dataclass(frozen=True)
class Rows:
    """The rows of several requests: every request's contexts, then what essence prompts need."""

    texts: tuple[Text, ...]
    essences: tuple[int, ...]
    """The row where each request's essence prompt is read, at the subject."""
    contexts: int
    device: torch.device

    @cached_property
    def targets(self) -> tuple[Tensor, Tensor, Tensor]:
        """Token, request and weight of each target: the mean over contexts of that over tokens."""
        each = [(text, token) for text in self.texts for token in text.target]
        return (
            torch.tensor([token for _, token in each], device=self.device),
            torch.tensor([text.owner for text, _ in each], device=self.device),
            torch.tensor(
                [1 / len(t.target) / self.contexts for t, _ in each],
                dtype=torch.float64,
            ),
        )

    @cached_property
    def owners(self) -> Tensor:
        """The request of each row."""
        return torch.tensor([text.owner for text in self.texts], device=self.device)

    @property
    def reads(self) -> list[tuple[int, int]]:
        """Row and position of every prediction: all target tokens, then the essence prompts."""
        targets = [(i, place) for i, text in enumerate(self.texts) for place in text.reads]
        return targets + [(row, self.texts[row].subject) for row in self.essences]


def lay_out(model: Model, requests: Sequence[Request], contexts: Sequence[str]) -> Rows:
    """Return the rows of requests.

    Many prompts begin with their subject; the essence prompt ends there, and needs no row then.
    """
    texts = [_context(model, i, r, c) for i, r in enumerate(requests) for c in contexts]
    essences = []
    for i, request in enumerate(requests):
        essence, bare = _essence(model, i, request), i * len(contexts)
        if texts[bare].ids[: texts[bare].subject + 1] == essence.ids:
            essences.append(bare)
        else:
            essences.append(len(texts))
            texts.append(essence)
    return Rows(tuple(texts), tuple(essences), len(contexts), model.device)


def alike(model: Model, requests: Sequence[Request], contexts: int) -> list[list[int]]:
    """Return groups of requests, by index, whose texts have equally many tokens to run.

    What is run of a text begins at its subject's last token; padding it to that of a longer one
    would cost more than sharing a pass saves. A group has as many rows and tokens as a pass of the
    model may have, or a single request.
    """
    groups: dict[int, list[list[int]]] = {}
    for i, request in enumerate(requests):
        text = _context(model, i, request, SUBJECT)
        size = len(text.ids) - text.subject
        rows = min(model.batch_tokens // size, model.batch_rows or model.batch_tokens)
        same = groups.setdefault(size, [])
        if not same or (len(same[-1]) + 1) * (contexts + 1) > rows:
            same.append([])
        same[-1].append(i)
    return [group for same in groups.values() for group in same]


def _context(model: Model, owner: int, request: Request, context: str) -> Text:
    text = fill(context, request.text)
    parts = model.tokens.split(text, request.target_new)
    subject = model.tokens.subject_last(request, text, request.target_new)
    return Text(owner, parts.inputs, subject, tuple(parts.places), parts.target)


def _essence(model: Model, owner: int, request: Request) -> Text:
    """Return the essence prompt up to the subject, where its prediction is read."""
    essence = Request(ESSENCE, request.subject, request.target_new)
    subject = model.tokens.subject_last(essence)
    ids = model.tokens.encode(essence.text).ids[: subject + 1]
    return Text(owner, ids, subject)


def search(
    model: Model, layer: int, requests: Sequence[Request], contexts: Sequence[str], given: Settings
) -> list[Found]:
    """Find the value of each request by gradient descent on its change δ.

    A request whose loss is low enough, or whose passes are used up, keeps its δ from there on.
    """
    rows = lay_out(model, requests, contexts)
    again = Rerun(
        model, layer, [text.ids for text in rows.texts], [text.subject for text in rows.texts]
    )
    read = again.places(*zip(*rows.reads, strict=True))
    keys, values = _clean(again, rows)
    norms = values[:, 0].norm(dim=1)
    delta = torch.zeros_like(values[:, 0], requires_grad=True)
    optimizer = torch.optim.Adam([delta], lr=given.lr)
    live = torch.ones(len(requests), dtype=torch.bool, device=delta.device)
    losses: list[list[tuple[float, ...]]] = [[] for _ in requests]
    objective: Objective | None = None
    for step in range(given.steps):
        logits = again.logits(read, delta[rows.owners][:, None])
        targets, essence = logits[: -len(requests)], logits[-len(requests) :]
        if objective is None:  # δ is still 0, so this is what the unedited model says
            objective = Objective(rows, norms, essence.detach().log_softmax(-1), given)
        terms = objective(delta, targets, essence)
        for own, each, searched in zip(losses, terms.tolist(), live.tolist(), strict=True):
            own += [tuple(each)] if searched else []
        live &= ~(terms[:, 0].detach() < given.stop)  # a loss that is no number stays to be seen
        if step == given.steps - 1 or not live.any():
            break
        optimizer.zero_grad()
        terms[live, 0].sum().backward()
        _step(optimizer, delta, live, given.clamp * norms)
    return [
        Found(keys[i], values[i], delta[i].detach(), tuple(losses[i])) for i in range(len(requests))
    ]


@dataclass(frozen=True)
class Objective:
    """The loss of each request."""

    rows: Rows
    norms: Tensor
    """Norm of each request's clean value."""
    essence: Tensor
    """Clean log-probabilities at the essence prompts, requests by vocabulary."""
    given: Settings

    def __call__(self, delta: Tensor, targets: Tensor, essence: Tensor) -> Tensor:
        """Return total, likelihood, drift and norm terms, requests by 4, from logits."""
        tokens, owners, shares = self.rows.targets
        chosen = targets.log_softmax(-1).gather(1, tokens[:, None])[:, 0]
        shares = shares.to(chosen)
        likelihood = -torch.zeros_like(self.norms).to(chosen).index_add(0, owners, chosen * shares)
        now = essence.log_softmax(-1)
        drift = self.given.kl_factor * (now.exp() * (now - self.essence)).sum(1)
        decay = self.given.weight_decay * delta.norm(dim=1) / self.norms**2
        return torch.stack([likelihood + drift + decay, likelihood, drift, decay], dim=1)


def _clean(again: Rerun, rows: Rows) -> tuple[Tensor, Tensor]:
    """Return the projection's keys and values at the subjects, requests by contexts by width."""
    count = len(rows.essences) * rows.contexts
    keys, (values,) = again.keys[:count, 0], again.values()
    values = values[:count]
    shape = (len(rows.essences), rows.contexts, -1)
    return keys.view(shape), values.view(shape)


@torch.no_grad()
def _step(optimizer: torch.optim.Optimizer, delta: Tensor, live: Tensor, longest: Tensor) -> None:
    """Take a step where the search still goes on, and scale the changes down to their largest norm.

    Adam moves by momentum also where a gradient has become zero, so finished rows are put back.
    """
    before = delta.detach().clone()
    optimizer.step()
    norms = delta.norm(dim=1)
    shorter = torch.where(norms > longest, longest / norms, torch.ones_like(norms))
    delta.mul_(shorter[:, None])
    delta[~live] = before[~live]
