"""PMET: precise model editing (Li et al., 2024).

As MEMIT, but the search changes what attention and MLP of the last layer put out, both at once,
and only the MLP's value is kept as the aim: what the attention is better at need not be forced
into an MLP. A layer takes on 1/√ of the layers left rather than 1/. The search may also end once
the target is the likeliest in every context and the drift is small, and until the drift is, the
likelihood counts a tenth. Passes, keys and closed form are those of `memit`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import ClassVar

from edit_harness import ModelShape, Preset
from edit_harness.interfaces import Origin
from edit_harness.model import Model
from edit_harness_plugins.editors.memit import MIDDLE, Memit
from edit_harness_plugins.editors.sources import EASYEDIT, OURS
from edit_harness_plugins.editors.spreading import guessed_layers
from edit_harness_plugins.editors.value_search import Settings

PMET = "xpq-tech/PMET"


def _preset(
    layers: tuple[int, ...],
    source: str,
    origin: Origin,
    *,
    steps: int = 20,
    lr: float = 0.5,
    decay: float = 0.5,
    clamp: float = 1.0,
    moment_weight: float = 15_000,
) -> Preset:
    return Preset(
        {
            "layers": layers,
            "steps": steps,
            "lr": lr,
            "weight_decay": decay,
            "clamp": clamp,
            "moment_weight": moment_weight,
        },
        source,
        origin,
    )


def _like_llama_2() -> Preset:
    return _preset(MIDDLE, f"{EASYEDIT}, for llama-2-7b", "guessed")


@dataclass
class Pmet(Memit):
    """Writes all requests of a batch, each aimed at the MLP's share of what was searched."""

    kl_factor: float = 1.0
    accept: float = 1e-2
    """Drift at which the search ends, once the target is the likeliest in every context."""

    command: ClassVar[str] = "pmet"
    presets: ClassVar = {
        "pocket": _preset((0, 1, 2), OURS, "tuned", clamp=4.0, moment_weight=30),
        "gpt2-medium": _preset(
            tuple(range(4, 9)), "layers of memit, the rest of llama-2-7b", "guessed"
        ),
        "gpt2-large": _preset(
            tuple(range(8, 13)), "layers of memit, the rest of llama-2-7b", "guessed"
        ),
        "gpt2-xl": _preset(
            tuple(range(13, 18)), "layers of memit, the rest of llama-2-7b", "guessed"
        ),
        "gpt-j-6b": _preset(tuple(range(3, 9)), PMET, "paper", steps=30, lr=0.2, clamp=0.75),
        "llama-2-7b": _preset(MIDDLE, EASYEDIT, "ported"),
        "mistral-7b": _like_llama_2(),
        "llama-3-8b": _like_llama_2(),
        "qwen2-7b": _like_llama_2(),
        "qwen2.5-7b": _like_llama_2(),
    }
    citation: ClassVar[str] = "Li et al. (2024), PMET: Precise Model Editing in a Transformer"

    def guess(self, shape: ModelShape) -> Preset:
        """Return layers by depth, and the rest as for Llama 2."""
        return _preset(guessed_layers(shape), "layers by depth, the rest of llama-2-7b", "guessed")

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

    def settings(self) -> Settings:
        """Return the hyperparameters of the search, with its second end."""
        return replace(super().settings(), accept=self.accept)
