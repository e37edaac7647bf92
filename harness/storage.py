"""The file of an edit: tensors, a header of texts, and adaptors under their registered names.

An adaptor is stored as the name that a plugin registered its class under, its tensors, and its
other fields as JSON. A file names no code to import: it is read with the classes that are
installed. What an edit consists of is the matter of `edit_harness.edits`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from .errors import DataError, PluginError, ResourceError
from .registry.registry import Plugins

FORMAT = "edit-harness edit 2"


Stored: TypeAlias = tuple[str, Mapping[str, Any], Mapping[str, Tensor]]
"""An adaptor as data: ``distribution/name`` of its class, the fields that are JSON, and its tensors."""


def write(path: str | Path, tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> None:
    """Write tensors and a header as safetensors. Raises `ResourceError`."""
    # A copy of its own, since safetensors refuses tensors that share memory.
    own = {
        name: tensor.detach().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    try:
        save_file(own, path, {**header, "format": FORMAT})
    except (OSError, SafetensorError) as error:
        raise ResourceError(f"{path} cannot be written: {error}") from None


def read(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors and the header of what `write` wrote. Raises `DataError`."""
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path} cannot be read as an edit: {error}") from None
    if header.get("format") != FORMAT:
        raise DataError(f"{path} holds no edit of this harness")
    return tensors, header


def stored(adaptor: Any) -> Stored:
    """Return an adaptor as data.

    Raises `PluginError` if its class is not registered, or a field is neither tensor nor JSON.
    """
    kind = type(adaptor)
    name = _registered_name(kind)
    if not is_dataclass(kind):
        raise PluginError(f"an adaptor {name} cannot be saved", f"make {kind.__name__} a dataclass")
    values = {field.name: getattr(adaptor, field.name) for field in fields(kind) if field.init}
    tensors = {key: value for key, value in values.items() if isinstance(value, Tensor)}
    plain = {key: value for key, value in values.items() if key not in tensors}
    try:
        json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise PluginError(
            f"an adaptor {name} cannot be saved: {error}",
            f"the fields of {kind.__name__} have to be tensors or JSON",
        ) from None
    return name, plain, tensors


def restored(name: str, fields: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Any:
    """Return the adaptor that was stored. Raises `PluginError` if its class is not installed.

    What its class raises for fields that are not right, `TypeError` or `ValueError`, is raised on.
    """
    plugins = Plugins.installed()
    for component in plugins.of_kind("adaptor"):
        if component.qualified == name:
            return component.load()(**fields, **tensors)
    package, _, short = name.partition("/")
    remedy = f"install {package}, or another version of it"
    if package.endswith(".py"):
        remedy = f"name that file: --plugin {package}"
    raise PluginError(
        f"the edit has an adaptor {short!r} of the package {package}, which is not there",
        "; ".join([remedy, *map(str, plugins.failures)]),
    )


def _registered_name(kind: type) -> str:
    """Return the name that a class of adaptors is registered under."""
    for component in Plugins.installed().of_kind("adaptor"):
        with suppress(PluginError):  # another package's class that cannot be imported
            if component.load() is kind:
                return component.qualified
    raise PluginError(
        f"an adaptor of the class {kind.__qualname__} cannot be saved, since it has no name",
        "register the class in the hook edit_harness_register_adaptors",
    )
