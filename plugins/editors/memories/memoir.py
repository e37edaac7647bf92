"""MEMOIR: each edit trains its own few features of a matrix beside one MLP projection (Wang et al., 2025).

The matrix M, at first zero, gets the projection's inputs and adds to its outputs. A prompt's mean input, less
that of other texts, chooses k features; SGD moves M there alone, so that it hardly overwrites other edits. A
later prompt is answered through the stored mask that its own has most in common with, or without M.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from edit_harness import FROM_PRESET, ModelShape, PluginError, Preset, Request
from edit_harness.edits import Edit
from edit_harness.interfaces import Origin
from edit_harness.model.hooks import at_least_fp32
from edit_harness.model.model import Model
from edit_harness.model.reuse import CleanTexts
from edit_harness.registry.settings import Count, Natural, Positive, Share

from .._search import bases
from .._search.bases import Prepared, in_groups
from .._search.contexts import fill, sampled
from .._search.suffix import SuffixForward
from .._search.texts import Targets, Text, grouped
from ..sources import OURS
from .lessons import Learning, contexts_of, settled
from .residual import ResidualMemory

AUTHORS = "qym7/MEMOIR"
BACKGROUND_LENGTH = 20
"""Tokens of a background text."""
CLIP, DECAY = 1.0, 1e-5
"""Largest norm of a gradient, and SGD's L2 term."""


def _preset(layer: int, source: str, origin: Origin = "guessed", **values: Any) -> Preset:
    llama = {"layer": layer, "k": 4096, "steps": 30, "threshold": 0.4}
    return Preset({**llama, **values}, source, origin)


@dataclass(frozen=True)
class Shared(bases.Shared):
    """What all edits of one model share."""

    contexts: tuple[str, ...]
    empty: ResidualMemory


@dataclass
class Memoir(Learning, Prepared[Shared]):
    """Writes each request into features of a memory, which answers prompts that are like its own."""

    layer: Natural = FROM_PRESET
    """The layer beside whose MLP's output projection the memory stands."""
    k: Count = FROM_PRESET
    """Features of a mask."""
    steps: Count = FROM_PRESET
    """SGD's steps for a request at most."""
    lr: Positive = 1.0
    """SGD's rate."""
    threshold: Share = FROM_PRESET
    """The part of its mask that a prompt shares with a stored one, if the memory is to answer it."""
    contexts: tuple[str, ...] = ()
    """Texts with ``{}`` for the prompt, the bare ``{}`` first; by default ten are sampled."""
    background: Count = 100
    """Texts sampled from the unedited model whose mean input is taken off a prompt's."""
    seed: int = 0
    """Seed of the sampled texts, and of the permutation that spreads masks over the features."""

    presets: ClassVar = {
        "pocket": _preset(1, OURS, "tuned", k=64, threshold=0.34),
        "pocket-context": _preset(0, f"{OURS}-context", "tuned", k=128, threshold=0.56),
        "gpt-j-6b": _preset(21, "NAS's runs of it", "ported", steps=70, threshold=0.46),
        "llama-2-7b": _preset(27, "as Llama 3"),
        "llama-3-8b": _preset(27, AUTHORS, "paper"),
        "mistral-7b": _preset(27, "as Llama 3"),
        "qwen2-7b": _preset(23, "as Llama 3 by depth"),
        "qwen2.5-7b": _preset(23, "as Llama 3 by depth"),
    }
    needs: ClassVar[str] = "a prompt and a target, no subject; memory for rows of one projection"
    citation: ClassVar[str] = (
        "Wang et al. (2025), MEMOIR: Lifelong Model Editing with Minimal Overwrite and Informed "
        "Retention for LLMs"
    )

    def guess(self, shape: ModelShape) -> Preset:
        """Return Llama 3's layer by depth, and as many features as the residual stream is wide."""
        return _preset(27 * shape.layers // 32, "layer and k by Llama 3's sizes", k=shape.hidden)

    def check(self, model: Model) -> None:
        """Raise `PluginError` if the layer has no projection, or one of fewer than k inputs."""
        if self.k > (width := model.architecture.projection(self.layer).shape[0]):
            raise PluginError(
                f"a projection of layer {self.layer} has {width} features, a mask k={self.k}",
                f"give fewer: --editor-args k={width // 3}",
            )

    def find(self, model: Model) -> Shared:
        """Sample contexts and background texts, and read what these put into the projection."""
        contexts = contexts_of(model, self.contexts, self.seed)
        texts = sampled(model, (BACKGROUND_LENGTH,), self.background, self.seed)[1:]
        ids = [model.tokens.encode(fill(text, "").strip()).ids for text in texts]
        projection, base = model.architecture.projection(self.layer), CleanTexts(model)
        base.remember(ids, {projection.name})
        (keys,) = map(at_least_fp32, base.inputs(projection.name))
        mean = torch.stack([keys[base.slots(each) or []].mean(0) for each in ids]).mean(0)
        width, hidden = projection.shape
        order = torch.randperm(width, generator=torch.Generator().manual_seed(self.seed))
        none = torch.empty(0, (width + 7) // 8, dtype=torch.uint8), mean.new_empty(0, hidden)
        empty = ResidualMemory(mean, order, *none, self.k, self.threshold)
        digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()
        return Shared({"background": digest}, {"contexts": list(contexts)}, contexts, empty)

    def taught(
        self, model: Model, edits: Sequence[Edit], requests: Sequence[Request]
    ) -> list[Edit]:
        """Return each edit with one request taken in."""
        contexts, split = self.ready(model).contexts, model.tokens.split
        texts = [
            [Text.of(split(fill(context, each.text), each.target_new)) for context in contexts]
            for each in requests
        ]
        bytes_each = 3 * 4 * self.k * model.architecture.projection(self.layer).shape[1]
        return in_groups(
            grouped(texts, len(contexts), bytes_each),
            lambda group: self._teach(model, [edits[i] for i in group], [texts[i] for i in group]),
        )

    def _teach(
        self, model: Model, edits: Sequence[Edit], texts: Sequence[Sequence[Text]]
    ) -> list[Edit]:
        """Move the features of each edit's next mask until its texts' targets are likely."""
        rows = [text for own in texts for text in own]
        again = SuffixForward(model, self.layer, [text.ids for text in rows], [0] * len(rows))
        given = zip(edits, texts, again.keys.split([len(own) for own in texts]), strict=True)
        lessons = [Lesson(self._memory(model, edit), own, keys) for edit, own, keys in given]
        targets = Targets(rows, model.device)
        read = again.places(targets.rows, targets.positions)
        descent = torch.optim.SGD([each.part for each in lessons], self.lr, weight_decay=DECAY)
        for _ in range(self.steps):
            if not (live := [each for each in lessons if not each.ended]):
                break
            logits = again.logits(read, torch.cat([each.change() for each in lessons]))
            likely = targets.log_likelihoods(logits).split([len(each.shares) for each in lessons])
            losses = [each.loss(own) for each, own in zip(lessons, likely, strict=True)]
            total = torch.stack([loss for loss in losses if loss is not None]).sum()
            found = torch.autograd.grad(total, [each.part for each in live])
            for each, gradient in zip(live, found, strict=True):
                each.part.grad = gradient
                clip_grad_norm_(each.part, CLIP)
            descent.step()  # which leaves those without a gradient as they are
            descent.zero_grad()
        name = model.architecture.projection(self.layer).name
        return [
            replace(edit, adaptors={name: each.learnt()}, info=each.info)
            for edit, each in zip(edits, lessons, strict=True)
        ]

    def _memory(self, model: Model, edit: Edit) -> ResidualMemory:
        """Return an edit's memory so far."""
        memory = edit.adaptors.get(model.architecture.projection(self.layer).name)
        if not edit.adaptors:
            return self.ready(model).empty
        if len(edit.adaptors) > 1 or not isinstance(memory, ResidualMemory):
            raise PluginError(
                f"the edit so far is no memory of layer {self.layer}, so memoir cannot extend it",
                "extend an edit that memoir made with the same layer",
            )
        return memory


class Lesson:
    """A request on its way into a memory, by M at the features of its mask.

    ``texts`` are its rows, the bare one first; ``keys`` go into the projection, texts by tokens by d_in.
    """

    def __init__(self, memory: ResidualMemory, texts: Sequence[Text], keys: Tensor) -> None:
        prompt = torch.arange(keys.shape[1], device=keys.device) <= texts[0].reads[0]
        (self.mask,) = memory.mask(keys[:1], prompt[None])
        self.memory, self._keys = memory, keys[..., self.mask]
        self.part = memory.dense()[self.mask.cpu()].to(keys).requires_grad_()
        shares = [1 / len(text.reads) / len(texts) for text in texts for _ in text.reads]
        self.shares = torch.tensor(shares, dtype=keys.dtype, device=keys.device)
        """What each target token counts."""
        self.losses = list[float]()

    @property
    def ended(self) -> bool:
        """Whether the last loss that led to a step was low and had settled."""
        return settled(self.losses)

    def change(self) -> Tensor:
        """Return what M adds to the projection's outputs, texts by tokens by d_out."""
        return self._keys @ self.part

    def loss(self, likely: Tensor) -> Tensor | None:
        """Return the loss in nats, given its target tokens' log-likelihoods; None if it has ended."""
        if self.ended:
            return None
        loss = -(likely * self.shares).sum()
        self.losses.append(loss.item())
        return loss

    def learnt(self) -> ResidualMemory:
        """Return the memory with what was learnt."""
        return self.memory.and_then(self.mask, self.part.detach())

    @property
    def info(self) -> dict[str, float]:
        """How the search went, for the record of the edit."""
        masks = len(self.memory.masks) + 1
        return {"loss": self.losses[-1], "steps": len(self.losses), "masks": masks}
