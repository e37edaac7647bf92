"""MEND's editing network, and the file that it is kept in (Mitchell et al., 2022, section 3).

It maps the two factors of a token's gradient of a matrix, the input x and the gradient g of the
output, to the factors of a change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

from edit_harness import DataError
from edit_harness.edits import Delta
from edit_harness.files import replacing
from edit_harness.model.architecture import Projection

from .._search.factors import Factors

EPSILON = 1e-7
"""Added to a standard deviation before it divides."""
LAYERS = 2


class Statistics(nn.Module):
    """Running mean and standard deviation of vectors of one width, by Welford's method."""

    mean: Tensor
    squares: Tensor
    """Sum of the squared distances from the mean."""
    count: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("squares", torch.zeros(width))
        # As an integer it stays exact whatever precision the network is put into.
        self.register_buffer("count", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def update(self, vectors: Tensor) -> None:
        """Take in vectors, n by width, with the result that one after another would have."""
        if not len(vectors):
            return
        before, new = int(self.count), len(vectors)
        share = new / (before + new)
        mean = vectors.mean(0)
        shift = mean - self.mean
        self.squares += ((vectors - mean) ** 2).sum(0) + shift**2 * before * share
        self.mean += shift * share
        self.count += new

    def forward(self, vectors: Tensor) -> Tensor:
        """Return (v − μ) / (σ + 1e-7), or v as it is while fewer than two were taken in."""
        if self.count < 2:
            return vectors
        deviation = (self.squares / (self.count - 1)).sqrt()
        return (vectors - self.mean) / (deviation + EPSILON)


class Layer(nn.Module):
    """One residual layer of low rank; every matrix of the shape has its own scale and shift."""

    def __init__(self, width: int, rank: int, matrices: int, noise: torch.Generator) -> None:
        super().__init__()
        self.u = nn.Parameter(torch.zeros(width, rank))
        self.v = nn.Parameter(torch.randn(rank, width, generator=noise))
        self.bias = nn.Parameter(torch.zeros(width))
        self.scale = nn.Parameter(torch.ones(matrices, width))
        self.shift = nn.Parameter(torch.zeros(matrices, width))

    def forward(self, hidden: Tensor, matrix: int) -> Tensor:
        """Return h + max(0, s_m ⊙ (U V h + b) + t_m); h is tokens by width."""
        inner = hidden @ self.v.T @ self.u.T + self.bias
        # Not relu, whose gradient at 0 is 0: U = 0 is where the network starts.
        return hidden + (self.scale[matrix] * inner + self.shift[matrix]).clamp(min=0)


class Transform(nn.Module):
    """The network of all matrices of one shape; it begins as the identity."""

    def __init__(
        self, shape: tuple[int, int], rank: int, matrices: int, noise: torch.Generator
    ) -> None:
        super().__init__()
        self.shape = shape
        self.inputs, self.gradients = map(Statistics, shape)
        width = sum(shape)
        self.layers = nn.ModuleList(
            Layer(width, min(rank, width), matrices, noise) for _ in range(LAYERS)
        )

    def forward(self, matrix: int, x: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        """Return x̂ and ĝ of the matrix-th of this shape; in training, take in x and g first."""
        if self.training:
            self.inputs.update(x)
            self.gradients.update(g)
        hidden = torch.cat([self.inputs(x), self.gradients(g)], dim=1)
        for layer in self.layers:
            hidden = layer(hidden, matrix)
        new_x, new_g = hidden.split(self.shape, dim=1)
        return new_x, new_g


class Network(nn.Module):
    """The network of a list of matrices, whose shapes are given as (inputs, outputs).

    ``lr`` is what each matrix's learned rate begins with. The change is added to the matrix, so
    that a rate of gradient descent is negative; training finds the sign.
    """

    def __init__(
        self, shapes: Sequence[tuple[int, int]], rank: int, *, lr: float, seed: int = 0
    ) -> None:
        super().__init__()
        self.shapes = tuple(shapes)
        self.lrs = nn.Parameter(torch.full((len(shapes),), lr))
        noise = torch.Generator().manual_seed(seed)
        self.transforms = nn.ModuleDict(
            {
                str(shape): Transform(shape, rank, self.shapes.count(shape), noise)
                for shape in dict.fromkeys(self.shapes)
            }
        )

    def forward(self, index: int, x: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        """Return x̂ and lr ĝ for tokens of a matrix, tokens by inputs and by outputs.

        ΔW = Σ x̂ (lr ĝ)ᵀ over the tokens of an edit, inputs by outputs.
        """
        shape = self.shapes[index]
        among_equals = self.shapes[:index].count(shape)
        new_x, new_g = self.transforms[str(shape)](among_equals, x, g)
        return new_x, self.lrs[index] * new_g

    def changes(
        self, matrices: Sequence[Projection], found: Sequence[Factors]
    ) -> list[dict[str, Delta]]:
        """Return each edit's changes, differentiable in the parameters, with a rank for each token."""
        edits: list[dict[str, Delta]] = [{} for _ in found[0].sizes]
        for index, (matrix, own) in enumerate(zip(matrices, found, strict=True)):
            new_x, new_g = (t.split(own.sizes) for t in self(index, own.inputs, own.gradients))
            for edit, x, g in zip(edits, new_x, new_g, strict=True):
                edit |= matrix.low_rank(x.T, g)
        return edits


@dataclass(frozen=True)
class Made:
    """What a file of a network says about it."""

    model: str
    """Digest of the weights that it edits."""
    matrices: tuple[str, ...]
    """Names of the modules that it changes, in the order of its rates."""
    rank: int
    data: str
    """What it learned from, for people."""
    data_digest: str
    training: Mapping[str, Any] = field(default_factory=dict)
    """The settings of the training and its last figures; empty for an imported network."""


def save(tensors: Mapping[str, Tensor], made: Made, path: Path) -> None:
    """Write a network's tensors as safetensors."""
    with replacing(path) as partial:
        save_file(copies(tensors), partial, {"mend": json.dumps(asdict(made))})


def load(path: Path, matrices: Sequence[Projection], digest: str) -> tuple[Network, Made]:
    """Read the network of matrices of the model with this digest, and what its file says of it.

    Raises `DataError` if it is no network, or one of other weights or matrices.
    """
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            made = Made(**json.loads((file.metadata() or {})["mend"]))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is no network of mend: {error!r}") from None
    if made.model != digest:
        raise DataError(
            f"{path} was trained for other weights ({made.model[:12]}, not {digest[:12]})",
            "train one for this model: edit-harness prepare --editor mend",
        )
    if list(made.matrices) != [matrix.name for matrix in matrices]:
        raise DataError(
            f"{path} edits {', '.join(made.matrices)}, not {', '.join(m.name for m in matrices)}",
            "give the field blocks as it was when the network was trained",
        )
    network = Network([matrix.shape for matrix in matrices], made.rank, lr=0.0)
    network.load_state_dict(tensors)
    return network.eval(), made


def copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors of their own memory: safetensors refuses views of a shared one."""
    layout = torch.contiguous_format
    return {name: tensor.detach().clone(memory_format=layout) for name, tensor in tensors.items()}


# Networks in the file layout of the authors: {"model": {...}}, where `edit_lrs` holds the rates and
# `mend.(inputs, outputs).*` the network of one shape; older files say `gtn` for `mend`. The archives
# also hold configuration objects: inert stand-ins take their place.

CONFIGURATIONS = ("omegaconf.", "hydra.", "transformers.", "typing.", "collections.")
"""Modules whose classes stand-ins replace; nothing else of an archive is let in."""
RENAMED = {
    "u_mean": "inputs.mean",
    "u_s": "inputs.squares",
    "v_mean": "gradients.mean",
    "v_s": "gradients.squares",
    "mlp.layers": "layers",
    "mode_scale.weight": "scale",
    "mode_shift.weight": "shift",
}
"""Ours for theirs. Their ``u_std`` and ``v_std`` follow from these."""
RENAME = re.compile("|".join(RENAMED))
ENTRY = re.compile(r"(?:mend|gtn)\.(\(\d+, \d+\))\.(k|[uv]_mean|[uv]_s|mlp\.layers\..+)")


class StandIn:
    """An object of a configuration, of which nothing is wanted but that it can be read."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __setstate__(self, _: Any) -> None:
        pass


def read_checkpoint(path: Path, matrices: Sequence[Projection]) -> tuple[Network, int]:
    """Return the network for the matrices, in their order, and its rank.

    Raises `DataError` for a file that is none of the layout, or of other shapes.
    """
    try:
        named = get_unsafe_globals_in_checkpoint(path)
        inert: list[Any] = [(StandIn, name) for name in named if name.startswith(CONFIGURATIONS)]
        with safe_globals(inert):
            entries = torch.load(path, map_location="cpu", weights_only=True)["model"].items()
        theirs = {name: value for name, value in entries if isinstance(value, Tensor)}
    except Exception as error:  # as many kinds as there are files of something else
        raise DataError(f"{path} is no network in the layout of MEND's authors: {error}") from None
    try:
        rank = next(len(t) for name, t in theirs.items() if name.endswith("mlp.layers.0.v"))
        network = Network([matrix.shape for matrix in matrices], rank, lr=0.0)
        ours = {ours: t for name, t in theirs.items() for ours in _names(name)}
        rates = theirs["edit_lrs"].flatten()
        if not matrices[0].out_in:
            # The authors list a block's matrices as the module tree does, but GPT-2's, which are
            # inputs by outputs, the other way round: c_proj before c_fc, and learned rates so.
            rates = rates.view(-1, 2).flip(1).flatten()
        network.load_state_dict({**ours, "lrs": rates})
    except (StopIteration, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} does not fit the matrices {', '.join(m.name for m in matrices)}: {error}",
            "give the field blocks, and the model that the network was trained for",
        ) from None
    return network, rank


def _names(theirs: str) -> list[str]:
    """Return our names of a parameter of theirs: none of one that follows from others."""
    if not (entry := ENTRY.fullmatch(theirs)):
        return []
    shape, rest = entry.groups()
    names = ["inputs.count", "gradients.count"] if rest == "k" else [rest]
    return [f"transforms.{shape}.{RENAME.sub(lambda m: RENAMED[m[0]], name)}" for name in names]
