"""MEMOIR: each edit trains its own few features of a matrix beside one MLP projection (Wang et al., 2025).

The matrix M, at first zero, gets the projection's inputs and adds to its outputs. A prompt's mean input, less
that of other texts, chooses k features; SGD moves M there alone, so that it hardly overwrites other edits. A
later prompt is answered through the stored mask that its own has most in common with, or without M; each text
by itself, at its prompt (sections 3.1 and 3.2).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from edit_harness import FROM_PRESET, ModelShape, PluginError, Preset, Request
from edit_harness.edits import Edit, Rows
from edit_harness.interfaces import Origin
from edit_harness.model.hooks import at_least_fp32
from edit_harness.model.model import Model
from edit_harness.model.reuse import CleanTexts
from edit_harness.registry.settings import Count, Natural, Positive, Share

from .._search import bases
from .._search.bases import Prepared, earlier
from .._search.contexts import fill, sampled
from ..sources import OURS
from .lessons import Learning, contexts_of, passes, settled

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

    def taught(self, model: Model, edit: Edit, request: Request) -> Edit:
        """Return the edit with the features of one mask more moved until the request's target is likely."""
        shared, name = self.ready(model), model.architecture.projection(self.layer).name
        memory = earlier(edit, name, ResidualMemory, "memoir") or shared.empty
        keys, prompt, loss = passes(model, self.layer, name, shared.contexts, request)
        (mask,) = memory.mask(keys[:1], prompt[:1])
        part, own = memory.dense()[mask.cpu()].to(keys).requires_grad_(), keys[..., mask]
        descent, losses = torch.optim.SGD([part], self.lr, weight_decay=DECAY), list[float]()
        while len(losses) < self.steps and not settled(losses):
            now = loss(own @ part)
            (part.grad,) = torch.autograd.grad(now, part)
            clip_grad_norm_(part, CLIP)
            descent.step()
            losses.append(now.item())
        grown = memory.and_then(mask, part.detach())
        info = {"loss": losses[-1], "steps": len(losses), "masks": len(grown.masks)}
        return replace(edit, adaptors={name: grown}, info=info)


@dataclass(frozen=True, eq=False)
class ResidualMemory:
    """An adaptor: a matrix M, the masks of n edits, and what a prompt's mask is made by."""

    background: Tensor
    """The mean input of the projection over background texts, d_in."""
    order: Tensor
    """The permutation that sends a feature to the one that it opens, d_in."""
    masks: Tensor
    """A bit for each feature, n by d_in / 8 bytes."""
    matrix: Tensor
    """M at the features that are in some mask, features by d_out; elsewhere it is zero."""
    k: int
    """Features of a mask."""
    threshold: float
    """The part of its mask that a prompt shares with a stored one, if M is to answer it."""

    def __call__(self, inputs: Tensor, outputs: Tensor, rows: Rows) -> Tensor:
        """Return the outputs, with what M adds in the rows whose prompts are answered."""
        if "masks" not in rows.memo:
            own = self.mask(inputs, rows.mask & (rows.offsets <= 0))
            rows.memo["masks"] = self.nearest(own)
        masks = rows.memo["masks"]
        (open,) = masks.any(1).nonzero(as_tuple=True)
        if not len(open):
            return outputs
        features, matrix = self.stored.any(0).to(inputs.device), self.matrix.to(inputs.device)
        keys = (inputs[open] * masks[open, None])[..., features].to(matrix)
        return outputs.index_add(0, open, (keys @ matrix).to(outputs))

    def mask(self, inputs: Tensor, prompt: Tensor) -> Tensor:
        """Return the mask of each row, rows by d_in.

        ``inputs`` are rows by positions by d_in; ``prompt`` tells which positions have a prompt's token.
        """
        total = at_least_fp32(inputs).masked_fill(~prompt[..., None], 0).sum(1)
        mean = total / prompt.sum(1, keepdim=True)
        top = (mean - self.background.to(mean)).abs().topk(self.k).indices
        opened = self.order.to(top.device)[top]
        return torch.zeros_like(mean, dtype=torch.bool).scatter(1, opened, True)

    def nearest(self, masks: Tensor) -> Tensor:
        """Return the stored mask that each shares most with, or an empty one where that is too little."""
        stored = self.stored.to(masks.device)
        common, edit = (masks.float() @ stored.float().T).max(1)
        return stored[edit] & (common / self.k >= self.threshold)[:, None]

    @cached_property
    def stored(self) -> Tensor:
        """The stored masks, n by d_in, on the CPU."""
        bits = np.unpackbits(self.masks.cpu().numpy(), axis=1, count=len(self.order))
        return torch.from_numpy(bits).bool()

    def dense(self) -> Tensor:
        """Return M, d_in by d_out."""
        whole = self.matrix.new_zeros(len(self.order), self.matrix.shape[1])
        whole[self.stored.any(0)] = self.matrix
        return whole

    def and_then(self, mask: Tensor, part: Tensor) -> ResidualMemory:
        """Return this memory with one mask more, d_in, and with M at its features, k by d_out."""
        whole, mask = self.dense(), mask.cpu()
        whole[mask] = part.to(whole)
        bits = torch.from_numpy(np.packbits(mask.numpy())[None]).to(self.masks)
        features = self.stored.any(0) | mask
        return replace(self, masks=torch.cat([self.masks, bits]), matrix=whole[features])
