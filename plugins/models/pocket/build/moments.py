"""The second moments that ship with the pocket model, measured on its own kind of text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from edit_harness import ModelSource
from edit_harness.loading.load import load
from edit_harness_plugins.editors._search.covariance import collect, save

from .corpus import Corpus

FILE = "moments.safetensors"


def write_moments(folder: Path, corpus: Corpus, tokens: int = 100_000) -> None:
    """Measure all layers of the model in a folder in one pass, and write them next to it."""
    model = load(ModelSource(str(folder)), device="cpu")
    layers = range(model.architecture.layers)
    texts = _texts(corpus)
    name = "documents of the pocket model's build"
    save(collect(model, texts, layers, corpus=name, max_tokens=tokens), folder / FILE)


def _texts(corpus: Corpus) -> Iterator[str]:
    while True:
        yield corpus.document().text
