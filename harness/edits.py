"""An edit as data: what to change in a forward pass, not a changed model.

Since an edit is data, one batch can hold rows of many edits, and of none; each row sees only its
own. `Edit.weights` covers weight editing, `Edit.adaptors` memories such as codebooks,
`Edit.prefix` in-context editing. `Edit.patch` covers whatever else exists, one edit at a time.
How an edit reaches a model stands in `edit_harness.model`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from edit_harness.errors import DataError, PluginError, ResourceError

FORMAT = "edit-harness edit 1"


@dataclass(frozen=True, eq=False)
class LowRank:
    """The change ``left @ right`` of a parameter, in the parameter's own orientation."""

    left: Tensor
    right: Tensor

    @property
    def shape(self) -> torch.Size:
        """The shape of the change."""
        return torch.Size([self.left.shape[0], self.right.shape[1]])

    def dense(self) -> Tensor:
        """Return the change as one matrix."""
        return self.left @ self.right

    def through(self, inputs: Tensor, *, out_in: bool) -> Tensor:
        """Return what the change adds to the layer's output, in the delta's own precision.

        ``out_in`` tells a weight of shape (out, in), as in `torch.nn.Linear`, from (in, out).
        """
        x = inputs.to(self.left.dtype)
        if out_in:
            return (x @ self.right.T.to(x.device)) @ self.left.T.to(x.device)
        return (x @ self.left.to(x.device)) @ self.right.to(x.device)

    def __add__(self, other: Delta) -> Delta:
        """Return the sum, of low rank as long as that is smaller."""
        if isinstance(other, LowRank):
            rank = self.left.shape[1] + other.left.shape[1]
            if 2 * rank <= min(self.left.shape[0], self.right.shape[1]):
                left = torch.cat([self.left, other.left], dim=1)
                return LowRank(left, torch.cat([self.right, other.right]))
        return Dense(self.dense() + other.dense())


@dataclass(frozen=True, eq=False)
class Dense:
    """The change ``tensor`` of a parameter: a matrix or, for a bias, a vector."""

    tensor: Tensor

    @property
    def shape(self) -> torch.Size:
        """The shape of the change."""
        return self.tensor.shape

    def dense(self) -> Tensor:
        """Return the change as one tensor."""
        return self.tensor

    def through(self, inputs: Tensor, *, out_in: bool) -> Tensor:
        """Return what the change adds to the layer's output; see `LowRank.through`."""
        tensor = self.tensor.to(inputs.device)
        if tensor.dim() == 1:
            return tensor
        return inputs.to(tensor.dtype) @ (tensor.T if out_in else tensor)

    def __add__(self, other: Delta) -> Delta:
        """Return the sum."""
        return Dense(self.tensor + other.dense())


Delta: TypeAlias = LowRank | Dense


@dataclass(frozen=True)
class Rows:
    """The rows of a forward pass that an adaptor sees."""

    offsets: Tensor
    """Place of each position, rows by positions, counted from the last token of the prompt."""
    memo: dict[str, Any]
    """Kept from pass to pass of one generation, for what an adaptor decides at the prompt."""


class Adaptor(Protocol):
    """Replaces the output of a module, given its input."""

    def __call__(self, inputs: Tensor, outputs: Tensor, rows: Rows) -> Tensor:
        """Return the new output; tensors are rows by positions by width."""


@dataclass(frozen=True, eq=False)
class Edit:
    """A change of a model's behaviour; ``Edit()`` changes nothing."""

    weights: Mapping[str, Delta] = field(default_factory=dict)
    """Changes by parameter name."""
    adaptors: Mapping[str, Adaptor] = field(default_factory=dict)
    """Adaptors by module name."""
    prefix: str = ""
    """Text put before every prompt."""
    patch: Callable[[torch.nn.Module], AbstractContextManager[object]] | None = None
    """Last resort: a context in which the model is edited."""
    info: Mapping[str, float | Sequence[float]] = field(default_factory=dict)
    """Diagnostics for the record, such as the final loss."""
    state: Mapping[str, Tensor] = field(default_factory=dict)
    """What `Editor.extend` needs to know of the requests so far; it changes no answer."""

    def __add__(self, other: Edit) -> Edit:
        """Return the edit that applies both. Raises `PluginError` if they exclude each other."""
        if (self.patch and other.patch) or self.adaptors.keys() & other.adaptors.keys():
            raise PluginError(
                "two edits share a patch or an adaptor", "the editor has to override extend"
            )
        shared = self.weights.keys() & other.weights.keys()
        sums = {name: self.weights[name] + other.weights[name] for name in shared}
        return Edit(
            weights={**self.weights, **other.weights, **sums},
            adaptors={**self.adaptors, **other.adaptors},
            prefix=self.prefix + other.prefix,
            patch=self.patch or other.patch,
            info={**self.info, **other.info},
            state={**self.state, **other.state},
        )

    @property
    def touches_nothing(self) -> bool:
        """Tell whether the model's forward pass stays as it is; the prefix only changes texts."""
        return not (self.weights or self.adaptors or self.patch)

    @property
    def changes_nothing(self) -> bool:
        """Tell whether the model answers as without the edit."""
        return self.touches_nothing and not self.prefix

    def without_weights(self) -> Edit:
        """Return what is left to do while `Model.applied` holds the weights and the patch."""
        return replace(self, weights={}, patch=None)

    def save(self, path: str | Path, model: str = "") -> None:
        """Write weights and prefix as safetensors.

        Raises `PluginError` for an edit with an adaptor or a patch, which are code.
        """
        if self.adaptors or self.patch:
            raise PluginError("an edit made of code (an adaptor or a patch) cannot be saved")
        tensors = {}
        for name, delta in self.weights.items():
            for part, tensor in vars(delta).items():
                # A copy of its own, since safetensors refuses tensors that share memory.
                tensors[f"{name}/{part}"] = tensor.detach().clone(
                    memory_format=torch.contiguous_format
                )
        info = json.dumps(dict(self.info), allow_nan=False)
        try:
            save_file(tensors, path, {"format": FORMAT, "prefix": self.prefix, "info": info})
        except (OSError, SafetensorError) as error:
            raise ResourceError(f"{path} cannot be written: {error}") from None

    @classmethod
    def load(cls, path: str | Path, model: str = "") -> Edit:
        """Read what `save` wrote. Raises `DataError`."""
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            raise DataError(f"{path} cannot be read as an edit: {error}") from None
        if metadata.get("format") != FORMAT:
            raise DataError(f"{path} holds no edit of this harness")
        parts: dict[str, dict[str, Tensor]] = {}
        for key, tensor in tensors.items():
            name, _, part = key.rpartition("/")
            parts.setdefault(name, {})[part] = tensor
        try:
            weights = {n: Dense(**p) if "tensor" in p else LowRank(**p) for n, p in parts.items()}
            return cls(weights, prefix=metadata["prefix"], info=json.loads(metadata["info"]))
        except (TypeError, KeyError, ValueError) as error:
            raise DataError(f"{path} is damaged: {error}") from None


UNEDITED = Edit()
