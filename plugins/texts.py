"""Reference texts that generated ones are compared with: counted once, and kept in the cache.

A task makes a library; its cases carry the library's name, a digest of what it was made of, and a metric
opens it by that name. TF-IDF is as scikit-learn has it by default: words of two characters or more in lower
case, raw counts times ln((1+n)/(1+df)) + 1, rows of unit length.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from scipy.sparse import csr_array

from edit_harness.errors import DataError, ResourceError
from edit_harness.files import cache_folder, replacing
from edit_harness_plugins.downloads import set_aside

FORMAT = "references 1"


def words(text: str) -> list[str]:
    """Return the words of a text as scikit-learn finds them by default."""
    return re.findall(r"\b\w\w+\b", text.lower())


@dataclass(frozen=True, eq=False)
class Weights:
    """The words that count, and how much."""

    columns: Mapping[str, int]
    """The place of each word."""
    idf: np.ndarray
    """The weight of each place."""

    @classmethod
    def fitted(cls, texts: Sequence[str]) -> Weights:
        """Return the smoothed inverse frequencies of the words of these texts."""
        found = Counter(chain.from_iterable(set(words(text)) for text in texts))
        columns = {word: i for i, word in enumerate(sorted(found))}
        frequency = np.array([found[word] for word in columns])
        return cls(columns, np.log((1 + len(texts)) / (1 + frequency)) + 1)

    def counts(self, texts: Iterable[str]) -> csr_array:
        """Return how often each text has each word, texts by words; unknown words do not count."""
        places, values, ends = [np.empty(0, int)], [np.empty(0)], [0]
        for text in texts:
            known = Counter(self.columns[w] for w in words(text) if w in self.columns)
            places.append(np.fromiter(known.keys(), int, len(known)))
            values.append(np.fromiter(known.values(), float, len(known)))
            ends.append(ends[-1] + len(known))
        parts = (np.concatenate(values), np.concatenate(places), np.array(ends))
        return csr_array(parts, (len(ends) - 1, len(self.columns)))

    def vectors(self, counts: csr_array) -> csr_array:
        """Return counts times weights with rows of unit length; a row without a word stays 0."""
        rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        values = counts.data * self.idf[counts.indices]
        norms = np.sqrt(np.bincount(rows, values**2, minlength=counts.shape[0]))
        return csr_array((values / norms[rows], counts.indices, counts.indptr), counts.shape)


def cosine(one: csr_array, other: csr_array) -> float:
    """Return the cosine of two vectors of unit length, each a row; 0 if either is 0."""
    return float(one.multiply(other).sum())


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
        with replacing(path) as partial, open(partial, "wb") as file:
            library = make()
            counts, weights = library.counts, library.weights
            texts = {"words": sorted(weights.columns, key=weights.columns.__getitem__)}
            texts["topics"] = list(library.topics)
            np.savez_compressed(
                file,
                texts=np.frombuffer(json.dumps(texts).encode(), dtype=np.uint8),
                idf=weights.idf,
                counts=counts.data.astype(np.int32),
                places=counts.indices.astype(np.int32),
                ends=counts.indptr.astype(np.int64),
            )
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
        with np.load(path) as stored:
            texts = json.loads(stored["texts"].tobytes())
            columns, topics = ({t: i for i, t in enumerate(texts[n])} for n in ("words", "topics"))
            parts = (stored["counts"].astype(float), stored["places"], stored["ends"])
            counts = csr_array(parts, (len(topics), len(columns)))
            return Library(Weights(columns, stored["idf"]), topics, counts)
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
