"""EMMET: an equality-constrained edit of many requests (Gupta et al., 2024).

ROME for a batch: each key gives its value exactly, A = C⁻¹K (KᵀC⁻¹K)⁻¹. Of one request that is ROME's change
at one key. With several, μ on the diagonal keeps near-equal keys from fighting. The rest is MEMIT's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from edit_harness import ModelShape, Preset
from edit_harness.interfaces import Origin
from edit_harness.model.model import Model
from edit_harness.registry.settings import NotNegative

from ..covariance import Covariance
from ..sources import EASYEDIT, MEMIT, OURS, UNIFIED
from .memit import SEARCH, Spreading, guessed_layers
from .regular import Metric


def _preset(layer: int, source: str, origin: Origin, **values: Any) -> Preset:
    return Preset({"layers": (layer,), **SEARCH, **values}, source, origin)


def _wide(origin: Origin, layer_source: str) -> Preset:
    source = f"layer of {layer_source}, search as for memit in {EASYEDIT}"
    return _preset(5, source, origin, weight_decay=1e-3, clamp=4.0)


@dataclass
class Emmet(Spreading):
    """Writes all requests of a batch so that each key gives its value."""

    ridge: NotNegative = 0.1
    """μ, for batches of more than one request."""

    command: ClassVar[str] = "emmet"
    presets: ClassVar = {
        "pocket": _preset(0, OURS, "tuned", clamp=1.0),
        "gpt2-medium": _preset(8, "layer of rome, search as for memit", "guessed", steps=20),
        "gpt2-large": _preset(12, "layer of rome, search as for memit", "guessed", steps=20),
        "gpt2-xl": _preset(17, f"layer of {UNIFIED}, search of {MEMIT}", "ported", steps=20),
        "gpt-j-6b": _preset(5, f"layer of {UNIFIED}, search of {MEMIT}", "ported"),
        "llama-2-7b": _wide("ported", UNIFIED),
        **dict.fromkeys(
            ("mistral-7b", "llama-3-8b", "qwen2-7b", "qwen2.5-7b"), _wide("guessed", "rome")
        ),
    }
    needs: ClassVar[str] = (
        "a subject in each prompt, or window=N; the second moment of the layer's keys"
    )
    citation: ClassVar[str] = "Gupta et al. (2024), A Unified Framework for Model Editing (EMMET)"

    def guess(self, shape: ModelShape) -> Preset:
        """Return ROME's relative depth, and the search of MEMIT."""
        layer = guessed_layers(shape, deep=5)[-1]
        return _preset(layer, "layer by depth, search as for memit", "guessed")

    def metric(self, model: Model, layer: int, moment: Covariance) -> Metric:
        """Return C."""
        return Metric(moment.solver())

    def directions(self, keys: Tensor, solved: Tensor) -> Tensor:
        """Return A = B (KᵀB + μI)⁻¹ with B = C⁻¹K, width by n; μ = 0 for a single key."""
        many = keys.shape[1]
        ridge = (self.ridge if many > 1 else 0.0) * torch.eye(many, dtype=keys.dtype)
        return torch.linalg.solve(keys.T @ solved + ridge, solved, left=False)
