"""PMET: precise model editing (Li et al., 2024).

As MEMIT, but the search changes what attention and MLP of the last layer put out, and only the MLP's value is
kept as the aim. A layer takes on 1/√ of the layers left. The search may also end once the target is the
likeliest in every context and the drift is small; until the drift is, the likelihood counts a tenth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar

from edit_harness import ModelShape, Preset
from edit_harness.interfaces import Origin
from edit_harness.model.model import Model
from edit_harness.registry.settings import NotNegative

from ..sources import EASYEDIT, OURS
from .memit import MIDDLE, Memit, guessed_layers, preset

PMET = "xpq-tech/PMET"


def _llama(layers: Sequence[int], source: str, origin: Origin, **values: Any) -> Preset:
    return preset(layers, source, origin, **{"steps": 20, "clamp": 1.0, **values})


def _like_llama(layers: Sequence[int] = MIDDLE) -> Preset:
    return _llama(layers, f"layers of memit, the rest as {EASYEDIT} for llama-2-7b", "guessed")


@dataclass
class Pmet(Memit):
    """Writes all requests of a batch, each aimed at the MLP's share of what was searched."""

    kl_factor: NotNegative = 1.0
    accept: NotNegative = 1e-2
    """Drift at which the search ends, once the target is the likeliest in every context."""

    command: ClassVar[str] = "pmet"
    presets: ClassVar = {
        "pocket": _llama((0, 1, 2), OURS, "tuned", clamp=4.0, moment_weight=30),
        "gpt2-medium": _like_llama(range(4, 9)),
        "gpt2-large": _like_llama(range(8, 13)),
        "gpt2-xl": _like_llama(range(13, 18)),
        "gpt-j-6b": preset(range(3, 9), PMET, "paper", steps=30, lr=0.2),
        "llama-2-7b": _llama(MIDDLE, EASYEDIT, "ported"),
        **dict.fromkeys(("mistral-7b", "llama-3-8b", "qwen2-7b", "qwen2.5-7b"), _like_llama()),
    }
    citation: ClassVar[str] = "Li et al. (2024), PMET: Precise Model Editing in a Transformer"

    def guess(self, shape: ModelShape) -> Preset:
        """Return layers by depth, and the rest as for Llama 2."""
        return _llama(guessed_layers(shape), "layers by depth, the rest of llama-2-7b", "guessed")

    def check(self, model: Model) -> None:
        """Raise `PluginError` also if no attention output is found in the last layer."""
        super().check(model)
        model.architecture.attention(self.layers[-1])

    def changed(self, model: Model) -> tuple[str, ...]:
        """Return MLP projection and attention output of the last layer; the aim is the MLP's."""
        architecture, last = model.architecture, self.layers[-1]
        return architecture.projection(last).name, architecture.attention(last).name

    def share(self, left: int) -> float:
        """Return 1/√left."""
        return 1 / sqrt(left)
