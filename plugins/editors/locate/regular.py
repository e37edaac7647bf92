"""What keeps edits from harming a model: the metric of least squares, RECT on each change, PRUNE on their sum.

RECT (Gu et al., 2024) keeps the entries that change a weight most for its size. PRUNE (Ma et al., 2025) lowers
the sum's singular values above the largest of the unedited matrix to s_max + log s - log s_max.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor

from edit_harness import Editor, Request
from edit_harness.edits import Delta, Dense, Edit, LowRank
from edit_harness.model.architecture import Projection
from edit_harness.model.model import Model
from edit_harness.registry.settings import Share

TINY = 1e-8
"""Added to the weights that RECT divides by."""
Solver: TypeAlias = Callable[[Tensor], Tensor]
"""K -> M⁻¹K for a symmetric M: keys as columns, in float64."""


@dataclass(frozen=True)
class Metric:
    """What a change costs: of M⁻¹ = S / weight, the `Solver` of M."""

    scaled: Solver
    """K -> S K."""
    weight: float = 1.0

    def __call__(self, keys: Tensor) -> Tensor:
        """Return M⁻¹K."""
        return self.scaled(keys) / self.weight

    def and_keys(self, earlier: Tensor) -> Metric:
        """Return M + K_p K_pᵀ for the keys K_p of earlier requests, as columns.

        By Woodbury's identity its S is S - S K_p (weight·I + K_pᵀ S K_p)⁻¹ K_pᵀ S: nothing as large
        as the layer is wide is factored again.
        """
        past = self.scaled(earlier)
        inner = self.weight * torch.eye(earlier.shape[1], dtype=earlier.dtype) + earlier.T @ past
        return Metric(
            lambda keys: self.scaled(keys) - past @ torch.linalg.solve(inner, past.T @ keys),
            self.weight,
        )


def named(departures: Mapping[str, bool], more: str = "") -> str:
    """Return the departures that hold, for `Editor.variant`."""
    return ", ".join(
        [*(name for name, holds in departures.items() if holds), *([more] if more else [])]
    )


@dataclass
class Regular(Editor):
    """Fields of editors that change matrices, each off by default."""

    rect: Share = 0.0
    """Share of a change's entries that is kept, those with the largest abs(Δ / (W + 1e-8)): RECT, where
    it is 0.4. 0 keeps all. Changes are dense then."""
    prune: bool = False
    """Whether the sum of all changes is measured with its largest singular values lowered: PRUNE."""

    @property
    def variant(self) -> str:
        """Name the fields that are on."""
        rect = "rect" if self.rect == 0.4 else f"rect={self.rect:g}"
        return named({rect: self.rect > 0, "prune": self.prune})

    def change(self, projection: Projection, left: Tensor, right: Tensor) -> Mapping[str, Delta]:
        """Return the change ``left @ right``, inputs by rank and rank by outputs, as RECT leaves it.

        W is the matrix as it stands, with the edits before.
        """
        changes = projection.low_rank(left, right)
        if not self.rect:
            return changes
        weights = projection.parameters
        return {name: kept(delta, weights[name], self.rect) for name, delta in changes.items()}

    def finish(self, model: Model, edit: Edit) -> Edit:
        """Return the edit as PRUNE leaves it; a sequence goes on from what it was before."""
        if not self.prune:
            return edit
        weights = {name: pruned(d, model.parameter(name)) for name, d in edit.weights.items()}
        return replace(edit, weights=weights)


class Remembering(Regular):
    """An editor by least squares in several layers, whose metrics may count the keys of earlier requests."""

    layers: tuple[int, ...]

    @property
    def remembers(self) -> bool:
        """Whether the metric of a sequence counts the keys of its earlier requests."""
        return False

    @abstractmethod
    def metrics(self, model: Model) -> Sequence[Metric]:
        """Return the metric of each layer, without earlier keys."""

    @abstractmethod
    def spread(
        self, model: Model, batches: Sequence[Sequence[Request]], metrics: Sequence[Metric]
    ) -> list[Edit]:
        """Return an edit for each batch, with one metric for each layer, and `states` in its state."""

    def extend(self, model: Model, previous: Edit, requests: Sequence[Request]) -> Edit:
        """Return the edit enlarged by the requests, with the keys of the earlier ones in the metrics."""
        metrics, past = list(self.metrics(model)), previous.state
        for i, name in enumerate(self.states()):
            metrics[i] = metrics[i].and_keys(past[name]) if name in past else metrics[i]
        with model.applied(previous):
            (edit,) = self.spread(model, [requests], metrics)
        state = {
            n: torch.cat([past[n], new], 1) if n in past else new for n, new in edit.state.items()
        }
        return replace(previous + edit, state=state)

    def states(self) -> list[str]:
        """Return the names in `Edit.state` of the layers' keys, width by n, if they are remembered.

        Those that an edit was made with are those after it: what it changes in a layer and above
        moves no key of the layer.
        """
        return [f"keys.{layer}" for layer in self.layers] if self.remembers else []


def kept(delta: Delta, weight: Tensor, share: float) -> Dense:
    """Return a share of a change's entries, rounded down: those largest beside the weight's."""
    change = delta.dense()
    ratios = (change / (weight.detach().to(change) + TINY)).abs()
    dropped = ratios.numel() - int(share * ratios.numel())
    if not dropped:
        return Dense(change)
    limit = ratios.flatten().kthvalue(dropped).values
    return Dense(torch.where(ratios > limit, change, 0.0))


@torch.no_grad()
def pruned(delta: Delta, weight: Tensor) -> Delta:
    """Return a change whose singular values are lowered where they exceed all of the unedited weight.

    A change of low rank stays so, and one that has no such value is what it was.
    """
    u, values, v = _svd(delta)
    largest = torch.linalg.matrix_norm(weight.to(u), 2)
    if not bool((values > largest).any()):
        return delta
    lower = torch.where(values > largest, (values / largest).log() + largest, values)
    dtype = next(iter(vars(delta).values())).dtype
    if isinstance(delta, LowRank):
        return LowRank((u * lower).to(dtype), v.to(dtype))
    return Dense(((u * lower) @ v).to(dtype))


def _svd(delta: Delta) -> tuple[Tensor, Tensor, Tensor]:
    """Return U, the singular values and Vᵀ in float64; of low rank, from the thin factors."""
    if isinstance(delta, Dense):
        return tuple(torch.linalg.svd(delta.tensor.double(), full_matrices=False))
    left, right = torch.linalg.qr(delta.left.double()), torch.linalg.qr(delta.right.double().T)
    u, values, v = torch.linalg.svd(left.R @ right.R.T, full_matrices=False)
    return left.Q @ u, values, v @ right.Q.T
