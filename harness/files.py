"""Files that are there whole or not at all: downloads in a cache, documents with a digest, one writer for a folder."""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import math
import os
import socket
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from .errors import DataError, ResourceError, RunFolderError

RETRIES = 3
"""How often an address is asked again."""
TIMEOUT = 60.0
YES = {"1", "true", "yes", "on"}
LEFT = 86400.0
"""Seconds after which a half-written file belongs to a writer that is gone."""


@dataclass(frozen=True)
class Remote:
    """A file that can be downloaded; a size of 0 bytes or an empty checksum is not checked."""

    urls: tuple[str, ...]
    """The same file in several places, the best first."""
    name: str
    """Its path in the cache folder."""
    size: int = 0
    sha256: str = ""
    agent: str = "edit-harness"
    """The name by which the server learns who asks."""


def cache_folder() -> Path:
    """Return the folder for downloads: ``EDIT_HARNESS_CACHE``, or ``~/.cache/edit-harness``.

    Raises `ResourceError` for a user who has no home.
    """
    try:
        return Path(os.environ.get("EDIT_HARNESS_CACHE") or "~/.cache/edit-harness").expanduser()
    except RuntimeError:
        raise ResourceError(
            "there is no home folder, so there is no place for the cache",
            "name one: export EDIT_HARNESS_CACHE=FOLDER",
        ) from None


def offline() -> str:
    """Return the environment variable that forbids downloads, as ``NAME=1``, or an empty text."""
    for name in ("EDIT_HARNESS_OFFLINE", "HF_HUB_OFFLINE"):
        if os.environ.get(name, "").lower() in YES:
            return f"{name}={os.environ[name]}"
    return ""


def fetch(remote: Remote) -> Path:
    """Return the path of the file in the cache, downloading it first if need be.

    A file in the cache that is not the expected one is moved aside. Raises `DataError` if the file cannot
    be had, and `ResourceError` if the cache cannot be written.
    """
    path = cache_folder() / remote.name
    missing = f"{remote.name} is not in the cache"
    if path.exists():
        digest = known_sha256(path)
        if not (problem := _mismatch(remote, path, digest)):
            _remember(path, digest)
            return path
        set_aside(path)
        missing = f"{remote.name} in the cache was damaged ({problem})"
    if variable := offline():
        raise DataError(
            f"{missing}, and {variable} forbids downloads",
            f"unset it, or put {remote.urls[0]} at {path}",
        )
    try:
        _download(remote, path)
        path.chmod(0o644)  # others may share the cache
    except OSError as error:
        raise ResourceError(
            f"{path} cannot be written: {error.strerror or error}",
            "free some space, or set EDIT_HARNESS_CACHE to another folder",
        ) from error
    digest = sha256_of(path)
    if problem := _mismatch(remote, path, digest):  # without a checksum the size still counts
        bad = set_aside(path)
        raise DataError(f"{remote.urls[0]}: {problem}", f"it was kept as {bad}; try again")
    _remember(path, digest)
    return path


def _download(remote: Remote, path: Path) -> None:
    """Write the file, whole or not at all. Raises `DataError`, or `OSError` of the disk."""
    import pooch  # here, since most commands fetch nothing
    from requests.exceptions import RequestException

    pooch.get_logger().setLevel("WARNING")
    known = f"sha256:{remote.sha256.lower()}" if remote.sha256 else None
    ask = pooch.HTTPDownloader(headers={"User-Agent": remote.agent}, timeout=TIMEOUT)
    cause = ""
    for url in remote.urls:
        store = pooch.create(
            path.parent, "", registry={path.name: known}, urls={path.name: url},
            retry_if_failed=RETRIES,
        )  # fmt: skip
        try:
            store.fetch(path.name, downloader=ask)
            return
        except (RequestException, ValueError) as error:
            cause = f"{url}: {error}"
    raise DataError(
        f"{remote.name} could not be downloaded: {cause}",
        f"check the connection, or put the file at {path}",
    )


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a path to write to, and rename it afterwards: a file is whole or not there.

    Its folder is made. Several may write the same file at once: the last one's is there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with staged(path) as partial:
        yield partial


@contextmanager
def staged(path: Path) -> Iterator[Path]:
    """Give a name beside a file that no other writer has, and rename it to the file afterwards.

    Half-written files of a day before are removed. Raises `OSError`, and leaves the old file as it was.
    """
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
        with suppress(OSError):
            if left.stat().st_mtime < time.time() - LEFT:
                left.unlink()
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


def known_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, from the note beside it as long as the file is untouched."""
    with suppress(OSError):
        digest, _, state = _note(path).read_text(encoding="ascii").partition(" ")
        if state == _state(path):
            return digest
    return sha256_of(path)


def set_aside(path: Path, target: str = "") -> Path:
    """Rename a bad file, by default to its name with ``.bad`` at the end; return the new path."""
    bad = Path(target or f"{path}.bad")
    _note(path).unlink(missing_ok=True)
    with suppress(FileNotFoundError):  # another process may have been faster
        os.replace(path, bad)
    return bad


def _mismatch(remote: Remote, path: Path, digest: str) -> str:
    """Say how a file departs from what was expected, or return an empty text."""
    size = path.stat().st_size
    if remote.sha256 and digest != remote.sha256.lower():
        return f"expected sha256 {remote.sha256.lower()}, got {digest} ({size:,} bytes)"
    if remote.size and size != remote.size:
        return f"expected {remote.size:,} bytes, got {size:,}"
    return ""


def _remember(path: Path, digest: str) -> None:
    with suppress(OSError):  # a cache that is read-only goes without
        _note(path).write_text(f"{digest} {_state(path)}", encoding="ascii")


def _note(path: Path) -> Path:
    return Path(f"{path}.sha256")


def _state(path: Path) -> str:
    stat = path.stat()
    return f"{stat.st_size} {stat.st_mtime_ns}"


def finite(data: Any) -> Any:
    """Return data with None for numbers that JSON has no word for."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {key: finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in data]
    return data


def dumps(data: Any) -> str:
    """Write JSON: ASCII, sorted keys, None for numbers that JSON has no word for."""
    try:
        return json.dumps(data, sort_keys=True, allow_nan=False)
    except ValueError:
        return json.dumps(finite(data), sort_keys=True, allow_nan=False)


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


NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}
"""What a file system says that has no locks."""


@contextmanager
def locked(folder: Path, instead: str) -> Iterator[list[str]]:
    """Hold a folder while the block runs; yields what there is to say of it.

    ``instead`` is what to do if another process has it, which raises `RunFolderError`. Raises
    `ResourceError` if the lock cannot be written.
    """
    lock, owner = FileLock(folder / "lock", mode=0o666), folder / "lock.owner"
    notes = []
    try:
        lock.acquire(blocking=False)
    except Timeout:
        by = _named(owner) or "another process"
        raise RunFolderError(f"{folder} is in use by {by}", instead) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise ResourceError(
                f"{folder / 'lock'} cannot be written: {error.strerror}",
                "see to the disk, and start it again",
            ) from None
        # The log finds a second writer, but only after it has written.
        notes.append("this file system has no locks: start no second process on this folder")
    try:
        if left := _named(owner):
            notes.append(f"took over from {left}, which is gone")
        with suppress(OSError):  # it is only for messages: a full disk is no reason to stop here
            since = time.strftime("%Y-%m-%d %H:%M")
            owner.write_text(f"pid {os.getpid()} on host {socket.gethostname()} since {since}")
        yield notes
    finally:
        with suppress(OSError):
            owner.unlink()
        lock.release()


def _named(owner: Path) -> str:
    """Return the process that holds a folder, or held it when it died."""
    with suppress(OSError):
        return owner.read_text(encoding="utf-8", errors="replace")
    return ""
