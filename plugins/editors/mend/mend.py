"""MEND: a trained network turns the gradient of an edit into a change (Mitchell et al., 2022).

One forward and backward pass of the edit's text gives the gradient of each MLP matrix of the last
blocks, as factors; the network maps them to factors of low rank, which are added. What all edits
share is the network, made by ``prepare`` for one model: see `mend_network`, `mend_training` and,
for the files of the authors, `mend_checkpoint`. `mend_factors` runs the passes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import torch

from edit_harness import FROM_PRESET, DataError, Editor, ModelShape, Preset, Request
from edit_harness.edits import Edit
from edit_harness.files import sha256_of
from edit_harness.interfaces import Making, Origin
from edit_harness.model.architecture import Projection
from edit_harness.model.model import Model
from edit_harness.registry.settings import Count, NotNegative, Positive

from ..in_context import lessons
from ..sources import EASYEDIT, MEND, OURS
from . import mend_network
from .mend_checkpoint import read_checkpoint
from .mend_factors import changes, gradient_factors
from .mend_network import Loaded, Made, Network
from .mend_training import Settings, Training

NETWORK = "mend"
"""Key of a model's own network among the files that its source brings along."""


def _preset(
    source: str,
    origin: Origin = "ported",
    *,
    blocks: int = 3,
    rank: int = 1920,
    lr: float = 1e-6,
    lr_lr: float = 1e-4,
    c_edit: float = 0.1,
    iterations: int = 1_000_000,
    every: int = 5000,
) -> Preset:
    return Preset(
        {
            "blocks": blocks,
            "rank": rank,
            "lr": lr,
            "lr_lr": lr_lr,
            "c_edit": c_edit,
            "iterations": iterations,
            "every": every,
        },
        source,
        origin,
    )


def _easyedit(iterations: int = 100_000) -> Preset:
    """Return the values for models of 7 to 8 billion parameters."""
    return _preset(EASYEDIT, iterations=iterations, every=1000)


@dataclass(frozen=True)
class Shared:
    """What all edits of one model share."""

    model: Model
    matrices: Sequence[Projection]
    loaded: Loaded


@dataclass
class Mend(Editor):
    """Changes the MLP matrices of the last blocks as a trained network says.

    The fields from ``lr`` on are of the training, which only ``prepare`` does.
    """

    blocks: Count = FROM_PRESET
    """How many of the last blocks are edited."""
    network: str = ""
    """File of the network; by default that of the model or of the cache."""
    rank: Count = FROM_PRESET
    """Rank of the network's layers, at most the width of a matrix's inputs and outputs together."""
    lr: NotNegative = FROM_PRESET
    """Adam's rate for the network."""
    lr_lr: NotNegative = FROM_PRESET
    """Adam's rate for the rate of each matrix, which is learned too."""
    start: float = 1e-4
    """What the rates of the matrices begin with."""
    c_edit: NotNegative = FROM_PRESET
    """Weight of the target's likelihood after a rephrasing."""
    c_loc: NotNegative = 1.0
    """Weight of the drift on another text."""
    accumulate: Count = 10
    """Lessons of one step."""
    clip: Positive = 100.0
    """Largest norm of a step's gradient."""
    iterations: Count = FROM_PRESET
    """Lessons in all, counted as often as they are used."""
    every: Count = FROM_PRESET
    """Lessons from one validation to the next."""
    validate_on: Count = 500
    """Lessons of a validation, at most a tenth of all."""
    patience: Count = 20_000
    """Lessons without a better validation after which the training ends."""
    seed: int = 0

    presets: ClassVar = {
        "pocket": _preset(
            OURS, "tuned", rank=128, lr=1e-4, lr_lr=1e-3, c_edit=0.3, iterations=16_000, every=2000
        ),
        "gpt2-xl": _preset(MEND, "paper"),
        "gpt-j-6b": _preset(MEND, "paper"),
        "llama-2-7b": _easyedit(),
        "llama-3-8b": _easyedit(),
        "mistral-7b": _easyedit(),
        "qwen2-7b": _easyedit(20_000),
        "qwen2.5-7b": _easyedit(20_000),
    }
    needs: ClassVar[str] = "a network trained for the model, which prepare makes of example edits"
    citation: ClassVar[str] = "Mitchell et al. (2022), Fast Model Editing at Scale"

    def __post_init__(self) -> None:
        self._shared: Shared | None = None

    @property
    def provenance(self) -> dict[str, str]:
        """Digest of the network's file."""
        return {"network": self._shared.loaded.digest} if self._shared else {}

    @property
    def found(self) -> dict[str, Any]:
        """What the network says of its training."""
        return {"network": asdict(self._shared.loaded.made)} if self._shared else {}

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
        if making.imported:
            self._import(model, making)
        elif own and not making.data:
            making.report(f"network  {own} comes with the model")
        else:
            self._train(model, making)
        return True

    def prepare(self, model: Model) -> None:
        """Load the network.

        Raises `DataError` if there is none, or it is of other weights.
        """
        matrices = self._matrices(model)
        shapes = {matrix.name: matrix.shape for matrix in matrices}
        loaded = mend_network.load(self._file(model), shapes, model.digest)
        loaded.network.to(model.device, _precision(model)).requires_grad_(False)
        self._shared = Shared(model, matrices, loaded)

    def edit(self, model: Model, requests: Sequence[Request]) -> Edit:
        """Return the change for all requests, from the gradient of their mean token's loss."""
        (edit,) = self.edit_each(model, [requests])
        return edit

    def edit_each(self, model: Model, batches: Sequence[Sequence[Request]]) -> list[Edit]:
        """Return the edit that each batch has alone; what they share is the passes."""
        if not batches:
            return []
        shared = self._ready(model)
        split = model.tokens.split
        texts = [[split(r.text, r.target_new) for r in batch] for batch in batches]
        factors, losses = gradient_factors(model, shared.matrices, texts)
        made = changes(shared.loaded.network, shared.matrices, factors)
        return [
            Edit(weights, info={"loss": loss}) for weights, loss in zip(made, losses, strict=True)
        ]

    def _ready(self, model: Model) -> Shared:
        """Return what all edits of the model share."""
        if self._shared is None or self._shared.model is not model:
            self.prepare(model)
        assert self._shared is not None
        return self._shared

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
        files = sorted(_folder(model).glob("mend-*.safetensors"))
        if not files:
            name = model.source.path or "MODEL"
            raise DataError(
                "there is no network of mend for this model",
                f"run: edit-harness prepare --editor mend --model {name} --data zsre",
            )
        if len(files) > 1:
            raise DataError(
                f"there are {len(files)} networks of mend for this model",
                f"say which: --editor-args network={' or '.join(map(str, files))}",
            )
        return files[0]

    def _train(self, model: Model, making: Making) -> None:
        """Train a network on the lessons, going on where an earlier command was interrupted."""
        source = lessons.find(making.data, model.source)
        settings = Settings(**{field.name: getattr(self, field.name) for field in fields(Settings)})
        made = self._made(model, source.name, sha256_of(source))
        path = making.folder / f"mend-{_key(made, self.start, settings)}.safetensors"
        if path.exists():
            making.report(f"network  {path} is there")
            _advise(model, path, making)
            return
        training = Training(
            model, self._matrices(model), self._new(model), lessons.read(source), settings
        )
        checkpoint = path.with_suffix(".checkpoint")
        best = training.run(checkpoint, report=making.report, advance=making.advance)
        facts = {**asdict(settings), "start": self.start, "best": best.facts}
        mend_network.save(best.tensors, replace(made, training=facts), path)
        checkpoint.unlink()
        _advise(model, path, making)
        making.report(f"saved    {path}  (best after {best.iteration:,} lessons: {best.figures})")

    def _new(self, model: Model) -> Network:
        """Return a network as training begins."""
        shapes = [matrix.shape for matrix in self._matrices(model)]
        network = Network(shapes, self.rank, lr=self.start, seed=self.seed)
        return network.to(model.device, _precision(model))

    def _import(self, model: Model, making: Making) -> None:
        """Take over a network in the layout of the authors."""
        source = Path(making.imported)
        network, rank = read_checkpoint(source, self._matrices(model))
        digest = sha256_of(source)
        made = replace(self._made(model, f"imported {source.name}", digest), rank=rank)
        path = making.folder / f"mend-imported-{digest[:12]}.safetensors"
        mend_network.save(network.state_dict(), made, path)
        making.report(f"saved    {path}")
        _advise(model, path, making)

    def _made(self, model: Model, data: str, digest: str) -> Made:
        names = tuple(matrix.name for matrix in self._matrices(model))
        return Made(model.digest, names, self.rank, data, digest)


def _advise(model: Model, path: Path, making: Making) -> None:
    """Say how to use a network although the model brings one along."""
    if NETWORK in model.source.data:
        making.report(f"use it   --editor-args network={path}")


def _precision(model: Model) -> torch.dtype:
    """Return what the network computes in: fp32, whatever the model's weights are, or more."""
    return torch.promote_types(model.dtype, torch.float32)


def _folder(model: Model) -> Path:
    """Return where the cache keeps the networks of a model."""
    return model.cache("editors")


def _key(made: Made, start: float, settings: Settings) -> str:
    """Return what tells trainings of one model apart: data, matrices and settings."""
    facts: Mapping[str, Any] = {**asdict(made), "data": "", "start": start, **asdict(settings)}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]
