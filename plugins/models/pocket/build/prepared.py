"""Makes what editors need of the pocket model: second moments, and the network of MEND."""

from __future__ import annotations

import logging
import shutil
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from edit_harness import ModelSource
from edit_harness.interfaces import Making
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import configure, shape_of
from edit_harness.run.assembly import build_component
from edit_harness_plugins.editors._search.covariance import collect, save
from edit_harness_plugins.loading.load import load

from .corpus import Corpus

log = logging.getLogger("pocket.build")


def write_moments(folder: Path, corpus: Corpus, tokens: int = 100_000) -> None:
    """Measure all layers of the model in a folder in one pass, and write them next to it."""
    model = load(ModelSource(str(folder)), device="cpu")
    layers = range(model.architecture.layers)
    name = "documents of the pocket model's build"
    texts = (corpus.document().text for _ in count())
    found = collect(model, texts, layers, corpus=name, max_tokens=tokens)
    save(found, folder / "moments.safetensors")


def write_network(folder: Path) -> None:
    """Train MEND's network for the model in a folder on the lessons there.

    It is what ``edit-harness prepare --editor mend --model pocket`` makes, with the same preset.
    """
    model = load(ModelSource(str(folder), "pocket"), device="cpu")
    component = Plugins.installed().find("editor", "mend")
    shape = shape_of(model.module.config, "pocket")
    editor = configure(build_component(component, {}, seed=0), shape, "mend").editor
    with TemporaryDirectory() as made:
        making = Making(Path(made), data=str(folder / "lessons.json"), report=log.info)
        editor.make(model, making)
        (network,) = Path(made).glob("*.safetensors")
        shutil.copyfile(network, folder / "mend.safetensors")
