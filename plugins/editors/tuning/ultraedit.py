"""UltraEdit: the gradient of an edit, normalised over a lifetime, written by least squares (Gu et al., 2025).

For each edited matrix: keys k are its inputs where the model predicts the target's tokens, g the gradients of the
targets' mean loss at its outputs there. k̂ and ĝ are k and g less the mean of all tokens of all edits so far, over
their deviation, entry by entry. With K the keys as rows, tokens by inputs,

    v = -η ‖k̂‖² ĝ    and    Δ = (KᵀK + I)⁻¹ Kᵀ V = Kᵀ (K Kᵀ + I)⁻¹ V,

inputs by outputs. `Edit.state` carries the statistics from edit to edit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor

from edit_harness import FROM_PRESET, ModelShape, PluginError, Preset, Request
from edit_harness.edits import Delta, Edit
from edit_harness.interfaces import Origin
from edit_harness.model.architecture import Projection
from edit_harness.model.model import Model
from edit_harness.registry.settings import Positive

from .._search.bases import Batched
from .._search.factors import factors
from .._search.texts import teacher_forced
from ..sources import OURS

ULTRAEDIT = "XiaojieGu/UltraEdit"


def _preset(source: str = ULTRAEDIT, origin: Origin = "paper", **values: Any) -> Preset:
    """Return a preset; a part of the MLP that is not given is not edited."""
    return Preset({"gate": (), "up": (), "down": (), "lr": 1e-6, **values}, source, origin)


def _layers(first: int, last: int) -> tuple[int, ...]:
    return tuple(range(first, last + 1))


@dataclass(frozen=True)
class Statistics:
    """Mean and deviation of all vectors so far, of one width, entry by entry."""

    count: Tensor
    """How many there were, without dimensions."""
    mean: Tensor
    squares: Tensor
    """Sum of the squared distances from the mean."""

    def including(self, vectors: Tensor) -> Statistics:
        """Return the statistics with more vectors, n by width, as if all had come at once."""
        new = len(vectors)
        count, mean = self.count + new, vectors.mean(0)
        shift = mean - self.mean
        squares = ((vectors - mean) ** 2).sum(0) + shift**2 * self.count * new / count
        return Statistics(count, self.mean + shift * new / count, self.squares + squares)

    def normalised(self, vectors: Tensor) -> Tensor:
        """Return vectors less the mean, over the deviation, which counts as 1 where it is 0.

        A single vector, which has no deviation, is divided by the root mean square of its entries.
        """
        if self.count < 2:
            mean, deviation = torch.zeros_like(self.mean), vectors.square().mean().sqrt()
        else:
            mean, deviation = self.mean, (self.squares / (self.count - 1)).sqrt()
        return (vectors - mean) / deviation.where(deviation > 0, 1.0)


@dataclass
class UltraEdit(Batched):
    """Writes by one backward pass, without training, subject or memory of earlier requests."""

    gate: tuple[int, ...] = FROM_PRESET
    """Layers whose map gate_proj is edited."""
    up: tuple[int, ...] = FROM_PRESET
    """Layers whose map up_proj is edited."""
    down: tuple[int, ...] = FROM_PRESET
    """Layers whose MLP's output projection is edited, whatever its name."""
    lr: Positive = FROM_PRESET
    """η: how far an edit goes down its normalised gradients."""

    presets: ClassVar = {
        "pocket": _preset(OURS, "tuned", up=(4,), lr=0.02),
        "pocket-context": _preset(f"{OURS}-context", "tuned", up=(3,), lr=0.012),
        "gpt-j-6b": _preset(down=_layers(18, 26)),
        "mistral-7b": _preset(down=_layers(29, 30)),
        "llama-3-8b": _preset(gate=_layers(11, 15), up=_layers(18, 24)),
        "qwen2-7b": _preset("as Qwen2.5", "guessed", gate=_layers(18, 26), up=_layers(18, 26)),
        "qwen2.5-7b": _preset(gate=_layers(18, 26), up=_layers(18, 26)),
    }
    needs: ClassVar[str] = "a prompt and a target, no subject"
    citation: ClassVar[str] = (
        "Gu et al. (2025), UltraEdit: Training-, Subject-, and Memory-Free Lifelong Editing in "
        "Language Models"
    )

    def guess(self, shape: ModelShape) -> Preset:
        """Return the MLP output projections of GPT-J's layers by depth, and the rest as published."""
        first = shape.layers * 18 // 28
        chosen = _layers(first, max(first, shape.layers - 2))
        return _preset("GPT-J's layers by depth, the rest as published", "guessed", down=chosen)

    def check(self, model: Model) -> None:
        """Raise `PluginError` if the model has no such matrices."""
        self._matrices(model)

    def edit_each(self, model: Model, batches: Sequence[Sequence[Request]]) -> list[Edit]:
        """Return an edit for each batch, as the first of its lifetime; they share passes."""
        return self._write(model, batches, {}) if batches else []

    def extend(self, model: Model, previous: Edit, requests: Sequence[Request]) -> Edit:
        """Return the edit enlarged by the requests, normalised by all tokens so far."""
        with model.applied(previous):
            (edit,) = self._write(model, [requests], previous.state)
        return previous + edit

    def _write(
        self, model: Model, batches: Sequence[Sequence[Request]], past: Mapping[str, Tensor]
    ) -> list[Edit]:
        """Return an edit for each batch, normalised by the statistics in ``past`` and its own."""
        matrices = self._matrices(model)
        texts = [[teacher_forced(model, request) for request in batch] for batch in batches]
        found, losses = factors(model, matrices, texts, answers=True)
        edits = [Edit(info={"loss": loss}) for loss in losses]
        for matrix, own in zip(matrices, found, strict=True):
            tokens = zip(own.inputs.split(own.sizes), own.gradients.split(own.sizes), strict=True)
            changes = [self._change(matrix, keys, slopes, past) for keys, slopes in tokens]
            edits = [edit + change for edit, change in zip(edits, changes, strict=True)]
        return edits

    def _change(
        self, matrix: Projection, keys: Tensor, slopes: Tensor, past: Mapping[str, Tensor]
    ) -> Edit:
        """Return the change of a matrix and its statistics from then on.

        ``keys`` are tokens by inputs, ``slopes`` tokens by outputs.
        """
        hats, state = list[Tensor](), dict[str, Tensor]()
        for side, vectors in (("keys", keys.double()), ("gradients", slopes.double())):
            name = f"{matrix.name}.{side}"
            known = _statistics(past, name, vectors).including(vectors)
            hats.append(known.normalised(vectors))
            state |= {f"{name}.{part}": tensor for part, tensor in vars(known).items()}
        values = -self.lr * hats[0].square().sum(1, keepdim=True) * hats[1]
        return Edit(least_squares(matrix, keys, values), state=state)

    def _matrices(self, model: Model) -> list[Projection]:
        """Return what is edited. Raises `PluginError` for a layer or a map that is not there."""
        named = [
            _named(model, layer, f"{part}_proj")
            for part, layers in (("gate", self.gate), ("up", self.up))
            for layer in layers
        ]
        return named + [model.architecture.projection(layer) for layer in self.down]


def least_squares(matrix: Projection, keys: Tensor, values: Tensor) -> dict[str, Delta]:
    """Return Δ = (KᵀK + I)⁻¹ Kᵀ V, for fewer tokens than inputs as a product with a rank for each.

    ``keys`` are tokens by inputs, ``values`` tokens by outputs, in float64.
    """
    wide = keys.double()
    identity = torch.eye(min(wide.shape), dtype=wide.dtype, device=wide.device)
    if len(keys) < keys.shape[1]:
        right = torch.linalg.solve(wide @ wide.T + identity, values)
        return matrix.low_rank(keys.T, right.to(keys))
    whole = torch.linalg.solve(wide.T @ wide + identity, wide.T @ values)
    return matrix.dense(whole.to(keys))


def _statistics(past: Mapping[str, Tensor], name: str, like: Tensor) -> Statistics:
    """Return what a state holds under a name; the statistics of no vector if it holds nothing."""
    if f"{name}.count" not in past:
        zeros = like.new_zeros(like.shape[1])
        return Statistics(like.new_zeros(()), zeros, zeros)
    parts = [field.name for field in fields(Statistics)]
    return Statistics(*(past[f"{name}.{part}"].to(like.device) for part in parts))


def _named(model: Model, layer: int, name: str) -> Projection:
    """Return a map of a layer's MLP by the end of its name. Raises `PluginError` for none."""
    maps = model.architecture.mlp(layer)
    for each in maps:
        if each.name.endswith(f".{name}"):
            return each
    raise PluginError(
        f"no map {name} was found in block {layer}, which has {', '.join(m.name for m in maps)}",
        "choose layers of the output projection: --editor-args gate=,up=,down=3,4",
    )
