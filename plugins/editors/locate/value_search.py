"""The search for values: what modules should put out at a token to make a target likely.

Shared by the editors that write key-value pairs. See Meng et al. (2022), section 3.1, step 2: the
loss is the target's negative log-likelihood over contexts, plus the drift of the prediction for
"{subject} is a", plus a penalty on the change's norm. What is changed is a layer's projection
(ROME), the residual stream behind a block (MEMIT), or several modules of a block at once (PMET),
at the subject's last token unless the settings name another one.
How a value gets into weights is the editors' matter.

Many requests are searched together. Each has its own change, loss, clamp and end; what they share
is the forward passes, so the values are those that each would find alone. Where the model allows
it, a pass runs only what the changes can reach: see `edit_harness_plugins.editors._search.suffix`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from edit_harness import Request
from edit_harness.data import SUBJECT
from edit_harness.model.model import Model
from edit_harness.model.tokens import FactToken

from .._search.suffix import SuffixForward
from .contexts import fill

ESSENCE = "{} is a"
EASED = 0.1
"""Weight of the likelihood while the target is the likeliest already, for `Settings.accept`."""


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
    accept: float | None = None
    """Drift at or below which a search ends once each token of the target is the likeliest in all
    contexts; as long as it is larger, the likelihood counts `EASED`. None: no such end."""
    token: FactToken = "subject_last"
    """Where the value is changed, and the essence prompt is read."""


@dataclass(frozen=True)
class Found:
    """A value of the first changed module and what was seen on the way to it."""

    keys: Tensor
    """Clean input of the module at the token, contexts by width; of a block, its output."""
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
    place: int
    """Position of the token whose value is changed."""
    reads: tuple[int, ...] = ()
    """Positions where the target's tokens are predicted; none for the essence prompt."""
    target: tuple[int, ...] = ()


@dataclass(frozen=True)
class Rows:
    """The rows of several requests: every request's contexts, then what essence prompts need."""

    texts: tuple[Text, ...]
    essences: tuple[int, ...]
    """The row where each request's essence prompt is read, at its token."""
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
        return targets + [(row, self.texts[row].place) for row in self.essences]


def lay_out(
    model: Model, requests: Sequence[Request], contexts: Sequence[str], token: FactToken
) -> Rows:
    """Return the rows of requests.

    Many prompts begin with their subject; the essence prompt ends there, and needs no row then.
    """
    texts = [_context(model, i, r, c, token) for i, r in enumerate(requests) for c in contexts]
    essences = []
    for i, request in enumerate(requests):
        essence, bare = _essence(model, i, request, token), i * len(contexts)
        if texts[bare].ids[: texts[bare].place + 1] == essence.ids:
            essences.append(bare)
        else:
            essences.append(len(texts))
            texts.append(essence)
    return Rows(tuple(texts), tuple(essences), len(contexts), model.device)


def alike(
    model: Model, requests: Sequence[Request], contexts: int, token: FactToken = "subject_last"
) -> list[list[int]]:
    """Return groups of requests, by index, whose texts have equally many tokens to run.

    What is run of a text begins at the changed token; padding it to that of a longer one would cost more than sharing a pass saves. A group has as many rows and tokens as a pass of the
    model may have, or a single request.
    """
    groups: dict[int, list[list[int]]] = {}
    for i, request in enumerate(requests):
        text = _context(model, i, request, SUBJECT, token)
        size = len(text.ids) - text.place
        rows = min(model.batch_tokens // size, model.batch_rows or model.batch_tokens)
        same = groups.setdefault(size, [])
        if not same or (len(same[-1]) + 1) * (contexts + 1) > rows:
            same.append([])
        same[-1].append(i)
    return [group for same in groups.values() for group in same]


def _context(model: Model, owner: int, request: Request, context: str, token: FactToken) -> Text:
    text = fill(context, request.text)
    parts = model.tokens.split(text, request.target_new)
    place = model.tokens.fact_token(token, request, text, request.target_new)
    return Text(owner, parts.inputs, place, tuple(parts.places), parts.target)


def _essence(model: Model, owner: int, request: Request, token: FactToken) -> Text:
    """Return the essence prompt up to its token, where its prediction is read."""
    essence = Request(ESSENCE, request.subject, request.target_new)
    place = model.tokens.fact_token(token, essence)
    ids = model.tokens.encode(essence.text).ids[: place + 1]
    return Text(owner, ids, place)


def search(
    model: Model,
    layer: int,
    requests: Sequence[Request],
    contexts: Sequence[str],
    given: Settings,
    changed: Sequence[str] = (),
) -> list[Found]:
    """Find the value of each request by gradient descent on its change δ.

    ``changed`` names the modules of the layer's block that are changed together, by default the
    projection; the value of the first is returned, and changes of the others only help to find it.
    A request whose loss is low enough, or whose passes are used up, keeps its δ from there on.
    """
    rows = lay_out(model, requests, contexts, given.token)
    again = SuffixForward(
        model,
        layer,
        [text.ids for text in rows.texts],
        [text.place for text in rows.texts],
        changed=changed,
    )
    keys, *values = _clean(again, rows)
    first = torch.stack([value[:, 0] for value in values], dim=1)
    delta, losses = _descend(again, rows, first, given)
    return [
        Found(keys[i], values[0][i], delta[i, 0], tuple(losses[i])) for i in range(len(requests))
    ]


def _descend(
    again: SuffixForward, rows: Rows, clean: Tensor, given: Settings
) -> tuple[Tensor, list[list[tuple[float, ...]]]]:
    """Return each request's δ, requests by changed modules by width, and the losses on its way.

    ``clean`` has the modules' clean values, of the same shape.
    """
    read = again.places(*zip(*rows.reads, strict=True))
    count, norms = len(clean), clean.norm(dim=2)
    delta = torch.zeros_like(clean, requires_grad=True)
    optimizer = torch.optim.Adam([delta], lr=given.lr)
    live = torch.ones(count, dtype=torch.bool, device=delta.device)
    losses: list[list[tuple[float, ...]]] = [[] for _ in range(count)]
    objective: Objective | None = None
    for step in range(given.steps):
        logits = again.logits(read, *delta[rows.owners][:, :, None].unbind(1))
        targets, essence = logits[:-count], logits[-count:]
        if objective is None:  # δ is still 0, so this is what the unedited model says
            objective = Objective(rows, norms, essence.detach().log_softmax(-1), given)
        terms = objective(delta, targets, essence)
        for own, each, searched in zip(losses, terms.tolist(), live.tolist(), strict=True):
            own += [tuple(each)] if searched else []
        live &= ~objective.reached(terms.detach(), targets)
        if step == given.steps - 1 or not live.any():
            break
        optimizer.zero_grad()
        terms[live, 0].sum().backward()
        _step(optimizer, delta, live, given.clamp * norms)
    return delta.detach(), losses


@dataclass(frozen=True)
class Objective:
    """The loss of each request."""

    rows: Rows
    norms: Tensor
    """Norms of the clean values, requests by changed modules."""
    essence: Tensor
    """Clean log-probabilities at the essence prompts, requests by vocabulary."""
    given: Settings

    def __call__(self, delta: Tensor, targets: Tensor, essence: Tensor) -> Tensor:
        """Return total, likelihood, drift and norm terms, requests by 4, from logits."""
        tokens, _, shares = self.rows.targets
        chosen = targets.log_softmax(-1).gather(1, tokens[:, None])[:, 0]
        likelihood = -self._by_request(chosen * shares.to(chosen))
        if self.given.accept is not None:
            likelihood = torch.where(self._likeliest(targets), EASED * likelihood, likelihood)
        now = essence.log_softmax(-1)
        drift = self.given.kl_factor * (now.exp() * (now - self.essence)).sum(1)
        decay = self.given.weight_decay * (delta.norm(dim=2) / self.norms**2).sum(1)
        return torch.stack([likelihood + drift + decay, likelihood, drift, decay], dim=1)

    def reached(self, terms: Tensor, targets: Tensor) -> Tensor:
        """Tell which requests need no further step; a loss that is no number stays to be seen."""
        low = terms[:, 0] < self.given.stop
        if self.given.accept is None:
            return low
        return low | (self._likeliest(targets) & (terms[:, 2] <= self.given.accept))

    def _likeliest(self, targets: Tensor) -> Tensor:
        """Tell for which requests every token of the target is the argmax in every context."""
        misses = targets.argmax(-1) != self.rows.targets[0]
        return self._by_request(misses.to(targets)) == 0

    def _by_request(self, each: Tensor) -> Tensor:
        """Return the sum over each request's targets."""
        owners = self.rows.targets[1]
        return each.new_zeros(len(self.norms)).index_add(0, owners, each)


def _clean(again: SuffixForward, rows: Rows) -> list[Tensor]:
    """Return keys and each changed module's values, requests by contexts by width."""
    count, shape = len(rows.essences) * rows.contexts, (len(rows.essences), rows.contexts, -1)
    return [seen[:count].view(shape) for seen in (again.keys[:, 0], *again.values())]


@torch.no_grad()
def _step(optimizer: torch.optim.Optimizer, delta: Tensor, live: Tensor, longest: Tensor) -> None:
    """Take a step where the search still goes on, and scale the changes down to their largest norm.

    Adam moves by momentum also where a gradient has become zero, so finished rows are put back.
    """
    before = delta.detach().clone()
    optimizer.step()
    norms = delta.norm(dim=2)
    shorter = torch.where(norms > longest, longest / norms, torch.ones_like(norms))
    delta.mul_(shorter[:, :, None])
    delta[~live] = before[~live]
