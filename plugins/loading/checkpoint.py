"""The weights of a model in a folder: which files they are in, whether they are whole, what identifies them."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers.utils import (
    SAFE_WEIGHTS_INDEX_NAME,
    SAFE_WEIGHTS_NAME,
    WEIGHTS_INDEX_NAME,
    WEIGHTS_NAME,
)

from edit_harness.errors import DataError
from edit_harness.files import sha256_of
from edit_harness.model.weights import value

CODE, PICKLED_WEIGHTS = "remote_code", "pickle_weights"
"""What can be let in, as a run's manifest calls it."""


def weight_files(folder: str, config: Any, pickled: bool) -> list[Path]:
    """Return the files that transformers loads a folder's weights from; none if it has none.

    Raises `DataError` for an index that is damaged, or names a file that is outside or missing.
    """
    names = [SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_INDEX_NAME]
    names += [WEIGHTS_NAME, WEIGHTS_INDEX_NAME] if pickled else []
    if named := getattr(config, "transformers_weights", None):
        names = [named]
    first = next((name for name in names if Path(folder, name).is_file()), "")
    files = _indexed(Path(folder, first)) if first.endswith(".json") else [first] if first else []
    for name in files:
        outside = os.path.isabs(name) or os.path.normpath(name).startswith("..")
        if outside or not Path(folder, name).is_file():
            where = "outside of the folder" if outside else "that are not there"
            raise DataError(
                f"{folder}: {first} names weights {where}: {name}",
                "put that file into the folder, and name it by its name alone",
            )
    return [Path(folder, name) for name in files]


def _indexed(index: Path) -> list[str]:
    """Return the names of the files that an index spreads the weights over, at least one."""
    try:
        read = json.loads(index.read_text(encoding="utf-8"))
        names = sorted(set(map(str, read["weight_map"].values())))
        if names and isinstance(read["metadata"], dict):
            return names
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    raise DataError(
        f"{index} is damaged: it needs a weight_map that names files, and metadata",
        "copy or download the model again",
    )


def check_weights(module: Any, report: Mapping[str, Any], path: str) -> None:
    """Raise `DataError` for weights that are random, left over or not the model's own.

    Left over are weights like the model's but for a number: of a layer that was not built.
    """
    if getattr(module, "_hf_peft_config_loaded", False):
        raise DataError(
            f"{path} has an adapter (adapter_config.json), so that its weights are not its own",
            "merge it into the weights, or remove it from a copy of the folder",
        )
    wrong = sorted(str(k[0] if isinstance(k, tuple) else k) for k in report["mismatched_keys"])
    if lacking := sorted(report.get("missing_keys") or ()) + wrong:
        raise DataError(
            f"{path} lacks {len(lacking)} weights of a causal language model: {', '.join(lacking[:3])}",
            "check that the folder holds the whole model and its language-model head",
        )
    kinds = {re.sub(r"\d+", "0", name) for name in module.state_dict()}
    if extra := sorted(n for n in report["unexpected_keys"] if re.sub(r"\d+", "0", n) in kinds):
        raise DataError(
            f"{path} has {len(extra)} weights of layers that its config.json lacks: {extra[0]}",
            "check that the weights and config.json belong together",
        )
    head, embedding = module.get_output_embeddings(), module.get_input_embeddings()
    tied = head is not None and module.config.get_text_config().tie_word_embeddings
    if tied and head.weight is not embedding.weight:
        one, other = (value(part, "weight").cpu() for part in (head, embedding))
        if not torch.equal(one, other):
            raise DataError(
                f"{path} has weights of a head, which its config.json ties to the embedding",
                "check that they belong together; a head of its own has tie_word_embeddings false",
            )


def what_was_let_in(
    path: str, revision: str | None, code: bool, pickled: bool, weights: Sequence[Path]
) -> dict[str, str]:
    """Return what flags have let in, and what identifies it: the commit, or a digest of the files."""
    folder = Path(path)
    unsafe = [file for file in weights if file.suffix != ".safetensors"]
    asked = {CODE: sorted(folder.rglob("*.py"))} if code else {}
    asked |= {PICKLED_WEIGHTS: unsafe} if pickled else {}
    if not folder.is_dir():
        return dict.fromkeys(asked, f"{path}@{revision or 'main'}")
    return {name: _digest(folder, files) for name, files in asked.items() if files}


def _digest(folder: Path, files: Iterable[Path]) -> str:
    parts = [f"{file.relative_to(folder)} {sha256_of(file)}" for file in files]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def digest_of(
    path: str, config: Any, weights: Sequence[Path] = (), let_in: Mapping[str, str] | None = None
) -> str:
    """Return a SHA-256 of what identifies the weights: the hub's commit, or the files they are in.

    It does not depend on the dtype that they are loaded in; empty if it cannot be told. Code of the
    model and pickled weights, where ``let_in`` has them, are part of it.
    """
    commit = getattr(config, "_commit_hash", None)
    if commit and not weights:  # a folder may say what it likes
        return hashlib.sha256(f"{path}@{commit}".encode()).hexdigest()
    digests = [*map(sha256_of, weights), *(let_in or {}).values()]
    return hashlib.sha256("".join(digests).encode()).hexdigest() if digests else ""
