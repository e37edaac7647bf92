"""A note in the cache folder of what is being imported, which outlives an import that kills the interpreter.

Who finds such a note of a process that is gone knows whom to name. The process may have been killed from
outside, so the package is tried alone: if it takes that process down too, it is skipped from then on, until
its files change or it is enabled again.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from edit_harness import alone
from edit_harness.errors import PluginError
from edit_harness.files import cache_folder
from edit_harness.packages import Package, normal


class Note(NamedTuple):
    """What was being imported."""

    name: str
    version: str
    stamp: str
    component: str
    """Empty for the package itself."""

    def __str__(self) -> str:
        package = f"{self.name} {self.version}".strip()
        return f"the {self.component} of {package}" if self.component else package


def _folder() -> Path:
    return cache_folder() / "plugins"


@contextmanager
def watching(package: Package, component: str = "") -> Iterator[None]:
    """Leave a note for as long as the block runs, of a package or of one of its components.

    Where the cache folder cannot be written, there is none.
    """
    with ExitStack() as until:
        with suppress(OSError):
            note = Note(package.name, package.version, package.stamp, component)
            until.enter_context(_left(note))
        yield


@contextmanager
def _left(note: Note) -> Iterator[None]:
    path = _folder() / f"loading-{uuid.uuid4().hex}"
    final = path.with_suffix(".json")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        try:
            # The lock goes with the process, so that a note of one that runs is not taken for a crash.
            fcntl.flock(file, fcntl.LOCK_EX)
            json.dump(note._asdict(), file)
            file.flush()
            path.replace(final)
            yield
        finally:
            _remove(path)
            _remove(final)


def skipped(packages: Sequence[Package], say: Callable[[str], object]) -> dict[Package, str]:
    """Return which of some packages are skipped, and why, once earlier crashes are looked into.

    ``say`` is given a sentence about each crash. A note of another package waits for who loads that.
    """
    past = _Past(packages, say)
    for path in sorted(_folder().glob("loading-*.json")):
        if file := _abandoned(path):
            with file:
                note = _parsed(file)
                if note is None or past.settled(note):
                    _remove(path)
    return {
        package: f"it killed the interpreter; edit-harness plugins --enable {package.name}"
        for package in packages
        if past.skips(package)
    }


class _Past:
    """What became of earlier imports of some packages."""

    def __init__(self, packages: Sequence[Package], say: Callable[[str], object]) -> None:
        self.packages, self.say = packages, say
        self.stamps = _read()
        self.tried: dict[Package, alone.Trial] = {}

    def skips(self, package: Package) -> bool:
        """Tell whether a package killed the interpreter, and has the same files."""
        known = self.stamps.get(normal(package.name))
        return known is not None and known == _stamp(package)

    def settled(self, note: Note) -> bool:
        """Say what a note shows, and skip its package if need be; False if the note must stay."""
        died = f"an earlier process died while loading {note}"
        if note.component:
            self.say(died)
            return True
        named = [p for p in self.packages if normal(p.name) == normal(note.name)]
        if not named:
            return False
        for package in named:
            if note.stamp == _stamp(package):
                return self.skips(package) or self._settled_by_trial(package, died)
        self.say(f"{died}; its files are others now")
        return True

    def _settled_by_trial(self, package: Package, died: str) -> bool:
        if package not in self.tried:
            self.tried[package] = alone.tried(package)
        trial = self.tried[package]
        if not trial.fatal:
            self.say(f"{died}; " + (f"alone: {trial}" if trial.reason else "alone it loads"))
            return True
        trouble = self._skip(package)
        self.say(f"{died}; alone it {trial}, so it is skipped{trouble}")
        return not trouble

    def _skip(self, package: Package) -> str:
        """Skip a package, and return why that holds for now only, or an empty text."""
        self.stamps[normal(package.name)] = _stamp(package)
        try:
            _write(self.stamps)
        except OSError as error:
            return f", this time: {_list()} cannot be written ({error.strerror})"
        return ""


def enable(name: str) -> None:
    """Load a package again. Raises `PluginError` if it is not skipped."""
    known = _read()
    if normal(name) not in known:
        raise PluginError(
            f"{name!r} is not skipped", f"skipped: {', '.join(sorted(known)) or 'nothing'}"
        )
    del known[normal(name)]
    _write(known)


def _abandoned(path: Path) -> IO[str] | None:
    """Return a note, opened and locked, if the process that left it is gone."""
    try:
        file = path.open("r+", encoding="utf-8")
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A process that goes on may have removed it in between, and its lock with it.
        if os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
    except OSError:
        pass
    file.close()
    return None


def _parsed(file: IO[str]) -> Note | None:
    """Return what a note says, or None if it is damaged."""
    try:
        said = json.load(file)
        texts = isinstance(said, dict) and all(isinstance(text, str) for text in said.values())
        return Note(**said) if texts else None
    except (OSError, TypeError, ValueError):
        return None


def _stamp(package: Package) -> str:
    """Return what changes when a file of a package does; empty while its files come and go."""
    try:
        return package.stamp
    except OSError:
        return ""


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _list() -> Path:
    return _folder() / "skipped.json"


def _read() -> dict[str, str]:
    """Return the stamps of skipped packages by name; a list that cannot be read is empty."""
    try:
        read: Any = json.loads(_list().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}


def _write(skipped: dict[str, str]) -> None:
    new = _folder() / f"skipped-{uuid.uuid4().hex}"
    try:
        new.write_text(json.dumps(skipped), encoding="utf-8")
        new.replace(_list())
    finally:
        _remove(new)
