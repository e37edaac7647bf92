"""Networks in the file layout of MEND's authors, read without running anything that is in them.

The layout is ``{"model": {...}}``, where ``edit_lrs`` holds the rates and
``mend.(inputs, outputs).*`` the network of one shape; older files say ``gtn`` for ``mend``. The
archives also pickle configuration objects: inert stand-ins take their place. This was tried on
files made in tests and, for want of one, never on a genuine file.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

from edit_harness import DataError
from edit_harness.model.architecture import Projection

from .network import Network

CONFIGURATIONS = ("omegaconf.", "hydra.", "transformers.", "typing.", "collections.")
"""Modules whose classes stand-ins replace; nothing else of an archive is let in."""
ENTRY = re.compile(r"(?:mend|gtn)\.\((\d+), (\d+)\)\.(.+)")
NAMES = {"u_mean": "inputs.mean", "u_s": "inputs.squares",
         "v_mean": "gradients.mean", "v_s": "gradients.squares"}  # fmt: skip
"""Ours for theirs. Their ``u_std`` and ``v_std`` follow from these."""
MODES = {"mode_scale.weight": "scale", "mode_shift.weight": "shift"}


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
    except (OSError, RuntimeError, ValueError, pickle.UnpicklingError, KeyError, TypeError,
            AttributeError) as error:  # fmt: skip
        raise DataError(f"{path} is no network in the layout of MEND's authors: {error}") from None
    try:
        rank = next(len(t) for name, t in theirs.items() if name.endswith("mlp.layers.0.v"))
        network = Network([matrix.shape for matrix in matrices], rank, lr=0.0)
        ours = {ours: t for name, t in theirs.items() for ours in _names(name)}
        network.load_state_dict({**ours, "lrs": _rates(theirs, matrices)})
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
    inputs, outputs, rest = entry.groups()
    prefix = f"transforms.({inputs}, {outputs})"
    if rest == "k":
        return [f"{prefix}.{side}.count" for side in ("inputs", "gradients")]
    if rest in NAMES:
        return [f"{prefix}.{NAMES[rest]}"]
    if rest.startswith("mlp.layers."):
        _, _, layer, part = rest.split(".", 3)
        return [f"{prefix}.layers.{layer}.{MODES.get(part, part)}"]
    return []


def _rates(theirs: Mapping[str, Tensor], matrices: Sequence[Projection]) -> Tensor:
    """Return the rates in the order of the matrices.

    The authors list a block's matrices as the module tree does, but GPT-2's, which are stored as
    inputs by outputs, the other way round: c_proj before c_fc. Their own order it has to be: the
    rates were learned in it.
    """
    rates = theirs["edit_lrs"].flatten()
    if matrices[0].out_in:
        return rates
    return rates.view(-1, 2).flip(1).flatten()
