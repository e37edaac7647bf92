"""AlphaEdit: edits in the null space of what a layer is used for (Fang et al., 2025).

P projects keys onto the eigenvectors of C with small eigenvalues, and `Edit.state` carries earlier keys K_p:

    A = (P (K Kᵀ + K_p K_pᵀ) + L2·I)⁻¹ P K

That is MEMIT's least squares with the metric S⁻¹, S = (P K_p K_pᵀ + L2·I)⁻¹ P. ``prepare`` makes the
eigendecomposition of a wide layer, which takes minutes, once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from edit_harness import FROM_PRESET, DataError, ModelShape, Preset, Request
from edit_harness.edits import Edit
from edit_harness.files import replacing
from edit_harness.interfaces import Making, Origin
from edit_harness.model.model import Model
from edit_harness.model.weights import of_tensors
from edit_harness.registry.settings import Positive

from ..covariance import Covariance, covariance
from ..sources import ALPHAEDIT, OURS
from .memit import Memit, Solver, Spreading

QUICK = 1024
"""Width up to which an eigendecomposition takes less than a second, and need not be stored."""


def _preset(memit: Preset, source: str, origin: Origin, **values: object) -> Preset:
    """Return layers and search of MEMIT's preset with what AlphaEdit has besides."""
    shared = {name: v for name, v in memit.values.items() if name != "moment_weight"}
    return Preset({**shared, "l2": 10.0, "threshold": 2e-2, **values}, source, origin)


def _guessed(family: str) -> Preset:
    return _preset(Memit.presets[family], "as for memit, the rest as published", "guessed")


@dataclass(frozen=True)
class NullSpace:
    """P = I - V Vᵀ, with V the eigenvectors of C whose eigenvalue is not below a threshold."""

    used: Tensor
    """V, width by rank."""
    digest: str = ""
    """That of a stored one."""

    @classmethod
    def of(cls, matrix: Tensor, threshold: float) -> NullSpace:
        """Return the null space of a second moment, width by width."""
        values, vectors = torch.linalg.eigh(matrix.double())
        return cls(vectors[:, values >= threshold])

    @classmethod
    def load(cls, path: Path) -> NullSpace:
        """Read what `save` wrote."""
        with safe_open(path, framework="pt") as file:
            used = file.get_tensor("used").double()
        return cls(used, of_tensors([("used", used)]))

    def save(self, path: Path) -> None:
        """Write V in fp32 as safetensors."""
        with replacing(path) as partial:
            save_file({"used": self.used.float().contiguous()}, partial)

    def project(self, keys: Tensor) -> Tensor:
        """Return P K for keys as columns, in float64."""
        return keys - self.used @ (self.used.T @ keys)

    def solver(self, l2: float, earlier: Tensor | None = None) -> Solver:
        """Return K -> S K, given the keys of earlier requests as columns.

        By Woodbury's identity S = (P - P K_p (L2·I + K_pᵀ P K_p)⁻¹ K_pᵀ P) / L2.
        """
        if earlier is None:
            return lambda keys: self.project(keys) / l2
        past = self.project(earlier)
        inner = l2 * torch.eye(earlier.shape[1], dtype=earlier.dtype) + earlier.T @ past

        def solve(keys: Tensor) -> Tensor:
            return (self.project(keys) - past @ torch.linalg.solve(inner, past.T @ keys)) / l2

        return solve


@dataclass
class AlphaEdit(Spreading):
    """Writes all requests of a batch where ordinary text has no keys."""

    l2: Positive = FROM_PRESET
    """Weight of the change's norm."""
    threshold: Positive = FROM_PRESET
    """Eigenvalue of C below which a direction counts as unused; not relative to the others."""

    command: ClassVar[str] = "alphaedit"
    presets: ClassVar = {
        "pocket": _preset(Memit.presets["pocket"], OURS, "tuned", l2=0.1, threshold=0.2),
        "gpt2-medium": _guessed("gpt2-medium"),
        "gpt2-large": _guessed("gpt2-large"),
        "gpt2-xl": _preset(Memit.presets["gpt2-xl"], ALPHAEDIT, "paper"),
        "gpt-j-6b": _preset(Memit.presets["gpt-j-6b"], ALPHAEDIT, "paper"),
        "llama-3-8b": _preset(Memit.presets["llama-3-8b"], ALPHAEDIT, "paper"),
        **{f: _guessed(f) for f in ("llama-2-7b", "mistral-7b", "qwen2-7b", "qwen2.5-7b")},
    }
    needs: ClassVar[str] = (
        "a subject in each prompt; the second moments of all edited layers' keys, and their null "
        "space from the command prepare"
    )
    citation: ClassVar[str] = (
        "Fang et al. (2025), AlphaEdit: Null-Space Constrained Knowledge Editing for Language Models"
    )

    def __post_init__(self) -> None:
        self._spaces: dict[int, NullSpace] = {}

    @property
    def provenance(self) -> dict[str, str]:
        """Digests of the second moments and of the null spaces that were stored, by layer."""
        stored = {f"null_space.{layer}": space.digest for layer, space in self._spaces.items()}
        return {**super().provenance, **{name: d for name, d in stored.items() if d}}

    def guess(self, shape: ModelShape) -> Preset:
        """Return MEMIT's guess, and the rest as published."""
        memit = Memit().guess(shape)
        return _preset(memit, f"{memit.source}, null space as published", "guessed")

    def make(self, model: Model, making: Making) -> bool:
        """Compute the null spaces that are not stored yet, and store them."""
        moments = covariance(model, self.layers, self.moments, editor=self.command)
        for done, (layer, moment) in enumerate(zip(self.layers, moments, strict=True)):
            path = making.folder / self._file(layer, moment)
            if not path.exists():
                space = NullSpace.of(moment.matrix, self.threshold)
                space.save(path)
                width, rank = space.used.shape
                making.report(f"layer {layer}: {width - rank:,} of {width:,} directions are free")
            making.advance(done + 1, len(self.layers))
        return True

    def solver(self, model: Model, layer: int, moment: Covariance) -> Solver:
        """Return K -> S K without earlier keys.

        The null space of a layer no wider than `QUICK` is computed here if it is not stored.
        Raises `DataError` that names the command for a wider one.
        """
        path = model.cache("editors") / self._file(layer, moment)
        if not path.exists() and len(moment.matrix) > QUICK:
            raise DataError(
                f"the null space of layer {layer} is not there for the threshold {self.threshold:g}",
                f"run: edit-harness prepare --editor alphaedit --model {model.source.name or 'MODEL'}",
            )
        stored = path.exists()
        space = NullSpace.load(path) if stored else NullSpace.of(moment.matrix, self.threshold)
        self._spaces[layer] = space
        return space.solver(self.l2)

    def _file(self, layer: int, moment: Covariance) -> str:
        return f"alphaedit-{moment.digest[:16]}-l{layer}-{self.threshold:g}.safetensors"

    def state(self, keys: Sequence[Tensor]) -> Mapping[str, Tensor]:
        """Return the keys by layer."""
        return {f"keys.{layer}": own for layer, own in zip(self.layers, keys, strict=True)}

    def extend(self, model: Model, previous: Edit, requests: Sequence[Request]) -> Edit:
        """Return the edit enlarged by the requests, with the keys of the earlier ones in S."""
        self.ready(model)
        past = {layer: previous.state.get(f"keys.{layer}") for layer in self.layers}
        solvers = [self._spaces[layer].solver(self.l2, keys) for layer, keys in past.items()]
        with model.applied(previous):
            (edit,) = self.spread(model, [requests], solvers)
        known = {f"keys.{layer}": [keys] for layer, keys in past.items() if keys is not None}
        state = {n: torch.cat([*known.get(n, []), new], 1) for n, new in edit.state.items()}
        return replace(previous + edit, state=state)
