"""Files that are there whole or not at all, the cache folder, documents with a digest, one writer for a folder."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import socket
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from .errors import ResourceError, RunFolderError


def cache_folder() -> Path:
    """Return the folder for what can be made or fetched again: ``EDIT_HARNESS_CACHE``, or ``~/.cache/edit-harness``."""
    return Path(os.environ.get("EDIT_HARNESS_CACHE") or "~/.cache/edit-harness").expanduser()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a path to write to, and rename it to the file afterwards: it is whole or not there.

    Its folder is made. Several may write at once: the last one's is there. Raises `OSError`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
    try:
        yield partial
        os.replace(partial, path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal digits. Raises `OSError`."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def finite(data: Any) -> Any:
    """Return data with None for numbers that JSON has no word for."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {key: finite(value) for key, value in data.items()}
    return [finite(value) for value in data] if isinstance(data, list | tuple) else data


def dumps(data: Any) -> str:
    """Write JSON: ASCII, sorted keys, None for numbers that JSON has no word for."""
    try:
        return json.dumps(data, sort_keys=True, allow_nan=False)
    except ValueError:
        return json.dumps(finite(data), sort_keys=True, allow_nan=False)


SEAL = "sha256"
"""The key under which a document has the digest of the rest of it."""


def put(path: Path, data: bytes) -> None:
    """Replace a file in one step, once all of the new one is on the disk. Raises `OSError`."""
    with replacing(path) as partial, open(partial, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def write(descriptor: int, data: bytes) -> None:
    """Write all of the data, however little of it the system takes at once. Raises `OSError`."""
    rest = memoryview(data)
    while rest:
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
    """Return what `sealed` wrote, without the digest. Raises `ValueError` if it is not as written."""
    document = strict(data)
    if not isinstance(document, dict) or SEAL not in document:
        raise ValueError("it has no digest of its own content")
    if document.pop(SEAL) != digest(document):
        raise ValueError("its content was changed after it was written")
    return document


def strict(data: bytes | str) -> Any:
    """Return what JSON says. Raises `ValueError` for NaN, infinity, and a key that is there twice."""

    def refused(name: str) -> Any:
        raise ValueError(f"{name} is no number")

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(found := dict(pairs)) != len(pairs):
            raise ValueError("a key is there twice")
        return found

    try:
        return json.loads(data, parse_constant=refused, object_pairs_hook=distinct)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


@contextmanager
def locked(folder: Path, instead: str) -> Iterator[None]:
    """Hold a folder while the block runs; if another process has it, say what to do ``instead``.

    Raises `RunFolderError` then, and `ResourceError` if the lock cannot be written.
    """
    lock, owner = FileLock(folder / "lock", mode=0o666), folder / "lock.owner"
    try:
        lock.acquire(blocking=False)
    except Timeout:
        by = "another process"
        with suppress(OSError):
            by = owner.read_text(encoding="utf-8", errors="replace") or by
        raise RunFolderError(f"{folder} is in use by {by}", instead) from None
    except OSError as error:
        # A file system may have no locks: there the log finds a second writer.
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):
            cause = f"{folder / 'lock'} cannot be written: {error.strerror}"
            raise ResourceError(cause, "see to the disk, and start it again") from None
    try:
        with suppress(OSError):  # it is only for messages: a full disk is no reason to stop here
            since = time.strftime("%Y-%m-%d %H:%M")
            owner.write_text(f"pid {os.getpid()} on host {socket.gethostname()} since {since}")
        yield
    finally:
        with suppress(OSError):
            owner.unlink()
        lock.release()
