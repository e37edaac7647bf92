"""LocFT-BF: fine-tuning of one located matrix, breadth first (ICLR 2026).

All requests are learned at once: passes over all of them, in batches and a new order each time, teacher-forced,
with the end of the sequence behind each target. A batch whose loss is low takes no step. The rest is FT's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch

from edit_harness import ModelShape, Preset, Request
from edit_harness.interfaces import Origin
from edit_harness.model.model import Model
from edit_harness.registry.settings import Count

from .._search.texts import Text, seeded
from ..sources import OURS
from .ft import Case, FineTuning

LOCFT = "LocFT-BF"


def _preset(layer: int, source: str = LOCFT, origin: Origin = "paper", **values: Any) -> Preset:
    return Preset({"layer": layer, "lr": 5e-4, "bias": False, **values}, source, origin)


@dataclass
class LocalizedFineTuning(FineTuning):
    """Epochs of gradient descent over all requests on one projection, until the targets are likely."""

    position: Literal["last", "teacher"] = "teacher"
    chunk: Count = 100
    eos: bool = True
    """Whether the tokenizer's end of the sequence is learned behind each target."""
    shuffle: bool = True
    """Whether the requests have another order in each epoch."""
    seed: int = 0
    """Seed of the orders."""

    presets: ClassVar = {
        "pocket": _preset(1, OURS, "tuned", lr=2e-2, bias=True),
        "llama-3-8b": _preset(22),
        "mistral-7b": _preset(23, f"{LOCFT}, which trains the whole block", "ported", lr=5e-5),
        "qwen2.5-7b": _preset(6),
    }
    citation: ClassVar[str] = "LocFT-BF (ICLR 2026)"

    def guess(self, shape: ModelShape) -> Preset:
        """Return the layer as deep as Llama 3's, and the rest as published."""
        layer = round(22 / 32 * shape.layers)
        return _preset(layer, "the layer of llama-3-8b by depth, the rest as published", "guessed")

    def text(self, model: Model, request: Request) -> Text:
        """Return a request's tokens and where they are scored, with the end of the sequence."""
        text = super().text(model, request)
        if not self.eos:
            return text
        end, teacher = model.tokens.tokenizer.eos_token_id, self.position == "teacher"
        ids = text.ids + text.target[-1:] if teacher else text.ids
        return Text(ids, (*text.reads, text.reads[-1] + teacher), (*text.target, end))

    def reorder(self, cases: Sequence[Case], epoch: int) -> bool:
        """Deal the requests of cases anew, where they are more than a batch."""
        many = [case for case in cases if self.shuffle and len(case.chunks) > 1]
        for case in many:
            draw = torch.Generator().manual_seed(seeded(self.seed, epoch))
            texts = [text for chunk in case.chunks for text in chunk]
            case.deal([texts[i] for i in torch.randperm(len(texts), generator=draw).tolist()])
        return bool(many)
