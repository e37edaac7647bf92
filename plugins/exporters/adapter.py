"""An edit as the folder of a PEFT LoRA, which other tools put beside the unedited model.

LoRA adds α/r B A x to a linear map (Hu et al., 2021): with α = r, a change of rank r, exactly. All maps have the
rank of the largest, by rows of zeros, since servers may read no rank of a single map (vLLM's PEFTHelper has one
r). Factors are in float32, whatever the model computes in; a tool may round them to its own precision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import pad

from edit_harness.api import check_free
from edit_harness.edits import Delta, Edit, LowRank
from edit_harness.errors import PluginError, ResourceError
from edit_harness.files import dumps, put
from edit_harness.model.architecture import Projection
from edit_harness.model.hooks import owner
from edit_harness.model.model import Model

WHOLE = "keep the edited model: --save-model DIR"
ITSELF = "keep the edit itself, and no adapter: --save FILE"


def save(
    model: Model, edit: Edit, folder: str | Path, rank: int | None = None
) -> tuple[Edit, dict[str, Any]]:
    """Write an edit as peft's ``save_pretrained`` would; return the edit that the folder has, and what to tell.

    That is its ``rank``, and as ``errors`` those of `nearest`. Raises `UsageError` for a folder that has something
    in it, `PluginError` for an edit that is no LoRA, and `ResourceError` if it cannot be written.
    """
    path = Path(folder)
    check_free(path)
    check(model, edit)
    near, errors = nearest(edit, rank)
    maps = {owner(name): _factors(model, name, delta) for name, delta in near.weights.items()}
    most = max(len(down) for down, _ in maps.values())
    tensors = {}
    for name, (down, up) in maps.items():
        key, rest = f"base_model.model.{name}", most - len(down)
        tensors[f"{key}.lora_A.weight"] = pad(down, (0, 0, 0, rest)).contiguous()
        tensors[f"{key}.lora_B.weight"] = pad(up, (0, rest)).contiguous()
    try:
        path.mkdir(parents=True, exist_ok=True)
        save_file(tensors, path / "adapter_model.safetensors", {"format": "pt"})
        put(path / "adapter_config.json", dumps(_config(model, sorted(maps), most)).encode())
    except (OSError, SafetensorError) as error:
        raise ResourceError(f"{path} cannot be written: {error}") from None
    return near, {"rank": most, "errors": errors}


def told(rank: int, errors: Mapping[str, float], after: Sequence[float]) -> str:
    """Return in words what was written, and what cutting the rank has cost."""
    if not errors:
        return f"rank {rank}"
    worst = max(errors, key=lambda name: errors[name])
    found = f"; the new object's probability with it: {fmean(after):.1%}" if after else ""
    error = f"relative error (Frobenius norm) up to {errors[worst]:.2g}, in {worst}"
    return f"rank {rank}; {error}{found}"


def check(model: Model, edit: Edit) -> None:
    """Raise `PluginError` that names what no LoRA has a place for, if an edit has such a part."""
    model.check(edit)
    edit.check_finite()
    strange = {f"an adaptor, of {name}": ITSELF for name in edit.adaptors}
    strange |= {"a text before the prompt": ITSELF} if edit.prefix else {}
    strange |= {"a patch": "code is kept nowhere: make the edit of weights"} if edit.patch else {}
    for name in edit.weights:
        if name.endswith(".bias"):
            strange[f"a change of {name}"] = f"{WHOLE}, or edit without: --editor-args bias=false"
        elif name not in model.architecture.hookable:
            strange[f"a change of {name}, no linear map's alone"] = WHOLE
    for part, remedy in strange.items():
        raise PluginError(f"LoRA has no place for a part of this edit: {part}", remedy)
    if not any(map(_changes, edit.weights.values())):
        raise PluginError("there is no LoRA to write: this edit changes no weight", ITSELF)


def nearest(edit: Edit, rank: int | None = None) -> tuple[Edit, dict[str, float]]:
    """Return an edit of weights whose changes all have low rank, and how far off those are that were cut.

    Changes of more than ``rank`` become the nearest of that rank, by SVD (Eckart and Young, 1936), |Δ - Δ'| / |Δ| off
    in Frobenius norm, from 0 to 1. Raises `PluginError` for a dense change if no rank is given.
    """
    weights: dict[str, Delta] = {}
    errors: dict[str, float] = {}
    for name, delta in edit.weights.items():
        if not _changes(delta):
            continue
        if isinstance(delta, LowRank) and not (rank and rank < delta.left.shape[1]):
            weights[name] = delta
        elif rank:
            weights[name], errors[name] = _cut(delta.dense(), rank)
        else:
            raise PluginError(
                f"the change of {name} is dense, and LoRA is of low rank",
                f"--rank N writes the nearest of rank N, and tells how far off it is; {WHOLE}",
            )
    return replace(edit, weights=weights), errors


def _changes(delta: Delta) -> bool:
    return all(bool(tensor.any()) for tensor in vars(delta).values())


def _cut(matrix: Tensor, rank: int) -> tuple[LowRank, float]:
    """Return the nearest matrix of a rank, with factors of one size, and how far off it is."""
    left, values, right = torch.linalg.svd(matrix.float(), full_matrices=False)
    roots = values[:rank].sqrt()
    off = float(values[rank:].norm() / values.norm())
    return LowRank(left[:, :rank] * roots, roots[:, None] * right[:rank]), off


def _factors(model: Model, name: str, delta: Delta) -> tuple[Tensor, Tensor]:
    """Return LoRA's A, rank by inputs, and B, outputs by rank."""
    left, right = (tensor.detach().float().cpu() for tensor in vars(delta).values())
    return (right, left) if _out_in(model, owner(name)) else (left.T, right.T)


def _out_in(model: Model, name: str) -> bool:
    return Projection(name, model.module.get_submodule(name)).out_in


def _config(model: Model, maps: Sequence[str], rank: int) -> dict[str, Any]:
    base = model.source.path or getattr(model.module, "name_or_path", "") or None
    base = str(Path(base).resolve()) if base and Path(base).is_dir() else base
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "revision": model.revision or None,
        "target_modules": maps,
        "r": rank,
        "lora_alpha": rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": not all(_out_in(model, name) for name in maps),
        "inference_mode": True,
    }
