"""Plugins that are not installed: a file, a folder of files, the sources of a package, a class in memory."""

from __future__ import annotations

import hashlib
import re
import sys
import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import EntryPoint
from modulefinder import ModuleFinder
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

from ..errors import UsageError
from ..hookspecs import GROUP
from .packages import (
    Contents,
    Package,
    digest_of,
    file_of,
    files_below,
    is_source,
    modules,
    roots_of,
)

PREFIX = "edit_harness_file_"
UNVERSIONED = "unversioned"
"""What the digest of a class without a file begins with: nobody can tell what the class did."""
_ran: dict[Path, str] = {}
"""The digest under which a folder's files, or a file, ran last in this process."""


class _Finder(ModuleFinder):
    """Looks beside a file of no package for what it imports from its package; running it says what is wrong."""

    def determine_parent(self, caller: Any, level: int = -1) -> Any:
        """Return the package that an import is relative to, or the module itself if it is in none."""
        try:
            return super().determine_parent(caller, level)
        except ImportError:
            return caller


def _with_imports(file: Path) -> Contents:
    """Return a file and the modules that it imports from its own folder, and what these import from there."""
    finder = _Finder([str(file.parent)])
    with suppress(SyntaxError):  # whoever runs it is told
        finder.run_script(str(file))
    files = [getattr(module, "__file__", None) for module in finder.modules.values()]
    return [
        (path.relative_to(file.parent).as_posix(), path)
        for path in {file, *map(Path, filter(None, files))}
    ]


@dataclass(frozen=True)
class FileEntry:
    """A plugin in a file that is not installed."""

    path: Path
    """Absolute, links followed."""
    digest: str
    """Of all files that it is taken to be made of."""
    source: bytes = field(repr=False)
    """The bytes of the file; these run."""
    root: Path
    """The folder that was named, or the file itself."""
    contents: Callable[[], Contents] = field(repr=False)
    """Returns all these files."""

    @property
    def value(self) -> str:
        """The module's name: no installed module has it, no other file, nor this one once it is changed."""
        stem = re.sub(r"[^0-9a-zA-Z]", "_", self.path.stem)
        place = hashlib.sha256(str(self.path).encode("utf-8", "surrogateescape")).hexdigest()
        return f"{PREFIX}{stem}_{place[:12]}_{self.digest[:12]}"

    def load(self) -> ModuleType:
        """Run the file once, and return it as a module."""
        if known := sys.modules.get(self.value):
            return known
        self._forget_changed()
        if (folder := str(self.path.parent)) not in sys.path:
            sys.path.append(folder)  # to stay, for what is imported later; behind what is installed
        module = ModuleType(self.value)
        module.__file__, module.__package__ = str(self.path), ""
        sys.modules[self.value] = module
        try:
            # Not by Python's loader, which may run what it compiled within the same second.
            exec(compile(self.source, str(self.path), "exec"), vars(module))  # noqa: S102
        except BaseException:
            del sys.modules[self.value]
            raise
        return module

    def _forget_changed(self) -> None:
        """Have the modules beside it imported anew, if they have changed since it ran."""
        if _ran.setdefault(self.root, self.digest) != self.digest:
            files = {path.resolve() for _, path in self.contents()}
            for name, module in list(sys.modules.items()):
                file = getattr(module, "__file__", None)
                kept = name == "__main__" or name.startswith(PREFIX)
                if file and not kept and Path(file).resolve() in files:
                    del sys.modules[name]
        _ran[self.root] = self.digest


def of_file(path: Path, folder: Path | None = None) -> Package:
    """Return a file as a package, with what it may import from a folder. Raises `UsageError` if it is no file.

    Without a folder its code is that of the file and of what it imports from beside it.
    """
    if path.suffix != ".py" or not path.is_file():
        raise UsageError(
            f"{path} is no plugin: there is no such Python file", "name a file: --plugin mine.py"
        )
    path = path.resolve()
    contents: Callable[[], Contents] = partial(_with_imports, path)
    if folder:
        contents = lambda: files_below(folder, "", ".py").items()
    digest = digest_of(contents())
    entry = FileEntry(path, digest, path.read_bytes(), folder or path, contents)
    roots = frozenset([entry.value])
    return Package(path.name, "", str(path), [entry], roots, contents, named=True, code=digest)


def of_class(kind: type) -> Package:
    """Return the file of a class as a package, or the class itself if it has none, as in a notebook.

    Nobody can tell whether such a class still does the same, so it is another each time.
    """
    if path := file_of(kind):
        return Package(path.name, "", str(path), [], frozenset(), partial(_with_imports, path))
    code = f"{UNVERSIONED} {uuid4().hex}"
    return Package(kind.__qualname__, "", "in memory", [], frozenset(), list, code=code)


def in_folder(folder: Path) -> list[Package]:
    """Return the package whose sources a folder has, or else its files that have hooks.

    The folder, or its ``src``, can be imported from then. Raises `UsageError` if there is nothing.
    """
    if not folder.is_dir():
        raise UsageError(
            f"there is no folder {folder}", "name a folder of plugins: --include-path DIR"
        )
    folder = folder.resolve()
    if package := _of_sources(folder):
        return [package]
    files = [p for p in sorted(folder.glob("*.py")) if p.is_file() and is_source([p.name])]
    hooked = [p for p in files if b"hookimpl" in p.read_bytes()]
    if not hooked:
        raise UsageError(
            f"{folder} has no plugin",
            "it takes Python files with hooks, or a pyproject.toml with entry points of edit_harness",
        )
    _importable(folder)
    return [of_file(path, folder) for path in hooked]


def _of_sources(folder: Path) -> Package | None:
    """Return the package whose sources a folder has; None if it has no entry points of ours.

    Raises `UsageError`, which names the file, for a ``pyproject.toml`` that is no package's.
    """
    file = folder / "pyproject.toml"
    try:
        tables = [tomllib.loads(file.read_text("utf-8"))]
    except FileNotFoundError:
        return None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file} is no TOML: {error}") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from None
    keys = ("project", "entry-points", GROUP)
    for depth, key in enumerate(keys, 1):
        tables.append(tables[-1].get(key, {}))
        if not isinstance(tables[-1], dict):
            called = f"[{'.'.join(keys[:depth])}]"
            raise UsageError(
                f"{file}: {called} is no table", f"write {called} on a line of its own"
            )
    if not tables[3]:
        return None
    name, version, values = tables[1].get("name"), tables[1].get("version", ""), tables[3].values()
    if not name or not all(isinstance(text, str) for text in (name, version, *values)):
        raise UsageError(
            f"{file}: the name, the version and the entry points of a package are texts",
            'it takes name = "edit-harness-x", version = "0.1", x = "package.module"',
        )
    entries = [EntryPoint(*entry, GROUP) for entry in sorted(tables[3].items())]
    roots = roots_of(entries)
    for root in sorted(roots):
        src = folder / "src"
        _importable(src if (src / root).is_dir() or (src / f"{root}.py").is_file() else folder)
    source = f"{folder} (sources{'' if version else ', version unknown'})"
    contents = partial(modules, roots)
    return Package(name.strip(), version, source, entries, roots, contents, named=True)


def _importable(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
