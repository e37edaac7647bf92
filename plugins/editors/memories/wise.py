"""WISE: a trained copy of one MLP matrix answers the prompts that move its activations far (Wang et al., 2024).

Each request trains the copy, behind contexts and against an unrelated prompt (equations 4 to 6). After some
requests a copy is full and the next begins; full copies are merged, and of several the one that a prompt moves
furthest answers (sections 2.2 and 2.3). What is kept of a copy W' is W' - W.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from edit_harness import FROM_PRESET, ModelShape, Preset, Request, UsageError
from edit_harness.edits import Edit, Rows
from edit_harness.interfaces import Origin
from edit_harness.model.architecture import Projection
from edit_harness.model.hooks import at_least_fp32
from edit_harness.model.model import Model
from edit_harness.registry.settings import Count, Natural, NotNegative, Positive, Share

from .._search.bases import Prepared, Shared, earlier
from .._search.suffix import through
from .._search.texts import seeded
from ..sources import EASYEDIT, OURS
from .lessons import Learning, Loss, contexts_of, passes, settled

UNRELATED = (
    "The weather was mild and", "She opened the window because", "To make the soup, first",
    "In the evening they usually", "The second chapter of the book", "Water begins to boil when",
    "On the way to the station", "A triangle has three",
)  # fmt: skip
ACTIVATIONS = ("hidden_activation", "hidden_act", "activation_function", "activation")
"""Where configurations of transformers name the activation function."""
POCKET = {"alpha": 1.0, "beta": 5.0, "gamma": 2.0, "save_every": 5}


def _preset(layer: int, source: str, origin: Origin = "ported", **values: Any) -> Preset:
    llama = {"layer": layer, "module": "down", "steps": 70, "lr": 1.0, "act_ratio": 0.88}
    margins = {"alpha": 5.0, "beta": 20.0, "gamma": 10.0, "save_every": 500}
    return Preset({**llama, **margins, **values}, source, origin)


@dataclass
class Wise(Learning, Prepared[Shared]):
    """Trains copies of a matrix beside the model, and lets them answer what moves far in them."""

    layer: Natural = FROM_PRESET
    """The layer that has the matrix."""
    module: Literal["down", "up"] = FROM_PRESET
    """down: the MLP's output projection; up: the first linear map of the MLP."""
    steps: Count = FROM_PRESET
    """SGD's steps for a request at most."""
    lr: Positive = FROM_PRESET
    """SGD's rate."""
    alpha: NotNegative = FROM_PRESET
    """Distance up to which an unrelated prompt costs nothing."""
    beta: NotNegative = FROM_PRESET
    """Distance from which on the edit's prompt costs nothing."""
    gamma: NotNegative = FROM_PRESET
    """By how much the edit's distance is to exceed that of the unrelated prompt."""
    share: Share = 0.2
    """Of the matrix's entries, those that may move, drawn anew for each copy."""
    box: Positive = 1.0
    """How far an entry may move."""
    act_ratio: Positive = FROM_PRESET
    """A copy answers beyond this part of the smallest distance of its edits."""
    save_every: Count = FROM_PRESET
    """Requests that one copy learns; the next begins at W."""
    merge_every: Count = 1000
    """Requests after which their copies become one; whole copies count."""
    density: Share = 0.53
    """The share of a copy's entries, those of largest change, that is merged."""
    unrelated: tuple[str, ...] = UNRELATED
    """Prompts of which one is taken for a request that has no tag ``unrelated``."""
    contexts: tuple[str, ...] = ()
    """Texts with ``{}`` for the prompt, the bare ``{}`` first; by default ten are sampled."""
    seed: int = 0
    """Seed of the sampled contexts, of the entries that may move and of the unrelated prompts."""

    presets: ClassVar = {
        "pocket": _preset(1, OURS, "tuned", module="up", steps=40, lr=0.3, act_ratio=0.7, **POCKET),
        "gpt2-xl": _preset(8, EASYEDIT, module="up", steps=40, act_ratio=0.8),
        "gpt-j-6b": _preset(21, EASYEDIT, "paper", alpha=15.0, beta=40.0, gamma=20.0),
        "llama-2-7b": _preset(27, EASYEDIT, "paper"),
        "llama-3-8b": _preset(29, EASYEDIT, steps=30, lr=0.9, alpha=2.0, act_ratio=0.5),
        "mistral-7b": _preset(27, EASYEDIT, "paper"),
        "qwen2-7b": _preset(23, "EasyEdit's values for Qwen2.5 7B", "guessed"),
        "qwen2.5-7b": _preset(23, EASYEDIT),
    }
    needs: ClassVar[str] = "a prompt and a target, no subject; four times the memory of its matrix"
    citation: ClassVar[str] = (
        "Wang et al. (2024), WISE: Rethinking the Knowledge Memory for Lifelong Model Editing of "
        "Large Language Models"
    )

    def guess(self, shape: ModelShape) -> Preset:
        """Return Llama 2's values, the layer by depth."""
        return _preset(
            27 * shape.layers // 32, "layer by depth, the rest as for Llama 2", "guessed"
        )

    def check(self, model: Model) -> None:
        """Raise `PluginError` if the layer has no such map, `UsageError` without unrelated prompts."""
        self._linear(model)
        if not self.unrelated:
            raise UsageError("wise needs prompts that are unrelated", "unrelated=TEXT,TEXT")

    def find(self, model: Model) -> Shared:
        """Sample contexts from the unedited model."""
        return Shared({}, {"contexts": list(contexts_of(model, self.contexts, self.seed))})

    def _linear(self, model: Model) -> Projection:
        architecture, up = model.architecture, self.module == "up"
        return architecture.mlp(self.layer)[0] if up else architecture.projection(self.layer)

    def taught(self, model: Model, edit: Edit, request: Request) -> Edit:
        """Return the edit with a request in its last copy, or in a new one if that is full."""
        linear = self._linear(model)
        name, counter = linear.name, f"{linear.name}.requests"
        known = earlier(edit, name, SideMemories, "wise", counter)
        keys, far, loss = self._objective(model, request)
        changes = [*known.changes.to(keys)] if known else []
        nearest = [*known.nearest.to(keys)] if known else []
        count = int(edit.state.get(counter, 0))
        copy, learned = divmod(count, self.save_every)
        if not learned:
            changes.append(keys.new_zeros(linear.shape))
            nearest.append(keys.new_tensor(torch.inf))
        changes[-1] = change = changes[-1].clone()
        losses = self._descend(keys, loss, change, copy)
        moved = far(keys @ change)[:-1].mean()
        nearest[-1] = nearest[-1].minimum(moved)
        full = max(self.merge_every // self.save_every, 1)
        if (count + 1) % (full * self.save_every) == 0:
            changes[-full:] = [ties(torch.stack(changes[-full:]), self.density)]
            nearest[-full:] = [torch.stack(nearest[-full:]).min()]
        told = {"loss": losses[-1], "steps": len(losses), "distance": moved.item()}
        both = torch.stack(changes), torch.stack(nearest)
        return replace(
            edit,
            adaptors={name: SideMemories(*both, self.act_ratio, self._activation(model))},
            info={**told, "memories": len(changes)},
            state={**edit.state, counter: torch.tensor(count + 1)},
        )

    def _activation(self, model: Model) -> str:
        config = model.architecture.config
        return next(filter(None, (getattr(config, name, None) for name in ACTIVATIONS)), "gelu")

    def _objective(self, model: Model, request: Request) -> tuple[Tensor, Loss, Loss]:
        """Return what goes into the map, and by what a copy adds to its outputs: distances, the loss.

        Texts are the request behind each context, and the unrelated prompt, which has no target.
        """
        linear, activation = self._linear(model), self._activation(model)
        place = seeded(self.seed, request.statement) % len(self.unrelated)
        other = request.tags.get("unrelated") or self.unrelated[place]
        contexts = self.ready(model).found["contexts"]
        given = self.layer, linear.name, contexts, request, other
        keys, prompt, likelihood = passes(model, *given)
        clean = through(model, linear.module, keys.flatten(0, 1)).detach()
        outputs = clean.view(*keys.shape[:2], -1)

        def far(added: Tensor) -> Tensor:
            return distance(activation, outputs, added, prompt)

        def loss(added: Tensor) -> Tensor:
            *_, other = moved = far(added)
            own = moved[:-1]
            margins = other - self.alpha, self.beta - own, self.gamma + other - own
            # Of each kind the mean of those above 0, as in the authors' code.
            means = (each.clamp(min=0).sum() / (each > 0).sum().clamp(min=1) for each in margins)
            return sum(means, likelihood(added))

        return keys, far, loss

    def _descend(self, keys: Tensor, loss: Loss, change: Tensor, copy: int) -> list[float]:
        """Move a share of a change's entries within the box; return the loss before each step."""
        losses, noise = list[float](), torch.Generator().manual_seed(seeded(self.seed, copy))
        moving = (torch.rand(change.shape, generator=noise) < self.share).to(change.device)
        while len(losses) < self.steps and not settled(losses):
            added = (keys @ change).requires_grad_()
            now = loss(added)
            losses.append(now.item())
            (gradient,) = torch.autograd.grad(now, added)
            descent = keys.flatten(0, 1).T @ gradient.flatten(0, 1)
            change.sub_(descent.mul_(moving), alpha=self.lr).clamp_(-self.box, self.box)
        return losses


@dataclass(frozen=True, eq=False)
class SideMemories:
    """An adaptor of m copies; each text is answered as its own prompt decides, also where it goes on."""

    changes: Tensor
    """W' - W of each copy, m by d_in by d_out."""
    nearest: Tensor
    """The smallest distance of an edit that each copy has learned, m."""
    act_ratio: float
    """The part of that distance beyond which a copy answers."""
    activation: str
    """The model's activation function, by its name in transformers."""

    def __call__(self, inputs: Tensor, outputs: Tensor, rows: Rows) -> Tensor:
        """Return the outputs, changed in the rows whose prompts a copy answers.

        Of the copies whose thresholds a prompt exceeds it is the one that moves it furthest.
        """
        keys, prompt = at_least_fp32(inputs), rows.mask & (rows.offsets <= 0)
        if "choice" not in rows.memo:
            moved = (keys @ change.to(keys) for change in self.changes)
            far = torch.stack([distance(self.activation, outputs, each, prompt) for each in moved])
            beyond = far > self.act_ratio * self.nearest.to(far)[:, None]
            largest, furthest = far.where(beyond, 0).max(dim=0)
            rows.memo["choice"] = furthest.masked_fill(largest == 0, -1)  # where none answers
        for copy, change in enumerate(self.changes):
            (own,) = (rows.memo["choice"] == copy).nonzero(as_tuple=True)
            if len(own):
                outputs = outputs.index_add(0, own, (keys[own] @ change.to(keys)).to(outputs))
        return outputs


def distance(activation: str, outputs: Tensor, added: Tensor, prompt: Tensor) -> Tensor:
    """Return how far a change moves the activations of each row: the mean over its prompt's tokens.

    The activation function is applied to the map's outputs, as in the authors' code.
    """
    # At the top it would change the environment of a process that only lists editors.
    from transformers.activations import ACT2FN

    function, clean = ACT2FN[activation], at_least_fp32(outputs)
    moved = (function(clean + added) - function(clean)).norm(dim=-1)
    return (moved * prompt).sum(1) / prompt.sum(1)


def ties(changes: Tensor, density: float) -> Tensor:
    """Return changes, the first dimension's, as one, by TIES (Yadav et al., 2023): trim, elect, merge.

    Of each the share ``density`` of largest entries is kept; an entry is the mean of those that have
    the sign of their sum.
    """
    flat = changes.flatten(1)
    least = flat.abs().topk(max(int(density * flat.shape[1]), 1)).values[:, -1:]
    kept = flat.where(flat.abs() >= least, 0)
    agrees = kept.sign() == torch.where(kept.sum(0) >= 0, 1, -1)
    return ((kept * agrees).sum(0) / agrees.sum(0).clamp(min=1)).view(changes.shape[1:])
