"""The search for values: what modules should put out at a token to make a target likely.

Meng et al. (2022), section 3.1, step 2: the target's negative log-likelihood over contexts, plus the drift of
the prediction for "{subject} is a", plus a penalty on the change's norm. What is changed is a projection
(ROME), the residual stream behind a block (MEMIT), or several modules of a block (PMET). Requests share the
passes; the values are those that each would find alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

import torch
from torch import Tensor

from edit_harness import Editor, Request
from edit_harness.interfaces import FROM_PRESET
from edit_harness.model.hooks import Places, waits
from edit_harness.model.model import Model
from edit_harness.registry.settings import Count, NotNegative, Positive

from .._search.contexts import BARE, fill
from .._search.suffix import SuffixForward
from .._search.texts import FactToken, Targets, Text, fact_token, of_kinds

ESSENCE = "{} is a"
EASED = 0.1
"""Weight of the likelihood while the target is the likeliest already, for `Settings.accept`."""


@dataclass
class Fields:
    """Hyperparameters of the search, as fields of editors."""

    steps: Count = FROM_PRESET
    """Forward passes; at most ``steps - 1`` Adam steps."""
    lr: Positive = FROM_PRESET
    """Adam's rate."""
    weight_decay: NotNegative = FROM_PRESET
    """Factor of |δ| / |v|², with v the clean value; the norm in the numerator is not squared."""
    clamp: Positive = FROM_PRESET
    """Largest |δ| in norms of the clean value."""
    kl_factor: NotNegative = 0.0625
    """Weight of the drift of what the essence prompt predicts."""
    stop: NotNegative = 5e-2
    """No step is taken below this loss."""


@dataclass
class Settings(Fields):
    """Hyperparameters of the search."""

    accept: float | None = None
    """Drift at or below which a search ends once each token of the target is the likeliest in all
    contexts; as long as it is larger, the likelihood counts `EASED`. None: no such end."""
    patience: int = 0
    """Steps from where each token of the target is the likeliest in all contexts; 0: no such end."""
    fact_token: FactToken = "subject_last"
    """Where the value is changed, and the essence prompt is read."""

    @classmethod
    def of(cls, editor: Editor) -> Settings:
        """Return what an editor's fields say."""
        names = [each.name for each in fields(cls) if hasattr(editor, each.name)]
        return cls(**{name: getattr(editor, name) for name in names})


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
    notes: Mapping[str, float] = field(default_factory=dict)
    """What an editor adds to `info`."""

    @property
    def wanted(self) -> Tensor:
        """v*: what the module should put out for the bare prompt."""
        return self.values[0] + self.delta

    @property
    def info(self) -> dict[str, float]:
        """How the search went, for the record of the edit."""
        return {
            "loss": self.losses[-1][0],
            "steps": len(self.losses) - 1,
            "delta_norm": float(self.delta.norm()),
            "value_norm": float(self.values[0].norm()),
            **self.notes,
        }


@dataclass(frozen=True)
class Row(Text):
    """A request's text in a context, or its essence prompt, which has no target."""

    place: int
    """Position of the token whose value is changed."""
    owner: int
    """Index of the request."""


def alike(
    model: Model, requests: Sequence[Request], contexts: int, token: FactToken = "subject_last"
) -> list[list[int]]:
    """Return groups of requests, by index, whose texts have equally many tokens to run.

    What is run of a text begins at the changed token; padding it to that of a longer one would cost
    more than sharing a pass saves. A group has as many rows and tokens as a pass of the model may
    have, or a single request.
    """
    texts = [_context(model, i, request, BARE, token) for i, request in enumerate(requests)]
    sizes = [len(text.ids) - text.place for text in texts]
    return of_kinds(model, sizes, sizes, contexts + 1)


def _context(model: Model, owner: int, request: Request, context: str, token: FactToken) -> Row:
    text = fill(context, request.text)
    parts = model.tokens.split(text, request.target_new)
    place = fact_token(model.tokens, token, request, text, request.target_new)
    return Row(parts.inputs, tuple(parts.places), parts.target, place, owner)


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
    token = given.fact_token
    rows = [_context(model, i, r, c, token) for i, r in enumerate(requests) for c in contexts]
    for i, request in enumerate(requests):
        said, bare = Request(ESSENCE, request.subject, request.target_new), rows[i * len(contexts)]
        place = fact_token(model.tokens, token, said)
        ids = model.tokens.encode(said.text).ids[: place + 1]
        # Many prompts begin with their subject; the essence prompt ends there, and needs no row then.
        if bare.ids[: bare.place + 1] != ids:
            rows.append(Row(ids, (), (), place, i))
    texts, places = [row.ids for row in rows], [row.place for row in rows]
    again = SuffixForward(model, layer, texts, places, changed=changed)
    count = len(requests)
    keys, *values = (
        seen[: count * len(contexts)].view(count, len(contexts), -1)
        for seen in (again.keys[:, 0], *again.values())
    )
    clean = torch.stack([value[:, 0] for value in values], dim=1)
    objective = Objective(rows, clean.norm(dim=2), len(contexts), given)
    delta, losses = descend(again, objective, torch.zeros_like(clean))
    return [Found(keys[i], values[0][i], delta[i, 0], tuple(losses[i])) for i in range(count)]


def descend(
    again: SuffixForward, objective: Objective, delta: Tensor
) -> tuple[Tensor, list[list[tuple[float, ...]]]]:
    """Move each request's δ, requests by changed modules by width; return it and the losses on its way.

    Whether it is low enough is known on the device alone, but for every `waits`-th pass: there the rows of
    requests that are done leave the passes.
    """
    given, every = objective.given, waits(delta.device)
    delta.requires_grad_()
    optimizer = torch.optim.Adam([delta], lr=given.lr)
    live = torch.ones(len(delta), dtype=torch.bool, device=delta.device)
    read, seen = objective.reads(again), list[tuple[Tensor, Tensor]]()
    for step in range(given.steps):
        logits = again.logits(read, *delta[objective.owners][:, :, None].unbind(1))
        tokens = len(objective.targets.rows)
        terms = objective(delta, logits[:tokens], logits[tokens:])
        seen.append((terms.detach(), live))
        live = live & ~objective.reached(terms.detach())
        if step == given.steps - 1:
            break
        if not step % every:
            left = live.nonzero()[:, 0].tolist()
            if not left:
                break
            if kept := objective.keep(left):
                again = again.only(kept)
                read = objective.reads(again)
        optimizer.zero_grad()
        terms[:, 0].where(live, terms.new_zeros(())).sum().backward()
        with torch.no_grad():
            before, longest = delta.detach().clone(), given.clamp * objective.norms
            optimizer.step()
            norms = delta.norm(dim=2)
            shorter = torch.where(norms > longest, longest / norms, torch.ones_like(norms))
            # Adam moves by momentum also where a gradient has become zero.
            delta.copy_((delta * shorter[:, :, None]).where(live[:, None, None], before))
    passes = [zip(*(t.tolist() for t in each), strict=True) for each in seen]
    return delta.detach(), [
        [tuple(terms) for terms, searched in own if searched] for own in zip(*passes, strict=True)
    ]


class Objective:
    """The loss of each request.

    ``norms`` are those of the clean values, requests by changed modules. ``rows`` may become fewer.
    """

    targets: Targets
    owners: Tensor
    """The request of each row."""

    def __init__(self, rows: Sequence[Row], norms: Tensor, contexts: int, given: Settings) -> None:
        self.norms, self.given, self._contexts = norms, given, contexts
        self._clean: Tensor | None = None
        self._passes = torch.zeros(len(norms), dtype=torch.int64, device=norms.device)
        self._take(rows)

    def _take(self, rows: Sequence[Row]) -> None:
        device, self.rows, self.targets = self.norms.device, rows, Targets(rows, self.norms.device)
        self.owners = torch.tensor([row.owner for row in rows], device=device)
        self._essences: dict[int, int] = {}
        for i, row in enumerate(rows):
            if row.owner not in self._essences or not row.target:
                self._essences[row.owner] = i
        self._searched = torch.tensor(list(self._essences), device=device)
        read = [rows[row] for row in self.targets.rows]
        self._read = torch.tensor([row.owner for row in read], device=device)
        shares = [1 / len(row.target) / self._contexts for row in read]
        self._shares = torch.tensor(shares, dtype=self.norms.dtype, device=device)

    def reads(self, again: SuffixForward) -> Places:
        """Return where logits are read: at all target tokens, then for each request's drift."""
        essences, targets = self._essences.values(), self.targets
        places = [self.rows[row].place for row in essences]
        return again.places([*targets.rows, *essences], [*targets.positions, *places])

    def keep(self, requests: Sequence[int]) -> list[int]:
        """Keep the rows of some requests, and return which of the present ones; none if all stay."""
        kept = [i for i, row in enumerate(self.rows) if row.owner in requests]
        if len(kept) == len(self.rows):
            return []
        if self._clean is not None:
            still = [i for i, owner in enumerate(self._essences) if owner in requests]
            self._clean = self._clean[still]
        self._take([self.rows[i] for i in kept])
        return kept

    def __call__(self, delta: Tensor, targets: Tensor, essence: Tensor) -> Tensor:
        """Return total, likelihood, drift and norm terms, requests by 4, from logits.

        Drift is counted from the first call, where δ is still 0. Those of requests without rows mean nothing.
        """
        now = essence.log_softmax(-1)
        if self._clean is None:
            self._clean = now.detach()
        chosen = self.targets.log_likelihoods(targets)
        likelihood = -self._by_request(self._read, chosen * self._shares)
        if self.given.accept is not None or self.given.patience:
            misses = targets.argmax(-1) != self.targets.tokens
            self._likeliest = self._by_request(self._read, misses.to(targets)) == 0
        if self.given.accept is not None:
            likelihood = torch.where(self._likeliest, EASED * likelihood, likelihood)
        moved = (now.exp() * (now - self._clean)).sum(1)
        drift = self.given.kl_factor * self._by_request(self._searched, moved)
        decay = self.given.weight_decay * (delta.norm(dim=2) / self.norms**2).sum(1)
        return torch.stack([likelihood + drift + decay, likelihood, drift, decay], dim=1)

    def reached(self, terms: Tensor) -> Tensor:
        """Tell which requests need no further step; a loss that is no number stays to be seen."""
        low = terms[:, 0] < self.given.stop
        if self.given.patience:
            # Passes since the target was the likeliest, whatever became of it.
            self._passes += (self._passes > 0) | self._likeliest
            low |= self._passes > self.given.patience
        if self.given.accept is None:
            return low
        return low | (self._likeliest & (terms[:, 2] <= self.given.accept))

    def _by_request(self, owners: Tensor, each: Tensor) -> Tensor:
        return each.new_zeros(len(self.norms)).index_add(0, owners, each)
