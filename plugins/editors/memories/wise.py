"""WISE: a trained copy of one MLP matrix answers the prompts that move its activations far (Wang et al., 2024).

Each request trains the copy, behind contexts and against an unrelated prompt. After some requests a copy is
full and the next begins; full copies are merged, and of several the one that a prompt moves furthest answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Literal

import torch

from edit_harness import FROM_PRESET, ModelShape, PluginError, Preset, Request
from edit_harness.edits import Edit
from edit_harness.interfaces import Origin
from edit_harness.model.architecture import Projection
from edit_harness.model.model import Model
from edit_harness.registry.settings import Natural, Positive

from .._search import bases
from .._search.bases import Prepared, in_groups
from .._search.contexts import fill
from .._search.texts import Text, grouped, seeded
from ..sources import EASYEDIT, OURS
from .lessons import Learning, contexts_of
from .side import SideMemories
from .side_training import Fields, Lesson, Pass

UNRELATED = (
    "The weather was mild and",
    "She opened the window because",
    "To make the soup, first",
    "In the evening they usually",
    "The second chapter of the book",
    "Water begins to boil when",
    "On the way to the station",
    "A triangle has three",
)
ACTIVATIONS = ("hidden_activation", "hidden_act", "activation_function", "activation")
"""Where configurations of transformers name the activation function."""
PER_ENTRY = 12
"""Bytes that a lesson needs for each entry of the matrix: change, gradient, and which may move."""
POCKET = {
    "module": "up",
    "steps": 40,
    "lr": 0.3,
    "alpha": 1.0,
    "beta": 5.0,
    "gamma": 2.0,
    "act_ratio": 0.7,
    "save_every": 5,
}


def _preset(layer: int, source: str, origin: Origin = "ported", **values: Any) -> Preset:
    llama = {"layer": layer, "module": "down", "steps": 70, "lr": 1.0, "act_ratio": 0.88}
    margins = {"alpha": 5.0, "beta": 20.0, "gamma": 10.0, "save_every": 500}
    return Preset({**llama, **margins, **values}, source, origin)


@dataclass(frozen=True)
class Shared(bases.Shared):
    """What all edits of one model share."""

    contexts: tuple[str, ...]


@dataclass
class Wise(Fields, Learning, Prepared[Shared]):
    """Trains copies of a matrix beside the model, and lets them answer what moves far in them."""

    layer: Natural = FROM_PRESET
    """The layer that has the matrix."""
    module: Literal["down", "up"] = FROM_PRESET
    """down: the MLP's output projection; up: the first linear map of the MLP."""
    act_ratio: Positive = FROM_PRESET
    """A copy answers beyond this part of the smallest distance of its edits."""
    unrelated: tuple[str, ...] = UNRELATED
    """Prompts of which one is taken for a request that has no tag ``unrelated``."""
    contexts: tuple[str, ...] = ()
    """Texts with ``{}`` for the prompt, the bare ``{}`` first; by default ten are sampled."""

    presets: ClassVar = {
        "pocket": _preset(1, OURS, "tuned", **POCKET),
        "gpt2-xl": _preset(8, EASYEDIT, module="up", steps=40, act_ratio=0.8),
        "gpt-j-6b": _preset(21, EASYEDIT, "paper", alpha=15.0, beta=40.0, gamma=20.0),
        "llama-2-7b": _preset(27, EASYEDIT, "paper"),
        "llama-3-8b": _preset(29, EASYEDIT, steps=30, lr=0.9, alpha=2.0, act_ratio=0.5),
        "mistral-7b": _preset(27, EASYEDIT, "paper"),
        "qwen2-7b": _preset(23, "EasyEdit's values for Qwen2.5 7B", "guessed"),
        "qwen2.5-7b": _preset(23, EASYEDIT),
    }
    needs: ClassVar[str] = (
        "a prompt and a target, no subject; memory for four of the layer's matrix"
    )
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
        """Raise `PluginError` if the layer has no such map."""
        self._linear(model)

    def find(self, model: Model) -> Shared:
        """Sample contexts from the unedited model."""
        contexts = contexts_of(model, self.contexts, self.seed)
        return Shared({}, {"contexts": list(contexts)}, contexts)

    def _linear(self, model: Model) -> Projection:
        architecture, up = model.architecture, self.module == "up"
        return architecture.mlp(self.layer)[0] if up else architecture.projection(self.layer)

    def taught(
        self, model: Model, edits: Sequence[Edit], requests: Sequence[Request]
    ) -> list[Edit]:
        """Return each edit with one request taken in."""
        texts = [self.texts(model, request) for request in requests]
        return in_groups(
            grouped(texts, len(texts[0]), PER_ENTRY * prod(self._linear(model).shape)),
            lambda group: self._teach(model, [edits[i] for i in group], [texts[i] for i in group]),
        )

    def texts(self, model: Model, request: Request) -> list[Text]:
        """Return the request behind each context, and the unrelated prompt, which has no target."""
        contexts, split = self.ready(model).contexts, model.tokens.split
        own = [Text.of(split(fill(each, request.text), request.target_new)) for each in contexts]
        place = seeded(self.seed, request.statement) % len(self.unrelated)
        other = request.tags.get("unrelated") or self.unrelated[place]
        return [*own, Text(model.tokens.encode(other).ids, (), ())]

    def _teach(
        self, model: Model, edits: Sequence[Edit], texts: Sequence[Sequence[Text]]
    ) -> list[Edit]:
        """Train one copy of each edit; passes are laid out anew when half are done with."""
        linear, lessons = self._linear(model), list[Lesson]()
        for edit, own in zip(edits, texts, strict=True):
            count = int(edit.state.get(f"{linear.name}.requests", 0))
            lessons.append(Lesson(self, self._memories(model, edit), count, own))
        live, run = lessons, Pass(model, self.layer, linear, lessons)
        for _ in range(self.steps):
            run.step()
            live = [lesson for lesson in live if not lesson.ended]
            if not live:
                break
            if 2 * len(live) <= len(run.lessons):
                run = Pass(model, self.layer, linear, live)
        each = zip(lessons, edits, strict=True)
        return [lesson.learned(edit, linear.name) for lesson, edit in each]

    def _memories(self, model: Model, edit: Edit) -> SideMemories:
        """Return an edit's memories so far."""
        linear, config = self._linear(model), model.architecture.config
        known = edit.adaptors.get(linear.name)
        if edit.adaptors and not (len(edit.adaptors) == 1 and isinstance(known, SideMemories)):
            raise PluginError(
                f"the edit so far has no memory beside {linear.name}, so wise cannot extend it",
                "extend an edit that wise made with the same layer and module",
            )
        dtype = torch.promote_types(linear.dtype, torch.float32)
        changes = torch.empty(0, *linear.shape, dtype=dtype, device=model.device)
        nearest = changes.new_empty(0)
        if isinstance(known, SideMemories):
            changes, nearest = known.changes.to(changes), known.nearest.to(changes)
        named = (getattr(config, name, None) for name in ACTIVATIONS)
        activation = next((name for name in named if name), "gelu")
        return SideMemories(changes, nearest, self.act_ratio, activation)
