"""A note in the cache folder of what is being imported, which outlives an import that kills the interpreter.

Who finds such a note of a process that is gone knows whom to name; a package that died while it was
registering is skipped from then on, until its files change or it is enabled again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from edit_harness.errors import PluginError
from edit_harness.files import cache_folder
from edit_harness.packages import Package


def _folder() -> Path:
    return cache_folder() / "plugins"


@contextmanager
def watching(package: Package, component: str = "") -> Iterator[None]:
    """Leave a note for as long as the block runs, of a package or of one of its components.

    Where the cache folder cannot be written, there is none.
    """
    said = {
        "name": package.name,
        "version": package.version,
        "stamp": package.stamp,
        "component": component,
    }
    path = _folder() / f"loading-{uuid.uuid4().hex}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w", encoding="utf-8")
    except OSError:
        yield
        return
    with file:
        # The lock goes with the process, so that a note of one that runs is not taken for a crash.
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps(said))
        file.flush()
        final = path.with_suffix(".json")
        os.replace(path, final)
        try:
            yield
        finally:
            final.unlink(missing_ok=True)


def crashes() -> Iterator[str]:
    """Yield a sentence about each import that killed its process, and take it into account."""
    for path in sorted(_folder().glob("loading-*.json")):
        with contextlib.suppress(OSError, ValueError), path.open("r+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
            yield _take(json.load(file))


def _take(said: dict[str, str]) -> str:
    package = f"{said['name']} {said['version']}".strip()
    if said["component"]:
        return f"an earlier process died while loading the {said['component']} of {package}"
    _write({**_skipped(), said["name"]: said["stamp"]})
    return f"an earlier process died while loading {package}"


def skips(package: Package) -> str:
    """Return why a package is skipped, or an empty text."""
    known = _skipped().get(package.name)
    if known is None or known != package.stamp:
        return ""
    return f"it killed the interpreter; edit-harness plugins --enable {package.name}"


def enable(name: str) -> None:
    """Load a package again. Raises `PluginError` if it is not skipped."""
    known = _skipped()
    if name not in known:
        raise PluginError(
            f"{name!r} is not skipped", f"skipped: {', '.join(sorted(known)) or 'nothing'}"
        )
    del known[name]
    _write(known)


def _skipped() -> dict[str, str]:
    """Return the stamps of skipped packages by name; a list that cannot be read is empty."""
    try:
        read: Any = json.loads((_folder() / "skipped.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}


def _write(skipped: dict[str, str]) -> None:
    path = _folder() / "skipped.json"
    new = path.with_name(f"skipped-{uuid.uuid4().hex}")
    new.write_text(json.dumps(skipped), encoding="utf-8")
    os.replace(new, path)
