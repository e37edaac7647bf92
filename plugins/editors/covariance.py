"""The covariance of keys, C = E[k kᵀ], not centred: computed from texts, stored, and solved with.

A key is the input of an MLP's output projection (Meng et al., 2022, section 3.1). C⁻¹k is found with a Cholesky
factor in float64, never with an inverse. A file may hold several layers, and says what it was made of.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from edit_harness.errors import DataError
from edit_harness.files import replacing, sha256_of
from edit_harness.model.hooks import inputs_of
from edit_harness.model.model import Model
from edit_harness.model.reuse import NOWHERE
from edit_harness_plugins.inputs import file_at

ROWS = 16
"""Texts of a forward pass: the sums do not depend on it but for rounding."""


@dataclass(frozen=True)
class Provenance:
    """What a file of moments was made of."""

    model: str
    """Digest of the model's weights."""
    corpus: str
    """Name of the corpus, for people."""
    corpus_digest: str
    """SHA-256 over the texts, in order; empty for an imported statistic."""
    tokens: int
    max_length: int
    dtype: str = "float32"


@dataclass(frozen=True)
class Covariance:
    """The covariance of one layer's keys, inputs by inputs, and where it comes from."""

    matrix: Tensor
    provenance: Provenance
    digest: str

    def solver(self) -> Callable[[Tensor], Tensor]:
        """Factor C once, and return the function k -> C⁻¹k in float64, also of keys as columns.

        What it returns is where the keys are, though it computes where C is.
        Raises `DataError` if C is not positive definite, as with fewer tokens than its width.
        """
        factor, failed = torch.linalg.cholesky_ex(self.matrix.double())
        if int(failed):
            raise DataError(
                f"the second moment of {self.provenance.tokens} tokens is not positive definite",
                f"prepare it from more than {10 * len(self.matrix)} tokens of varied text",
            )
        return lambda key: (
            torch.cholesky_solve(key.double().reshape(len(factor), -1).to(factor.device), factor)
            .to(key.device)
            .reshape(key.shape)
        )


@torch.no_grad()
def collect(
    model: Model,
    texts: Iterable[str],
    layers: Sequence[int],
    *,
    corpus: str,
    max_tokens: int,
    max_length: int = 1024,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> dict[int, Covariance]:
    """Return E[k kᵀ] of each layer over the tokens of the texts, in one pass for all layers.

    Each text is encoded on its own with the tokenizer's defaults and cut to ``max_length``
    tokens; padding is left out. Stops after ``max_tokens`` tokens; ``advance`` is told how
    many are done, and of how many. Raises `DataError` if there are no texts.
    """
    limit = min(max_length, model.tokens.limit or max_length)
    modules = [model.architecture.projection(layer).module for layer in layers]
    sums = {layer: torch.zeros((), dtype=torch.float64) for layer in layers}
    digest, count = hashlib.sha256(), 0

    def encoded() -> Iterator[tuple[int, ...]]:
        for text in texts:
            digest.update(text.encode() + b"\0")
            ids = model.tokens.tokenizer(text, truncation=True, max_length=limit)["input_ids"]
            if ids:
                yield tuple(ids)

    coming = encoded()
    while count < max_tokens and (group := list(islice(coming, ROWS))):
        rows = []
        for ids in group:
            if kept := ids[: max_tokens - count]:
                rows.append(kept)
                count += len(kept)
        batch = model.batch(rows)
        with inputs_of(modules, len(rows), only=True) as seen:
            model.logits(batch, NOWHERE)
        for layer, (keys,) in zip(layers, seen, strict=True):
            flat = keys[batch.mask.bool().to(keys.device)].double()
            sums[layer] = sums[layer] + (flat.T @ flat).cpu()
        advance(count, max_tokens)
    if not count:
        raise DataError(f"the corpus {corpus} has no texts")
    made = Provenance(model.digest, corpus, digest.hexdigest(), count, limit)
    return {layer: Covariance((total / count).float(), made, "") for layer, total in sums.items()}


def save(moments: Mapping[int, Covariance], path: Path) -> None:
    """Write moments of one provenance as safetensors: of each its lower triangle, row by row.

    Raises `DataError` if they are of fewer tokens than a key has numbers, which is no full rank.
    """
    provenance = next(iter(moments.values())).provenance
    widest = max(len(moment.matrix) for moment in moments.values())
    if provenance.tokens < widest:
        raise DataError(
            f"the corpus {provenance.corpus} has {provenance.tokens} tokens, fewer than the "
            f"{widest} numbers of a key",
            f"give at least {10 * widest} tokens, or no direction can be solved for",
        )
    tensors = {f"layer.{layer}": m.matrix[_lower(len(m.matrix))] for layer, m in moments.items()}
    with replacing(path) as partial:
        save_file(tensors, partial, {"provenance": json.dumps(asdict(provenance))})


def _lower(width: int) -> Tensor:
    return torch.ones(width, width, dtype=torch.bool).tril()


def folder(model: Model) -> Path:
    """Return where the cache keeps the moments of a model."""
    return model.cache("moments")


def cache_name(moments: Mapping[int, Covariance]) -> str:
    """Return the file name under which the cache knows the moments."""
    made = next(iter(moments.values())).provenance
    layers = "-".join(map(str, sorted(moments)))
    name = "".join(c if c.isalnum() else "-" for c in Path(made.corpus).stem)[:40]
    return f"{name}-{made.corpus_digest[:12]}-{made.tokens}-{made.dtype}-l{layers}.safetensors"


def find(model: Model, layer: int, *files: str) -> Covariance | None:
    """Return the moment of a layer: from files, or what came with the model, or the cache.

    None if there is no such statistic. Raises `DataError` if one is made for other weights or
    another layer, or if the cache has several and ``files`` do not say which.
    """
    if files:
        file = next((file for file in files if layer in layers_of(Path(file))), files[0])
        return load(Path(file), model, layer)
    places = [Path(model.source.moments)] if model.source.moments else []
    for place in (*places, folder(model)):
        known = [f for f in sorted(place.glob("*.safetensors")) if layer in layers_of(f)]
        if len(known) > 1:
            raise DataError(
                f"there are {len(known)} second moments of layer {layer}",
                f"say which: --editor-args moments={' or '.join(map(str, known))}",
            )
        if known:
            return load(known[0], model, layer)
    return None


def covariance(
    model: Model,
    layers: Iterable[int],
    files: Sequence[str] = (),
    *,
    editor: str,
    without: str = "",
) -> Iterator[Covariance]:
    """Yield the covariance of each layer's keys, as `find` does: one at a time, as each may be a gigabyte.

    ``files`` say where to look. Raises `DataError` for a layer that has none, with advice to who asks,
    ``editor``; ``without`` says what else there is to do.
    """
    for layer in layers:
        if (found := find(model, layer, *files)) is None:
            name = model.source.name or "MODEL"
            raise DataError(
                f"there is no second moment of layer {layer} for this model",
                f"run: edit-harness prepare --editor {editor} --model {name} --corpus FILE{without}",
            )
        yield found


def layers_of(path: Path) -> set[int]:
    """Return the layers that a file has moments of; none if it is no such file."""
    try:
        with safe_open(path, framework="pt") as file:
            names = [name.partition(".") for name in file.keys()]  # noqa: SIM118
    except (OSError, SafetensorError):
        return set()
    return {int(n) for kind, _, n in names if kind == "layer" and n.isdecimal()}


def load(path: Path, model: Model, layer: int) -> Covariance:
    """Read one layer's moment. Raises `DataError` if it is not of this model and layer."""
    path = file_at(str(path), "name a file of second moments")
    if layer not in layers_of(path):
        raise DataError(f"{path} has no second moment of layer {layer}")
    with safe_open(path, framework="pt") as file:
        matrix = file.get_tensor(f"layer.{layer}")
        try:
            made = Provenance(**json.loads((file.metadata() or {}).get("provenance", "{}")))
        except (TypeError, ValueError):
            raise DataError(f"{path} does not say what it was made of") from None
    width = model.architecture.projection(layer).shape[0]
    if made.model != model.digest:
        raise DataError(
            f"{path} was made for other weights ({made.model[:12]}, not {model.digest[:12]})",
            "prepare the statistics of this model",
        )
    if matrix.shape == (width * (width + 1) // 2,):
        whole = torch.zeros(width, width)
        whole[_lower(width)] = matrix
        matrix = whole + whole.tril(-1).T
    # Files made before 0.2.0 have the whole matrix.
    elif matrix.shape != (width, width):
        raise DataError(f"{path} holds {tuple(matrix.shape)} numbers, layer {layer} has {width}")
    return Covariance(matrix, made, sha256_of(path))


def import_npz(path: Path, model: Model, layer: int) -> Covariance:
    """Read a statistic in the layout of ROME's authors (``mom2.mom2``, ``mom2.count``).

    Pickled arrays are refused. The array mom2 is the sum of k kᵀ. Raises `DataError`.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            total, count = file["mom2.mom2"], int(file["mom2.count"])
    except (OSError, KeyError, ValueError, TypeError, EOFError, BadZipFile) as error:
        # numpy's own message would have its reader load it unsafely.
        raise DataError(
            f"{path} is no second moment of ROME's layout ({type(error).__name__})",
            "it has to be an .npz file with the arrays mom2.mom2 and mom2.count",
        ) from None
    width = model.architecture.projection(layer).shape[0]
    if total.shape != (width, width) or count <= 0:
        raise DataError(f"{path} holds {total.shape} numbers of {count} tokens, not {width} wide")
    made = Provenance(model.digest, f"imported {path.name}", "", count, 0)
    return Covariance(torch.from_numpy(total / count).float(), made, sha256_of(path))
