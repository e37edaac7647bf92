"""MEMIT: mass editing of a memory in a transformer (Meng et al., 2023).

Any number of requests is written at once, spread over several layers. An edit of one request is
soft on purpose: a layer realises k·a / (1 + k·a) of its share, with a = (λC)⁻¹k, so how far an
edit goes depends on λ. The passes and the search are those of `spreading`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from edit_harness import FROM_PRESET, ModelShape, Preset
from edit_harness.interfaces import Origin
from edit_harness.model.model import Model
from edit_harness.registry.settings import Positive

from .. import sources
from .._search.covariance import Covariance
from ..sources import ALPHAEDIT, EASYEDIT, OURS
from .spreading import Solver, Spreading, guessed_layers

MIDDLE = tuple(range(4, 9))
SEARCH = {"steps": 25, "lr": 0.5, "weight_decay": 0.5, "clamp": 0.75}
"""As MEMIT's authors have it for GPT-J."""


def preset(layers: Sequence[int], source: str, origin: Origin = "ported", **values: Any) -> Preset:
    """Return a preset; what is not given is as MEMIT's authors have it for GPT-J."""
    published = {"layers": tuple(layers), **SEARCH, "moment_weight": 15_000}
    return Preset({**published, **values}, source, origin)


def _gpt2(layers: Sequence[int], source: str, origin: Origin) -> Preset:
    return preset(layers, source, origin, steps=20, moment_weight=20_000)


def _easyedit() -> Preset:
    return preset(MIDDLE, EASYEDIT, weight_decay=1e-3, clamp=4.0)


@dataclass
class Memit(Spreading):
    """Writes all requests of a batch by least squares over what the layers hold already."""

    moment_weight: Positive = FROM_PRESET
    """λ: what the second moment counts against a request's key."""

    command: ClassVar[str] = "memit"
    presets: ClassVar = {
        "pocket": preset((0, 1), OURS, "tuned", clamp=1.0, moment_weight=30),
        "gpt2-medium": _gpt2(range(4, 9), "the layers that end at ROME's", "guessed"),
        "gpt2-large": _gpt2(range(8, 13), "the layers that end at ROME's", "guessed"),
        "gpt2-xl": _gpt2(range(13, 18), sources.MEMIT, "paper"),
        "gpt-j-6b": preset(range(3, 9), sources.MEMIT, "paper"),
        "llama-2-7b": _easyedit(),
        "mistral-7b": _easyedit(),
        "llama-3-8b": preset(MIDDLE, ALPHAEDIT, lr=0.1),
        "qwen2-7b": _easyedit(),
        "qwen2.5-7b": _easyedit(),
    }
    citation: ClassVar[str] = "Meng et al. (2023), Mass-Editing Memory in a Transformer"

    def guess(self, shape: ModelShape) -> Preset:
        """Return layers by depth, and the rest as for GPT-2 XL or GPT-J."""
        made = _gpt2 if shape.type == "gpt2" else preset
        return made(guessed_layers(shape), "layers by depth, the rest as published", "guessed")

    def solver(self, model: Model, layer: int, moment: Covariance) -> Solver:
        """Return K -> (λC)⁻¹K. Meng et al. (2023), equation 14."""
        inverse = moment.solver()
        return lambda keys: inverse(keys) / self.moment_weight
