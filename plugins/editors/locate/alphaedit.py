"""AlphaEdit: edits in the null space of what a layer is used for (Fang et al., 2025).

P projects keys onto the eigenvectors of C with small eigenvalues, and `Edit.state` carries earlier keys K_p:

    A = (P (K Kᵀ + K_p K_pᵀ) + L2·I)⁻¹ P K

That is MEMIT's least squares with the metric M⁻¹ = P / L2 and earlier keys. ``prepare`` makes the
eigendecomposition of a wide layer, which takes minutes, once. NAS (2026) anchors the norm of what is aimed at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from edit_harness import FROM_PRESET, DataError, ModelShape, Preset, Request
from edit_harness.files import replacing
from edit_harness.interfaces import Making, Origin
from edit_harness.model.model import Model
from edit_harness.model.weights import of_tensors
from edit_harness.registry.settings import NotNegative, Positive

from ..covariance import Covariance, covariance
from ..sources import ALPHAEDIT, OURS
from .memit import Memit, Spreading
from .regular import Metric, named
from .value_search import Found

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


@dataclass
class AlphaEdit(Spreading):
    """Writes all requests of a batch where ordinary text has no keys."""

    l2: Positive = FROM_PRESET
    """Weight of the change's norm."""
    threshold: Positive = FROM_PRESET
    """Eigenvalue of C below which a direction counts as unused; not relative to the others."""
    anchor: NotNegative = 0.0
    """m: a v* longer than 2 m is shortened to m: NAS, where m is the mean of |v*| over a thousand searches
    on the unedited model, without the largest; 0 is off. A run with anchor=1e9 shortens none, and notes
    each |v*| as ``wanted_norm``."""

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
        "a subject in each prompt, or window=N; the second moments of all edited layers' keys, and their null "
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

    @property
    def remembers(self) -> bool:
        """True: K_p are counted."""
        return True

    @property
    def variant(self) -> str:
        """Name the fields that are on."""
        return named({"anchor": self.anchor > 0}, super().variant)

    def _search(self, model: Model, requests: Sequence[Request]) -> list[Found]:
        """Return what is wanted at each request's subject, anchored."""
        found = super()._search(model, requests)
        return [self._anchored(each) for each in found] if self.anchor else found

    def _anchored(self, found: Found) -> Found:
        """Return v* · m / |v*| in place of a v* longer than 2 m; |v*| is noted."""
        wanted, norm = found.wanted, float(found.wanted.norm())
        shorter = wanted * (self.anchor / norm) - found.values[0]
        delta = shorter if norm > 2 * self.anchor else found.delta
        return replace(found, delta=delta, notes={"wanted_norm": norm})

    def metric(self, model: Model, layer: int, moment: Covariance) -> Metric:
        """Return M with M⁻¹ = P / L2.

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
        return Metric(space.project, self.l2)

    def _file(self, layer: int, moment: Covariance) -> str:
        return f"alphaedit-{moment.digest[:16]}-l{layer}-{self.threshold:g}.safetensors"
