"""FT and FT-L: fine-tuning of one MLP output projection, for FT-L within an L-infinity box.

Follows the baselines of ROME's and MEMIT's code: Adam on weight and bias, and all target tokens
scored at the last prompt position, without teacher forcing. ``position=teacher`` scores each
token after the ones before it. Source: Zhu et al. (2020); Meng et al. (2022), appendix E.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from edit_harness import FROM_PRESET, Editor, ModelShape, Preset, Request
from edit_harness.edits import Delta, Dense, Edit
from edit_harness.model import Model

KMENG = "kmeng01/rome"
EASYEDIT = "EasyEdit"
OURS = "tuned on pocket by this project"


def _preset(
    layer: int, source: str, *, epsilon: float | None = None, lr: float = 5e-4, bias: bool = True
) -> Preset:
    values = {"layer": layer, "lr": lr, "bias": bias}
    return Preset(values if epsilon is None else {**values, "epsilon": epsilon}, source)


@dataclass
class FineTuning(Editor):
    """Gradient descent on one projection until the targets are likely."""

    layer: int = FROM_PRESET
    steps: int = 25
    lr: float = FROM_PRESET
    weight_decay: float = 0.0
    """Adam's L2 term, towards 0."""
    stop: float = 1e-2
    """No step is taken below this mean loss, and the search ends."""
    position: Literal["last", "teacher"] = "last"
    bias: bool = FROM_PRESET
    """Whether the projection's bias is trained too, where it has one."""
    chunk: int = 64
    """Requests of one step; more are taken one chunk after another."""

    presets: ClassVar = {
        "pocket": _preset(1, OURS, lr=5e-3),
        "gpt2-xl": _preset(1, KMENG),
        "gpt-j-6b": _preset(21, KMENG),
        "llama-2-7b": _preset(21, EASYEDIT, bias=False),
        "llama-3-8b": _preset(21, f"{EASYEDIT}, AlphaEdit", bias=False),
        "qwen2-7b": _preset(27, EASYEDIT, bias=False),
        "qwen2.5-7b": _preset(27, EASYEDIT, bias=False),
    }
    citation: ClassVar[str] = "Zhu et al. (2020), Modifying Memories in Transformer Models"

    def guess(self, shape: ModelShape) -> Preset:
        """Return the layer after which ROME would edit."""
        return _preset(round(0.35 * shape.layers), "guess")

    def bound(self) -> float | None:
        """Return the half-width of the box around each weight, or None for no box."""
        return None

    def check(self, model: Model) -> None:
        """Raise `PluginError` if the layer has no projection."""
        model.architecture.projection(self.layer)

    def edit(self, model: Model, requests: Sequence[Request]) -> Edit:
        """Return the dense change of the projection's weight and, if asked for, bias."""
        originals = {
            name: tensor
            for name, tensor in model.architecture.projection(self.layer).parameters.items()
            if self.bias or not name.endswith(".bias")
        }
        trained = {n: t.clone().float().requires_grad_() for n, t in originals.items()}
        losses = self._descend(model, requests, originals, trained)
        weights: dict[str, Delta] = {
            name: Dense(trained[name].detach() - original.float())
            for name, original in originals.items()
        }
        return Edit(weights, info={"loss": losses[-1], "steps": len(losses)})

    def _descend(
        self,
        model: Model,
        requests: Sequence[Request],
        originals: dict[str, Tensor],
        trained: dict[str, Tensor],
    ) -> list[float]:
        """Move the trained tensors, and return the mean loss of each pass over the requests."""
        optimizer = torch.optim.Adam(
            list(trained.values()), lr=self.lr, weight_decay=self.weight_decay
        )
        losses = []
        for _ in range(self.steps):
            total = 0.0
            for start in range(0, len(requests), self.chunk):
                chunk = requests[start : start + self.chunk]
                loss = self._loss(model, chunk, trained)
                total += loss.item() * len(chunk)
                if loss.item() >= self.stop:
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                self._box(originals, trained)
            losses.append(total / len(requests))
            if losses[-1] < self.stop:
                break
        return losses

    def _loss(
        self, model: Model, requests: Sequence[Request], trained: dict[str, Tensor]
    ) -> Tensor:
        """Return the mean over requests of the mean negative log-likelihood of target tokens."""
        parts = [model.tokens.split(r.text, r.target_new) for r in requests]
        teacher = self.position == "teacher"
        rows = [part.inputs if teacher else part.prompt for part in parts]
        reads = [
            (i, place if teacher else len(part.prompt) - 1, token, 1 / len(part.target))
            for i, part in enumerate(parts)
            for place, token in zip(part.places, part.target, strict=True)
        ]
        batch = model.batch(rows)
        row, place, token, weight = zip(*reads, strict=True)
        parameters = {n: t.to(model.parameter(n).dtype) for n, t in trained.items()}
        logits = model.logits(batch, batch.places(row, place), parameters)
        index = torch.tensor(token, device=logits.device)[:, None]
        likelihood = logits.log_softmax(-1).gather(1, index)[:, 0]
        return -(likelihood * torch.tensor(weight, device=logits.device)).sum() / len(requests)

    @torch.no_grad()
    def _box(self, originals: dict[str, Tensor], trained: dict[str, Tensor]) -> None:
        if (bound := self.bound()) is not None:
            for name, original in originals.items():
                trained[name].clamp_(original.float() - bound, original.float() + bound)


@dataclass
class ConstrainedFineTuning(FineTuning):
    """FT within a box: no weight moves further than epsilon (FT-L)."""

    epsilon: float = FROM_PRESET

    presets: ClassVar = {
        "pocket": _preset(0, OURS, epsilon=5e-3, lr=5e-3),
        "gpt2-medium": _preset(0, KMENG, epsilon=2e-3),
        "gpt2-large": _preset(0, KMENG, epsilon=1e-3),
        "gpt2-xl": _preset(0, KMENG, epsilon=5e-4),
        "gpt-j-6b": _preset(0, KMENG, epsilon=5e-5),
        "mistral-7b": _preset(21, EASYEDIT, epsilon=5e-5, bias=False),
    }

    def guess(self, shape: ModelShape) -> Preset:
        """Return the first layer, as for GPT-2, and the box of GPT-2 XL."""
        return _preset(0, "guess", epsilon=5e-4)

    def bound(self) -> float | None:
        """Return epsilon."""
        return self.epsilon
