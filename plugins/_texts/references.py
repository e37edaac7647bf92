"""Reference texts that generated ones are compared with: counted once, and kept in the cache.

A task makes a library and gives its cases the library's name, a digest of what it was made of; a
metric opens it by that name. So a case carries 64 characters and not the hundred kilobytes of its
texts, numbers are recomputed from a run folder without a model, and neither plugin knows the other.
The words' order is lost: a library serves for likeness by words, and not for reading.
"""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from scipy.sparse import csr_array

from edit_harness.errors import DataError, ResourceError
from edit_harness.files import cache_folder, replacing, set_aside

from .tfidf import Weights, cosine

FORMAT = "references 1"


@dataclass(frozen=True, eq=False)
class Library:
    """The words of the texts of each topic, and what each word weighs."""

    weights: Weights
    topics: Mapping[str, int]
    """The row of each topic."""
    counts: csr_array
    """How often each topic's texts have each word, topics by words."""

    @classmethod
    def of(cls, texts: Mapping[str, Sequence[str]], weights: Weights | None = None) -> Library:
        """Count the texts of each topic; without weights those are fitted, text by text."""
        weights = weights or Weights.fitted([text for own in texts.values() for text in own])
        counts = weights.counts(" ".join(own) for own in texts.values())
        return cls(weights, {topic: i for i, topic in enumerate(texts)}, counts)

    @cached_property
    def vectors(self) -> csr_array:
        """One vector of unit length for each topic."""
        return self.weights.vectors(self.counts)

    def likeness(self, topic: str, text: str) -> float:
        """Return the cosine of a text's words with those of a topic's texts, in [0, 1]."""
        vector = self.weights.vectors(self.weights.counts([text]))
        return cosine(self.vectors[[self.topics[topic]]], vector)


def name_of(*parts: str) -> str:
    """Return the name of the library that is made of what has these digests, in this order."""
    return hashlib.sha256("\n".join((FORMAT, *parts)).encode()).hexdigest()


def keep(name: str, make: Callable[[], Library]) -> None:
    """Make a library and put it into the cache, if it is not there.

    Raises `ResourceError` if the cache cannot be written.
    """
    path = _path(name)
    if path.exists():
        return
    try:
        with replacing(path) as partial:
            partial.write_bytes(_encoded(make()))
    except OSError as error:
        raise ResourceError(
            f"{path} cannot be written: {error.strerror or error}",
            "free some space, or set EDIT_HARNESS_CACHE to another folder",
        ) from error


@lru_cache(maxsize=2)
def find(name: str) -> Library:
    """Return a library of the cache. Raises `DataError` if it is not there or damaged."""
    path = _path(name)
    try:
        with np.load(io.BytesIO(path.read_bytes())) as stored:
            return _decoded(stored)
    except FileNotFoundError:
        raise DataError(
            f"the reference texts {path} are not there",
            "read the task's cases again, which puts them there: edit-harness prepare --task NAME",
        ) from None
    except (OSError, EOFError, ValueError, KeyError, BadZipFile, zlib.error):
        aside = set_aside(path)
        raise DataError(
            f"the reference texts {path} are damaged",
            f"they were moved to {aside}: run again, and they are made anew",
        ) from None


def digest(name: str) -> str:
    """Return a SHA-256 of what a library of the cache says, as far as machines agree on it."""
    library = find(name)
    idf = [f"{weight:.6g}" for weight in library.weights.idf]
    texts = json.dumps([list(library.weights.columns), list(library.topics), idf])
    found = hashlib.sha256(texts.encode())
    for part in (library.counts.data, library.counts.indices, library.counts.indptr):
        found.update(part.astype("<i8").tobytes())
    return found.hexdigest()


def _path(name: str) -> Path:
    return cache_folder() / "references" / f"{name}.npz"


def _encoded(library: Library) -> bytes:
    counts, weights = library.counts, library.weights
    texts = {"words": sorted(weights.columns, key=weights.columns.__getitem__)}
    texts["topics"] = list(library.topics)
    stream = io.BytesIO()
    np.savez_compressed(
        stream,
        texts=np.frombuffer(json.dumps(texts).encode(), dtype=np.uint8),
        idf=weights.idf,
        counts=counts.data.astype(np.int32),
        places=counts.indices.astype(np.int32),
        ends=counts.indptr.astype(np.int64),
    )
    return stream.getvalue()


def _decoded(stored: Mapping[str, np.ndarray]) -> Library:
    texts = json.loads(stored["texts"].tobytes())
    columns, topics = ({t: i for i, t in enumerate(texts[n])} for n in ("words", "topics"))
    parts = (stored["counts"].astype(float), stored["places"], stored["ends"])
    counts = csr_array(parts, (len(topics), len(columns)))
    return Library(Weights(columns, stored["idf"]), topics, counts)
