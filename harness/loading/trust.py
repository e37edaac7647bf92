"""What a model may bring along besides weights in safetensors, and what it takes to let it in.

Code of its own is run, and pickled weights are read, by a flag each and never after a prompt. Nothing
is loaded here: what there is to know is read from configurations, before anything of it is executed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers.utils import (
    SAFE_WEIGHTS_INDEX_NAME,
    SAFE_WEIGHTS_NAME,
    WEIGHTS_INDEX_NAME,
    WEIGHTS_NAME,
)

from ..errors import DataError
from ..files import sha256_of

COMMIT = re.compile("[0-9a-f]{40}")
"""A whole commit hash of the hub. Whatever is shorter, or a name, may be another thing tomorrow."""
CODE, PICKLED_WEIGHTS = "remote_code", "pickle_weights"
"""What can be let in, as a run's manifest calls it."""
PICKLED = (
    "convert them with save_pretrained, or read pickled ones, as tensors only: "
    "--allow-pickle-weights"
)
CLASSES = {"AutoModelForCausalLM", "AutoTokenizer"}
"""What is loaded here, and may be a class of the model's own instead."""
COMPILED = re.compile("attn_implementation|experts_implementation")
"""The entries that may name compiled code on the hub, as OWNER/NAME."""


def needs_code(path: str) -> tuple[str, str]:
    """Return cause and remedy for a model that brings code."""
    folder = Path(path).is_dir()
    read, pinned = ("its *.py files", "") if folder else ("it", " --model-args revision=FULL-HASH")
    return (
        f"{path} needs code of its own, and --trust-remote-code would run it as you",
        f"read {read} first, and if you trust that: --trust-remote-code{pinned}",
    )


def check_revision(path: str, revision: str | None) -> None:
    """Raise `DataError` unless a revision of the hub is a whole commit hash."""
    if not COMMIT.fullmatch(revision or ""):
        raise DataError(
            f"--trust-remote-code runs code of {path}, of one commit and no other: "
            f"{revision or 'no revision'} is no full hash",
            "name the commit that you have read: --model-args revision=, 40 hexadecimal digits",
        )


def check_entries(entries: Any, path: str, trusted: bool) -> None:
    """Raise `DataError` for a parsed configuration that asks for code which nobody allowed.

    What another repository has is never allowed: no revision of this one says which commit of it.
    """
    classes = entries.get("auto_map") if isinstance(entries, Mapping) else None
    if CLASSES.intersection(classes or ()) and not trusted:
        raise DataError(*needs_code(path))
    for where, name in _texts(entries):
        if "auto_map" in where and "--" in name and not name.startswith(f"{path}--"):
            raise DataError(
                f"{path} takes code from {name.partition('--')[0]}, another repository",
                "no revision pins that: download both into one folder, and name the folder",
            )
        if COMPILED.search(where) and "/" in name:
            raise DataError(
                f"{path} asks for compiled code from the hub: {name}",
                f"take {where.rpartition('.')[2]} out of a copy's config.json",
            )


def check_module(module: Any, path: str) -> None:
    """Raise `DataError` for weights that an adapter in the same folder has changed unasked."""
    if getattr(module, "_hf_peft_config_loaded", False):
        raise DataError(
            f"{path} has an adapter (adapter_config.json), so that its weights are not its own",
            "merge it into the weights, or remove it from a copy of the folder",
        )


def weight_files(folder: str, config: Any, pickled: bool) -> list[Path]:
    """Return the files that transformers loads a folder's weights from; none if it has none.

    Raises `DataError` for an index that is damaged, or names a file that is outside of the folder or missing.
    """
    names = [SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_INDEX_NAME]
    names += [WEIGHTS_NAME, WEIGHTS_INDEX_NAME] if pickled else []
    if named := getattr(config, "transformers_weights", None):
        names = [named]
    first = next((name for name in names if Path(folder, name).is_file()), "")
    files = _indexed(Path(folder, first)) if first.endswith(".json") else [first] if first else []
    for name in files:
        if os.path.isabs(name) or os.path.normpath(name).startswith(".."):
            raise DataError(
                f"{folder}: {first} names weights outside of the folder: {name}",
                "move the file into the folder, and name it by its name alone",
            )
        if not Path(folder, name).is_file():
            raise DataError(
                f"{folder}: {first} names weights that are not there: {name}",
                "copy or download that file again",
            )
    return [Path(folder, name) for name in files]


def _indexed(index: Path) -> list[str]:
    """Return the names of the files that an index spreads the weights over, at least one."""
    try:
        said = json.loads(index.read_text(encoding="utf-8"))
        names = sorted(set(map(str, said["weight_map"].values())))
        if not (names and isinstance(said["metadata"], dict)):
            raise ValueError
        return names
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise DataError(
            f"{index} is damaged: it needs a weight_map that names files, and metadata",
            "copy or download the model again",
        ) from None


def let_in(
    path: str, revision: str | None, code: bool, pickled: bool, weights: Sequence[Path]
) -> dict[str, str]:
    """Return what flags have let in, and what identifies it: the commit, or a digest of the files.

    ``weights`` are those of `weight_files`.
    """
    unsafe = [file for file in weights if file.suffix != ".safetensors"]
    allowed = {
        CODE: (code, sorted(Path(path).rglob("*.py")) if code else []),
        PICKLED_WEIGHTS: (pickled, unsafe),
    }
    found = {
        name: _digest(path, files) if Path(path).is_dir() else f"{path}@{revision or 'main'}"
        for name, (asked, files) in allowed.items()
        if asked
    }
    return {name: mark for name, mark in found.items() if mark}


def _digest(folder: str, files: Sequence[Path]) -> str:
    """Return a SHA-256 over files of a folder; empty if there are none."""
    parts = [f"{file.relative_to(folder)} {sha256_of(file)}" for file in files]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest() if parts else ""


def _texts(value: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text of a configuration, after the names that lead to it."""
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _texts(inner, f"{where}.{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, where)
