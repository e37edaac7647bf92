"""An edit as data: what to change in a forward pass, not a changed model.

So one batch can hold rows of many edits, and of none; each row sees only its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from .errors import DataError, PluginError, ResourceError
from .registry.registry import Plugins


@dataclass(frozen=True, eq=False)
class LowRank:
    """The change ``left @ right`` of a parameter, in the parameter's own orientation."""

    left: Tensor
    right: Tensor

    @property
    def shape(self) -> torch.Size:
        """The parameter's shape."""
        return torch.Size([self.left.shape[0], self.right.shape[1]])

    def dense(self) -> Tensor:
        """Return the change as one matrix."""
        return self.left @ self.right

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
        """The parameter's shape."""
        return self.tensor.shape

    def dense(self) -> Tensor:
        """Return the tensor."""
        return self.tensor

    def through(self, inputs: Tensor, *, out_in: bool) -> Tensor:
        """Return what the change adds to the layer's output, in the higher of both precisions.

        ``out_in`` tells a weight of shape (out, in), as in `torch.nn.Linear`, from (in, out).
        """
        tensor = self.tensor.to(inputs.device)
        if tensor.dim() == 1:
            return tensor
        x = inputs.to(torch.promote_types(inputs.dtype, tensor.dtype))
        return x @ (tensor.T if out_in else tensor).to(x)

    def __add__(self, other: Delta) -> Delta:
        return Dense(self.tensor + other.dense())


Delta: TypeAlias = LowRank | Dense


@dataclass(frozen=True)
class Rows:
    """The rows of a forward pass that an adaptor sees: all are of its own edit.

    A pass has a whole text, or the one new token of each row where a generation goes on. Tensors are
    rows by positions.
    """

    offsets: Tensor
    """Place of each position, counted from the last token of the prompt."""
    mask: Tensor
    """Whether a position has a token, and no padding."""
    ids: Tensor
    """The tokens; those of padding mean nothing."""
    memo: dict[str, Any]
    """Kept from pass to pass of one generation, for what an adaptor decides at the prompt."""
    shared: dict[str, Any]
    """Kept as long, and the same for the edit's adaptors of all modules, unlike ``memo``."""


@runtime_checkable
class Adaptor(Protocol):
    """Replaces the output of a module, given its input.

    An edit with it can be saved if its class is a dataclass of tensors and JSON that a plugin
    registers. A method ``prepare(model)``, if it has one, is called once before its first pass on a
    model, also after it was read from a file, and finds what the fields do not hold.
    """

    def __call__(self, inputs: Tensor, outputs: Tensor, rows: Rows) -> Tensor:
        """Return the new output; tensors are rows by positions by width."""


@runtime_checkable
class Prompter(Protocol):
    """Says what goes before a prompt, as a memory does; saved, named and prepared as an `Adaptor`."""

    def __call__(self, prompt: str) -> str:
        """Return the text to put before this prompt, which depends on nothing else."""


@dataclass(frozen=True, eq=False)
class Edit:
    """A change of a model's behaviour; ``Edit()`` changes nothing."""

    weights: Mapping[str, Delta] = field(default_factory=dict)
    """Changes by parameter name."""
    adaptors: Mapping[str, Adaptor] = field(default_factory=dict)
    """Memories such as codebooks, by module name."""
    prefix: str | Prompter = ""
    """Text put before every prompt, or what gives it for each."""
    patch: Callable[[torch.nn.Module], AbstractContextManager[object]] | None = None
    """Last resort, one edit at a time: a context in which the model is edited."""
    info: Mapping[str, float | Sequence[float]] = field(default_factory=dict)
    """Diagnostics for the record, such as the final loss."""
    state: Mapping[str, Tensor] = field(default_factory=dict)
    """What `Editor.extend` needs to know of the requests so far; it changes no answer."""

    def __add__(self, other: Edit) -> Edit:
        """Return the edit that applies both. Raises `PluginError` if they exclude each other."""
        prefixes = [prefix for prefix in (self.prefix, other.prefix) if prefix]
        texts = [prefix for prefix in prefixes if isinstance(prefix, str)]
        both = (self.patch and other.patch) or self.adaptors.keys() & other.adaptors.keys()
        if both or len(prefixes) > max(len(texts), 1):
            raise PluginError("two edits share a patch, an adaptor or a prefix", "override extend")
        shared = self.weights.keys() & other.weights.keys()
        sums = {name: self.weights[name] + other.weights[name] for name in shared}
        return Edit(
            weights={**self.weights, **other.weights, **sums},
            adaptors={**self.adaptors, **other.adaptors},
            prefix="".join(texts) if len(texts) == len(prefixes) else prefixes[0],
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

    def check_finite(self) -> None:
        """Raise `PluginError` if a change or a diagnostic is infinite or no number."""
        changes = [t for delta in self.weights.values() for t in vars(delta).values()]
        notes = [torch.as_tensor(value) for value in self.info.values()]
        if not all(bool(tensor.isfinite().all()) for tensor in (*changes, *notes)):
            raise PluginError(
                "the edit has numbers that are not finite",
                "give the editor other fields, or load the model in float32",
            )

    def without_weights(self) -> Edit:
        """Return what is left to do while `Model.applied` holds the weights and the patch."""
        return replace(self, weights={}, patch=None)

    def save(self, path: str | Path, model: str = "") -> None:
        """Write all but a patch as safetensors.

        ``model`` is the digest of the weights that the edit was made for. Raises `PluginError` for
        a patch, which is code, for an adaptor that has no registered class, and for numbers that
        are not finite; `ResourceError` if the file cannot be written.
        """
        self.check_finite()
        if self.patch:
            raise PluginError(
                "an edit made of code (a patch) cannot be saved",
                "make it of weights, adaptors and a prefix",
            )
        tensors = {f"state/{name}": tensor for name, tensor in self.state.items()}
        for name, delta in self.weights.items():
            tensors |= {f"weights/{name}/{part}": t for part, t in vars(delta).items()}
        adaptors: dict[str, Any] = {}
        prompters = {} if isinstance(self.prefix, str) else {"": self.prefix}
        for module, adaptor in {**self.adaptors, **prompters}.items():
            adaptors[module], own = _stored(adaptor)
            tensors |= {f"adaptors/{module}/{part}": t for part, t in own.items()}
        header = {
            "prefix": self.prefix if isinstance(self.prefix, str) else "",
            "model": model,
            "info": json.dumps(dict(self.info)),
            "adaptors": json.dumps(adaptors),
            "accelerated": json.dumps([n for n, t in tensors.items() if t.device.type != "cpu"]),
            "format": FORMAT,
        }
        # Copies, since safetensors refuses tensors that share memory.
        for name, tensor in tensors.items():
            tensors[name] = tensor.detach().clone(memory_format=torch.contiguous_format)
        try:
            save_file(tensors, path, header)
        except (OSError, SafetensorError) as error:
            raise ResourceError(f"{path} cannot be written: {error}") from None

    @classmethod
    def load(cls, path: str | Path, model: str = "", device: str = "cpu") -> Edit:
        """Read what `save` wrote; ``model`` is the digest of the weights that are to be edited.

        What was not on the CPU when it was saved comes to ``device``.

        Raises `DataError` for a file that is no edit, is damaged or was made for other weights, and
        `PluginError` for an adaptor that is not installed.
        """
        state: dict[str, Tensor] = {}
        parts: dict[tuple[str, str], dict[str, Tensor]] = {}
        try:
            with safe_open(path, framework="pt") as file:
                header = file.metadata() or {}
                accelerated = set(json.loads(header.get("accelerated", "[]")))
                for key in file.keys():  # noqa: SIM118
                    kind, _, rest = key.partition("/")
                    name, _, part = rest.rpartition("/")
                    own = state if kind == "state" else parts.setdefault((kind, name), {})
                    tensor = file.get_tensor(key).to(device if key in accelerated else "cpu")
                    own[rest if kind == "state" else part] = tensor
        except (OSError, SafetensorError, ValueError, TypeError) as error:
            raise DataError(f"{path} cannot be read as an edit: {error}") from None
        if header.get("format") != FORMAT:
            raise DataError(f"{path} holds no edit of this harness")
        if model and header.get("model") and model != header["model"]:
            raise DataError(
                f"{path} was made for other weights than those of this model",
                "load the model that it was made for: --model NAME",
            )
        try:
            weights: dict[str, Delta] = {
                name: Dense(**own) if "tensor" in own else LowRank(**own)
                for (kind, name), own in parts.items()
                if kind == "weights"
            }
            adaptors = {
                module: _restored(name, plain, parts.get(("adaptors", module), {}))
                for module, (name, plain) in json.loads(header["adaptors"]).items()
            }
            info, prefix = json.loads(header["info"]), adaptors.pop("", header["prefix"])
            return cls(weights, adaptors, prefix, info=info, state=state)
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise DataError(f"{path} is damaged: {error}") from None


FORMAT = "edit-harness edit 2"


def _stored(adaptor: Any) -> tuple[tuple[str, Mapping[str, Any]], Mapping[str, Tensor]]:
    """Return the name of an adaptor's class with its fields that are JSON, and its tensors.

    Raises `PluginError` if its class is not registered, or a field is neither tensor nor JSON.
    """
    kind, name = type(adaptor), ""
    for component in Plugins.installed().of_kind("adaptor"):
        with suppress(PluginError):  # another package's class that cannot be imported
            if component.load() is kind:
                name = name or component.qualified
    if not name:
        raise PluginError(
            f"an adaptor of the class {kind.__qualname__} cannot be saved, since it has no name",
            "register the class in the hook edit_harness_register_adaptors",
        )
    try:
        values = {field.name: getattr(adaptor, field.name) for field in fields(kind) if field.init}
        plain = {key: value for key, value in values.items() if not isinstance(value, Tensor)}
        json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise PluginError(
            f"an adaptor {name} cannot be saved: {error}",
            f"make {kind.__name__} a dataclass whose fields are tensors or JSON",
        ) from None
    return (name, plain), {key: values[key] for key in values.keys() - plain.keys()}


def _restored(name: str, fields: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Any:
    """Return the adaptor that was stored. Raises `PluginError` if its class is not installed."""
    for component in Plugins.installed().of_kind("adaptor"):
        if component.qualified == name:
            return component.load()(**fields, **tensors)
    package, _, short = name.partition("/")
    raise PluginError(
        f"the edit has an adaptor {short!r} of the package {package}, which is not there",
        f"install {package}, or another version of it; name a file by --plugin",
    )


UNEDITED = Edit()
