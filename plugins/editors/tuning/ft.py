"""FT and FT-L: fine-tuning of one MLP output projection, for FT-L within an L-infinity box.

Follows the baselines of ROME's and MEMIT's code: Adam on weight and bias, and all target tokens
scored at the last prompt position, without teacher forcing. ``position=teacher`` scores each
token after the ones before it. Source: Zhu et al. (2020); Meng et al. (2022), appendix E.1.

EasyEdit has both, as ``prompt_last``, which all its files choose, and ``target_new``, and calls the
first FT-L even without a box and the second FT-M. Here FT-L is what has a box.

Many cases share forward passes, each with a change and an Adam of its own: see `tuning`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from edit_harness import FROM_PRESET, Editor, ModelShape, Preset, Request
from edit_harness.edits import Edit
from edit_harness.interfaces import Origin
from edit_harness.model.model import Model
from edit_harness.registry.settings import Count, Natural, NotNegative, Positive

from ..sources import ALPHAEDIT, EASYEDIT, KMENG, OURS
from .tuning import Case, Part, Settings, Text, grouped, state_bytes, teacher_forced


def _preset(
    layer: int,
    source: str,
    origin: Origin = "ported",
    *,
    epsilon: float | None = None,
    lr: float = 5e-4,
    bias: bool = True,
) -> Preset:
    values = {"layer": layer, "lr": lr, "bias": bias}
    return Preset(values if epsilon is None else {**values, "epsilon": epsilon}, source, origin)


def _as_mistral(layer: int) -> Preset:
    """Return FT's own layer for the family, within Mistral's box."""
    return _preset(layer, "FT's layer, the box of Mistral", "guessed", epsilon=5e-5, bias=False)


@dataclass
class FineTuning(Editor):
    """Gradient descent on one projection until the targets are likely."""

    layer: Natural = FROM_PRESET
    steps: Count = 25
    lr: Positive = FROM_PRESET
    weight_decay: NotNegative = 0.0
    """Adam's L2 term, towards 0."""
    stop: NotNegative = 1e-2
    """No step is taken below this mean loss, and the search ends."""
    position: Literal["last", "teacher"] = "last"
    bias: bool = FROM_PRESET
    """Whether the projection's bias is trained too, where it has one."""
    chunk: Count = 64
    """Requests of one step; more are taken one chunk after another."""

    presets: ClassVar = {
        "pocket": _preset(1, OURS, "tuned", lr=5e-3),
        "gpt2-medium": _preset(1, "as GPT-2 XL", "guessed"),
        "gpt2-large": _preset(1, "as GPT-2 XL", "guessed"),
        "gpt2-xl": _preset(1, KMENG, "paper"),
        "gpt-j-6b": _preset(21, KMENG, "paper"),
        "gpt-neox-20b": _preset(33, "as GPT-J by depth", "guessed"),
        "llama-2-7b": _preset(21, EASYEDIT, bias=False),
        "llama-3-8b": _preset(21, f"{EASYEDIT}, {ALPHAEDIT}", bias=False),
        "mistral-7b": _preset(21, "as Llama", "guessed", bias=False),
        "qwen2-7b": _preset(27, EASYEDIT, bias=False),
        "qwen2.5-7b": _preset(27, EASYEDIT, bias=False),
    }
    needs: ClassVar[str] = "memory for four more of the layer's projection"
    citation: ClassVar[str] = "Zhu et al. (2020), Modifying Memories in Transformer Models"

    def guess(self, shape: ModelShape) -> Preset:
        """Return the layer after which ROME would edit."""
        return _preset(round(0.35 * shape.layers), "ROME's layer by depth", "guessed")

    def bound(self) -> float | None:
        """Return the half-width of the box around each weight, or None for no box."""
        return None

    def check(self, model: Model) -> None:
        """Raise `PluginError` if the layer has no projection."""
        model.architecture.projection(self.layer)

    def edit(self, model: Model, requests: Sequence[Request]) -> Edit:
        """Return the dense change of the projection's weight and, if asked for, bias."""
        (edit,) = self.edit_each(model, [requests])
        return edit

    def edit_each(self, model: Model, batches: Sequence[Sequence[Request]]) -> list[Edit]:
        """Return for each batch the edit that it finds alone; what they share is the passes."""
        texts = [[self._text(model, request) for request in batch] for batch in batches]
        size = state_bytes(model.architecture.projection(self.layer))
        edits: dict[int, Edit] = {}
        for group in grouped(texts, self.chunk, size):
            made = self._descend(model, [texts[i] for i in group])
            edits |= dict(zip(group, made, strict=True))
        return [edits[i] for i in range(len(batches))]

    def _text(self, model: Model, request: Request) -> Text:
        if self.position == "teacher":
            return teacher_forced(model, request)
        part = model.tokens.split(request.text, request.target_new)
        return Text(part.prompt, (len(part.prompt) - 1,) * len(part.target), part.target)

    def _descend(self, model: Model, batches: Sequence[Sequence[Text]]) -> list[Edit]:
        """Move a change for each batch until its targets are likely.

        A pass runs all rows it was laid out for, so it is laid out anew when half are done with.
        The clean keys of all chunks are kept meanwhile.
        """
        projection = model.architecture.projection(self.layer)
        given = Settings(
            self.lr, self.weight_decay, self.bias, self.chunk, model.device, self.bound()
        )
        cases = [Case(given, projection, texts) for texts in batches]
        live, parts = list(cases), list[Part]()
        for _ in range(self.steps):
            if not parts or 2 * len(live) <= len(parts[0].cases):
                chunks = range(max(len(case.chunks) for case in live))
                parts = [Part(model, self.layer, live, chunk) for chunk in chunks]
            for part in parts:
                self._pass(part, live)
            for case in live:
                case.close()
            # A loss that is no number never gets below the threshold.
            live = [case for case in live if not case.losses[-1] < self.stop]
            if not live:
                break
        return [case.edit() for case in cases]

    def _pass(self, part: Part, live: Collection[Case]) -> None:
        """Run a part, and take a step of each live case that is not below the threshold."""
        change = part.change().requires_grad_()
        losses = self._loss(part, change)
        moving = []
        for i, (case, loss) in enumerate(zip(part.cases, losses.tolist(), strict=True)):
            if case in live:
                case.note(part.chunk, loss)
                moving += [i] if loss >= self.stop else []
        if moving:
            (gradient,) = torch.autograd.grad(losses[moving].sum(), change)
            for i in moving:
                rows = part.rows[i]
                part.cases[i].step(part.again.keys[rows], gradient[rows])

    def _loss(self, part: Part, change: Tensor) -> Tensor:
        """Return for each case the mean over texts of the mean loss of their target tokens."""
        logits = part.again.logits(part.read, change)
        chosen = logits.log_softmax(-1).gather(1, part.tokens[:, None])[:, 0] / part.shares
        return -torch.stack([own.sum() for own in chosen.split(part.sizes)])


@dataclass
class ConstrainedFineTuning(FineTuning):
    """FT within a box: no weight moves further than epsilon (FT-L)."""

    epsilon: Positive = FROM_PRESET

    presets: ClassVar = {
        "pocket": _preset(0, OURS, "tuned", epsilon=5e-3, lr=5e-3),
        "gpt2-medium": _preset(0, KMENG, "paper", epsilon=2e-3),
        "gpt2-large": _preset(0, KMENG, "paper", epsilon=1e-3),
        "gpt2-xl": _preset(0, KMENG, "paper", epsilon=5e-4),
        "gpt-j-6b": _preset(0, KMENG, "paper", epsilon=5e-5),
        "gpt-neox-20b": _preset(0, "specificityplus", "paper", epsilon=5e-5),
        "llama-2-7b": _as_mistral(21),
        "llama-3-8b": _as_mistral(21),
        "mistral-7b": _preset(21, EASYEDIT, epsilon=5e-5, bias=False),
        "qwen2-7b": _as_mistral(27),
        "qwen2.5-7b": _as_mistral(27),
    }

    def guess(self, shape: ModelShape) -> Preset:
        """Return the first layer, as for GPT-2, and the box of GPT-2 XL."""
        return _preset(0, "the first layer, the box of GPT-2 XL", "guessed", epsilon=5e-4)

    def bound(self) -> float | None:
        """Return epsilon."""
        return self.epsilon
