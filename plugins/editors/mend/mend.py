"""MEND: a trained network turns the gradient of an edit into a change (Mitchell et al., 2022).

The network maps the factors of each MLP matrix's gradient, of the last blocks, to factors of low rank, which
are added. ``prepare`` trains it for one model, or takes it over from the authors.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import torch

from edit_harness import FROM_PRESET, DataError, ModelShape, Preset, Request
from edit_harness.edits import Edit
from edit_harness.files import sha256_of
from edit_harness.interfaces import Making, Origin
from edit_harness.model.architecture import Projection
from edit_harness.model.model import Model
from edit_harness.registry.settings import Count

from .._search import bases
from .._search.bases import Batched, Prepared
from .._search.factors import factors
from .._search.texts import teacher_forced
from ..in_context import lessons
from ..sources import EASYEDIT, MEND, OURS
from .network import Made, Network, load, read_checkpoint, save
from .training import Settings, Training, told

NETWORK = "mend"
"""Key of a model's own network among the files that its source brings along."""


def _preset(source: str, origin: Origin = "ported", **values: Any) -> Preset:
    """Return a preset; what is not given is as the authors have it."""
    published = {"blocks": 3, "rank": 1920, "lr": 1e-6, "lr_lr": 1e-4, "c_edit": 0.1}
    return Preset({**published, "iterations": 1_000_000, "every": 5000, **values}, source, origin)


def _easyedit(iterations: int) -> Preset:
    return _preset(EASYEDIT, iterations=iterations, every=1000)


@dataclass(frozen=True)
class Shared(bases.Shared):
    """What all edits of one model share."""

    matrices: Sequence[Projection]
    network: Network


@dataclass
class Mend(Settings, Batched, Prepared[Shared]):
    """Changes the MLP matrices of the last blocks as a trained network says.

    The fields of the training, `Settings` and ``start``, are for ``prepare`` alone.
    """

    blocks: Count = FROM_PRESET
    """How many of the last blocks are edited."""
    network: str = ""
    """File of the network; by default that of the model or of the cache."""
    rank: Count = FROM_PRESET
    """Rank of the network's layers, at most the width of a matrix's inputs and outputs together."""
    start: float = 1e-4
    """What the rates of the matrices begin with."""

    presets: ClassVar = {
        "pocket": _preset(
            OURS, "tuned", rank=128, lr=1e-4, lr_lr=1e-3, c_edit=0.3, iterations=16_000, every=2000
        ),
        "gpt2-xl": _preset(MEND, "paper"),
        "gpt-j-6b": _preset(MEND, "paper"),
        **dict.fromkeys(("llama-2-7b", "llama-3-8b", "mistral-7b"), _easyedit(100_000)),
        **dict.fromkeys(("qwen2-7b", "qwen2.5-7b"), _easyedit(20_000)),
    }
    needs: ClassVar[str] = "a network trained for the model, which prepare makes of example edits"
    citation: ClassVar[str] = "Mitchell et al. (2022), Fast Model Editing at Scale"

    def guess(self, shape: ModelShape) -> Preset:
        """Return the last three blocks and the values for GPT-2 XL."""
        return _preset("the values of GPT-2 XL", "guessed", blocks=min(3, shape.layers))

    def check(self, model: Model) -> None:
        """Raise `PluginError` if a block has no single MLP."""
        self._matrices(model)

    def make(self, model: Model, making: Making) -> bool:
        """Train the network, or take over one of the authors, and put it into the cache.

        A model that brings its own gets another one only if the data are named.
        """
        own = model.source.data.get(NETWORK)
        if own and not (making.data or making.imported):
            making.report(f"network  {own} comes with the model")
            return True
        path = (self._import if making.imported else self._train)(model, making)
        if own:
            making.report(f"use it   --editor-args network={path}")
        return True

    def find(self, model: Model) -> Shared:
        """Load the network.

        Raises `DataError` if there is none, or it is of other weights.
        """
        matrices, path = self._matrices(model), self._file(model)
        network, made = load(path, matrices, model.digest)
        network.to(model.device, torch.promote_types(model.dtype, torch.float32)).requires_grad_(
            False
        )
        digests, found = {"network": sha256_of(path)}, {"network": asdict(made)}
        return Shared(digests, found, matrices, network)

    def edit_each(self, model: Model, batches: Sequence[Sequence[Request]]) -> list[Edit]:
        """Return the change for each batch, from the gradient of its mean token's loss."""
        if not batches:
            return []
        shared = self.ready(model)
        texts = [[teacher_forced(model, request) for request in batch] for batch in batches]
        found, losses = factors(model, shared.matrices, texts)
        made = shared.network.changes(shared.matrices, found)
        return [
            Edit(weights, info={"loss": loss}) for weights, loss in zip(made, losses, strict=True)
        ]

    def _matrices(self, model: Model) -> list[Projection]:
        """Return what is edited, from the lowest block on."""
        layers = model.architecture.layers
        chosen = range(layers - self.blocks, layers)
        return [matrix for layer in chosen for matrix in model.architecture.mlp(layer)]

    def _file(self, model: Model) -> Path:
        """Return the network's file: the given one, the model's own, or that of the cache."""
        given = self.network or model.source.data.get(NETWORK, "")
        if given:
            return Path(given).expanduser()
        files = sorted(model.cache("editors").glob("mend-*.safetensors"))
        if not files:
            name = model.source.name or "MODEL"
            data = "" if lessons.LESSONS in model.source.data else " --data zsre"
            raise DataError(
                "there is no network of mend for this model",
                f"run: edit-harness prepare --editor mend --model {name}{data}",
            )
        if len(files) > 1:
            raise DataError(
                f"there are {len(files)} networks of mend for this model",
                f"say which: --editor-args network={' or '.join(map(str, files))}",
            )
        return files[0]

    def _train(self, model: Model, making: Making) -> Path:
        """Train a network on the lessons, going on where an earlier command was interrupted."""
        source = lessons.find(making.data, model.source)
        settings = {field.name: getattr(self, field.name) for field in fields(Settings)}
        made = self._made(model, source.name, sha256_of(source))
        # What tells trainings of one model apart; the lessons count by their bytes alone.
        facts = {**asdict(made), "data": "", "start": self.start, **settings}
        key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]
        path = making.folder / f"mend-{key}.safetensors"
        if path.exists():
            making.report(f"network  {path} is there")
            return path
        matrices = self._matrices(model)
        shapes = [matrix.shape for matrix in matrices]
        network = Network(shapes, self.rank, lr=self.start, seed=self.seed)
        network.to(model.device, torch.promote_types(model.dtype, torch.float32))
        training = Training(model, matrices, network, lessons.read(source), self)
        checkpoint = path.with_suffix(".checkpoint")
        best = training.run(checkpoint, report=making.report, advance=making.advance)
        last = {"lessons": best.iteration, **best.figures}
        told_of = replace(made, training={**settings, "start": self.start, "best": last})
        save(best.tensors, told_of, path)
        checkpoint.unlink()
        when = f"best after {best.iteration:,} lessons: {told(best.figures)}"
        making.report(f"saved    {path}  ({when})")
        return path

    def _import(self, model: Model, making: Making) -> Path:
        source = Path(making.imported)
        network, rank = read_checkpoint(source, self._matrices(model))
        digest = sha256_of(source)
        made = replace(self._made(model, f"imported {source.name}", digest), rank=rank)
        path = making.folder / f"mend-imported-{digest[:12]}.safetensors"
        save(network.state_dict(), made, path)
        making.report(f"saved    {path}")
        return path

    def _made(self, model: Model, data: str, digest: str) -> Made:
        names = tuple(matrix.name for matrix in self._matrices(model))
        return Made(model.digest, names, self.rank, data, digest)
