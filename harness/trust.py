"""What a model may bring along besides weights in safetensors, and what it takes to let it in.

Code of its own is run, and pickled weights are read, by a flag each and never after a prompt. Nothing
is loaded here: what there is to know is read from configurations, before anything of it is executed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from edit_harness.errors import DataError
from edit_harness.files import sha256_of

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


def let_in(path: str, revision: str | None, code: bool, pickled: bool) -> dict[str, str]:
    """Return what flags have let in, and what identifies it: the commit, or a digest of the files."""
    safe = any(Path(path).glob("*.safetensors"))  # is read first, and then nothing is unpickled
    allowed = {
        CODE: (code, "*.py"),
        PICKLED_WEIGHTS: (pickled and not safe, "pytorch_model*.bin"),
    }
    found = {
        name: _digest(path, pattern) if Path(path).is_dir() else f"{path}@{revision or 'main'}"
        for name, (asked, pattern) in allowed.items()
        if asked
    }
    return {name: mark for name, mark in found.items() if mark}


def _digest(folder: str, pattern: str) -> str:
    """Return a SHA-256 over the files of a folder that a pattern fits; empty if there are none."""
    files = sorted(Path(folder).rglob(pattern))
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
