"""Downloads: files of the authors of benchmarks, kept in the cache folder, and of data sets on the hub, in the hub's own."""

from __future__ import annotations

import os
import re
import socket
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

from edit_harness.errors import DataError, ResourceError
from edit_harness.files import cache_folder, sha256_of

RETRIES = 3
"""How often an address is asked again."""
TIMEOUT = 60.0
ON_HUB = re.compile(r"hf://(?P<name>[^/@]+/[^/@]+)/(?P<file>[^@]+)@(?P<revision>[^@]+)")
YES = {"1", "true", "yes", "on"}


@dataclass(frozen=True)
class Remote:
    """A file that can be downloaded; an empty checksum is not checked."""

    urls: tuple[str, ...]
    """The same file in several places, the best first."""
    name: str
    """Its path in the cache folder."""
    size: int = 0
    """In bytes, for people; 0 if nobody says."""
    sha256: str = ""
    agent: str = "edit-harness"
    """The name by which the server learns who asks."""


def offline() -> str:
    """Return the environment variable that forbids downloads, as ``NAME=1``, or an empty text."""
    names = ("EDIT_HARNESS_OFFLINE", "HF_HUB_OFFLINE")
    return next((f"{n}={os.environ[n]}" for n in names if os.environ.get(n, "").lower() in YES), "")


def unknown_host(url: str) -> str:
    """Return the host of an address if its name cannot be looked up, else an empty text; a proxy may know it."""
    host = urlsplit(url).hostname or ""
    try:
        return "" if getproxies() or socket.getaddrinfo(host, None) else host
    except socket.gaierror:
        return host


def fetch(remote: Remote, instead: str = "") -> Path:
    """Return the path of the file in the cache, downloading it first unless the right one is there.

    Raises `DataError`, which ends with what to do ``instead``, if the file cannot be had, and `ResourceError` if the cache cannot be written.
    """
    path = cache_folder() / remote.name
    if path.exists() and (not remote.sha256 or sha256_of(path) == remote.sha256.lower()):
        return path
    if variable := offline():
        wrong = "in the cache is damaged" if path.exists() else "is not in the cache"
        raise DataError(
            f"{remote.name} {wrong}, and {variable} forbids downloads",
            f"unset it, or put {remote.urls[0]} at {path}{instead}",
        )
    try:
        _download(remote, path, instead)
        path.chmod(0o644)  # others may share the cache
    except OSError as error:
        raise ResourceError(
            f"{path} cannot be written: {error.strerror or error}",
            "free some space, or set EDIT_HARNESS_CACHE to another folder",
        ) from error
    return path


def _download(remote: Remote, path: Path, instead: str) -> None:
    """Write the file, whole or not at all. Raises `DataError`, or `OSError` of the disk."""
    import pooch  # here, since most commands fetch nothing
    from requests.exceptions import RequestException

    pooch.get_logger().setLevel("WARNING")
    known = f"sha256:{remote.sha256.lower()}" if remote.sha256 else None
    ask = pooch.HTTPDownloader(headers={"User-Agent": remote.agent}, timeout=TIMEOUT)
    cause = ""
    for url in remote.urls:
        if host := unknown_host(url):
            cause = f"no network: {host} cannot be reached"
            continue
        store = pooch.create(path.parent, "", retry_if_failed=RETRIES)
        store.registry, store.urls = {path.name: known}, {path.name: url}
        try:
            store.fetch(path.name, downloader=ask)
            return
        except (RequestException, ValueError) as error:
            cause = f"{url}: {error}"
    raise DataError(
        f"{remote.name} could not be downloaded: {cause}",
        f"check the connection, or put the file at {path}{instead}",
    )


def from_hub(address: str) -> Path:
    """Return the path of a file of a data set on the hub, ``hf://OWNER/NAME/FILE@REVISION``, downloaded if need be.

    Raises `DataError` for an address of another form, and if the file cannot be had.
    """
    # Here, since most commands fetch nothing.
    from huggingface_hub import constants, hf_hub_download

    if not (at := ON_HUB.fullmatch(address)):
        form = "write hf://OWNER/NAME/FILE@REVISION: a commit, a tag, or main"
        raise DataError(f"{address} names no file on the hub", form)
    alone = bool(offline() or unknown_host(constants.ENDPOINT))
    get = partial(hf_hub_download, repo_type="dataset", local_files_only=alone)
    try:
        return Path(get(at["name"], at["file"], revision=at["revision"]))
    except (OSError, ValueError) as error:
        why = "it is not in the hub's cache, and there is no network" if alone else str(error)
        cause = f"{address} could not be had: {' '.join(why.split())[:200]}"
        raise DataError(cause, "check the address, or name a file: --task-args data=FILE") from None


def set_aside(path: Path) -> Path:
    """Rename a bad file to its name with ``.bad`` at the end; return the new path."""
    bad = Path(f"{path}.bad")
    with suppress(FileNotFoundError):  # another process may have been faster
        os.replace(path, bad)
    return bad
