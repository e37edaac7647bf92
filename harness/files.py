"""Files from elsewhere: fetched once into a cache folder, and never used unchecked.

Processes may share the folder: each renames its own download into place; nothing rests on locks.
"""

from __future__ import annotations

import contextlib
import email.utils
import errno
import glob
import hashlib
import os
import random
import shutil
import socket
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError

from .errors import DataError, ResourceError

TRIES = 5
TIMEOUT = 60.0
LONGEST_WAIT = 120.0
TRANSIENT = {408, 429, 500, 502, 503, 504}
DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG}
YES = {"1", "true", "yes", "on"}
AT_WORK: set[Path] = set()
"""What this process is writing: an earlier one, of a container, may have had the same number."""


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
    """What the server is told of who asks."""


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


def fetch(remote: Remote, *, sleep: Callable[[float], object] = time.sleep) -> Path:
    """Return the path of the file in the cache, downloading it first if need be.

    Raises `DataError` if it cannot be had or is not the file that was expected, which is then
    moved aside, and `ResourceError` if the cache cannot be written.
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
    part = Path(f"{path}.{uuid.uuid4().hex}.part")
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        url = _download(remote, part, sleep)
        digest = sha256_of(part)
        if problem := _mismatch(remote, part, digest):
            bad = set_aside(part, f"{path}.bad")
            raise DataError(f"{url}: {problem}", f"it was kept as {bad}; try again")
        os.replace(part, path)
    except OSError as error:
        raise ResourceError(
            f"{path} cannot be written: {error.strerror or error}",
            "free some space, or set EDIT_HARNESS_CACHE to another folder",
        ) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink()
    _remember(path, digest)
    return path


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a path to write to, and rename it afterwards: a file is whole or not there.

    Its folder is made. Several may write the same file at once: the last one's is there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with staged(path) as partial:
        yield partial


@contextlib.contextmanager
def staged(path: Path) -> Iterator[Path]:
    """Give a name beside a file that no other writer has, and rename it to the file afterwards.

    What writers of this host left there that are gone is removed. Raises `OSError`, and leaves the
    old file as it was.
    """
    host = "".join(c if c.isalnum() else "-" for c in socket.gethostname())
    for left in path.parent.glob(f".{glob.escape(path.name)}.{host}.*"):
        owner = left.name.rpartition(".")[2]
        mine = owner == str(os.getpid())
        if owner.isdecimal() and (left not in AT_WORK if mine else not alive(int(owner))):
            with contextlib.suppress(OSError):
                left.unlink()
    partial = path.with_name(f".{path.name}.{host}.{uuid.uuid4().hex[:8]}.{os.getpid()}")
    AT_WORK.add(partial)
    try:
        yield partial
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise
    finally:
        AT_WORK.discard(partial)


def alive(pid: int) -> bool:
    """Tell whether a process of this host is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        return True
    return True


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal digits."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def known_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, from the note beside it as long as the file is untouched."""
    with contextlib.suppress(OSError):
        digest, _, state = _note(path).read_text(encoding="ascii").partition(" ")
        if state == _state(path):
            return digest
    return sha256_of(path)


def set_aside(path: Path, target: str = "") -> Path:
    """Rename a bad file, by default to its name with ``.bad`` at the end; return the new path."""
    bad = Path(target or f"{path}.bad")
    _note(path).unlink(missing_ok=True)
    # Another process may have been faster.
    with contextlib.suppress(FileNotFoundError):
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


def _download(remote: Remote, part: Path, sleep: Callable[[float], object]) -> str:
    """Write the file to ``part`` and return the address that it came from."""
    urls, cause = list(remote.urls), ""
    for attempt in range(TRIES):
        url = urls[attempt % len(urls)]
        # With jitter, but without touching the global generator that experiments seed.
        wait = 2**attempt * random.SystemRandom().uniform(0.5, 1.0)
        try:
            _transfer(url, part, remote.agent)
            return url
        except HTTPError as error:
            error.close()
            cause = f"{url} answered {error.code} {error.reason}"
            if error.code not in TRANSIENT:
                urls.remove(url)
                if not urls:
                    break
                continue
            wait = max(wait, _retry_after(error.headers.get("Retry-After", "")))
        except (OSError, HTTPException) as error:
            if isinstance(error, OSError) and error.errno in DISK:
                raise
            cause = f"{url}: {error}"
        if attempt + 1 < TRIES:
            sleep(min(wait, LONGEST_WAIT))
    raise DataError(
        f"{remote.name} could not be downloaded: {cause}",
        f"check the connection, or put the file at {cache_folder() / remote.name}",
    )


def _transfer(url: str, part: Path, agent: str) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": agent})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response, part.open("wb") as stream:
        announced = response.headers.get("Content-Length")
        shutil.copyfileobj(response, stream)
    # A lost connection looks like the end of the file to urllib.
    arrived = part.stat().st_size
    if announced and arrived != int(announced):
        raise ConnectionError(f"{arrived:,} of {int(announced):,} bytes arrived")


def _retry_after(header: str) -> float:
    """Return the seconds that a server asks to wait, given as a number or as a date."""
    if header.strip().isdigit():
        return float(header)
    try:
        return email.utils.parsedate_to_datetime(header).timestamp() - time.time()
    except (TypeError, ValueError):
        return 0.0


def _remember(path: Path, digest: str) -> None:
    # A cache that is read-only goes without.
    with contextlib.suppress(OSError):
        _note(path).write_text(f"{digest} {_state(path)}", encoding="ascii")


def _note(path: Path) -> Path:
    return Path(f"{path}.sha256")


def _state(path: Path) -> str:
    stat = path.stat()
    return f"{stat.st_size} {stat.st_mtime_ns}"
