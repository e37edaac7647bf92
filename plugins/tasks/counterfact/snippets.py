"""Reference texts of CounterFact's RS, in the layout of the authors' attribute_snippets.json.

That is a list of entries with relation_id, target_id and samples, each of which has the text on a
subject that stands in the relation to the target. They are counted once; see `edit_harness_plugins.texts`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from edit_harness import DataError
from edit_harness.files import sha256_of
from edit_harness_plugins.downloads import fetch
from edit_harness_plugins.inputs import file_at
from edit_harness_plugins.texts import Library, Weights, keep, name_of

from .._files.published import hosted

TEXTS = hosted("attribute_snippets.json", 926_285_719,
    "10b5c1cd105e54d5983c72de1b45bfc88bc7af786f7b99def2557886ff23385b")  # fmt: skip
IDF = hosted("idf.npy", 11_042_168,
    "c073d642589d4ac6432f467230329b36364a01e72de63a77a3624b745b923dda")  # fmt: skip
VOCABULARY = hosted("tfidf_vocab.json", 31_639_072,
    "8a78c4f20d8d85dadfd14e283d71af255482ff18aa0eb8a81716024c05ff888b")  # fmt: skip


def library(references: str) -> str:
    """Return the name of the library of "authors" or of a file; it is made if it is not there.

    The authors' texts are weighed by their own file of frequencies, those of another file as theirs
    were: each text counts once. The first time, the authors' files are downloaded, and reading them
    takes minutes and some 3 GB of memory. Raises `DataError`.
    """
    if references == "authors":
        name = name_of(*(remote.sha256 for remote in (TEXTS, IDF, VOCABULARY)))
        keep(name, lambda: Library.of(read(fetch(TEXTS)), authors_weights()))
        return name
    path = file_at(references, "references is auto, authors, none or a .json file")
    name = name_of(sha256_of(path))
    keep(name, lambda: Library.of(read(path)))
    return name


def read(path: Path) -> Mapping[str, Sequence[str]]:
    """Return the texts of each topic. Raises `DataError` if the file is not of the layout."""
    texts: dict[str, list[str]] = {}
    try:
        for entry in json.loads(path.read_bytes()):
            own = texts.setdefault(f"{entry['relation_id']}/{entry['target_id']}", [])
            own += (sample["text"] + "" for sample in entry["samples"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            f"{path} has not the layout of attribute_snippets.json: {type(error).__name__} {error}",
            "its entries have relation_id, target_id and samples, and each sample a text",
        ) from None
    if not any(map(any, texts.values())):
        raise DataError(f"{path} has no reference texts", "or leave them out: references=none")
    return texts


def authors_weights() -> Weights:
    """Return the authors' weights of 1,380,255 words of Wikipedia. Raises `DataError`."""
    columns = json.loads(fetch(VOCABULARY).read_bytes())
    idf = np.load(fetch(IDF))
    if sorted(columns.values()) != list(range(len(idf))):
        raise DataError(f"{VOCABULARY.name} has {len(columns):,} words, {IDF.name} {len(idf):,}")
    return Weights(columns, idf)
