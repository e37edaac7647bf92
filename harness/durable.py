"""Files that are there whole or not at all, and documents that know their own digest.

Rows that are appended are in `edit_harness.folder.log`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from .encoding import dumps, finite
from .files import sha256_of as digest_of
from .files import staged

__all__ = [
    "SEAL",
    "digest",
    "digest_of",
    "put",
    "sealed",
    "strict",
    "sync_folder",
    "unsealed",
    "write",
]

SEAL = "sha256"
"""The key under which a document has the digest of the rest of it."""


def put(path: Path, data: bytes) -> None:
    """Replace a file in one step; what is there stays until all of the new one is on the disk.

    Raises `OSError`, and leaves the old file as it was.
    """
    with staged(path) as partial:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            write(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    sync_folder(path.parent)


def write(descriptor: int, data: bytes) -> None:
    """Write all of the data, however little of it the system takes at once. Raises `OSError`."""
    rest = memoryview(data)
    while rest:
        with suppress(InterruptedError):
            rest = rest[os.write(descriptor, rest) :]


def sync_folder(folder: Path) -> None:
    """Make sure that names which came or changed in a folder outlive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def digest(data: Any) -> str:
    """Return the SHA-256 of data as canonical JSON."""
    return hashlib.sha256(dumps(data).encode()).hexdigest()


def sealed(document: Mapping[str, Any]) -> bytes:
    """Return a document as JSON for readers, with the digest of the rest of it."""
    content = finite({key: value for key, value in document.items() if key != SEAL})
    whole = {**content, SEAL: digest(content)}
    return (json.dumps(whole, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def unsealed(data: bytes) -> dict[str, Any]:
    """Return what `sealed` wrote, without the digest.

    Raises `ValueError` if it is no JSON object, or has another content than it was written with.
    """
    document = strict(data)
    if not isinstance(document, dict) or SEAL not in document:
        raise ValueError("it has no digest of its own content")
    if document.pop(SEAL) != digest(document):
        raise ValueError("its content was changed after it was written")
    return document


def strict(data: bytes | str) -> Any:
    """Return what JSON says. Raises `ValueError` for NaN, infinity, and a key that is there twice."""
    try:
        return json.loads(data, parse_constant=_refused, object_pairs_hook=_distinct)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found
