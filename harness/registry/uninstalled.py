"""Plugins that are not installed: a file, a folder of files, the sources of a package, a class in memory.

What the ``pyproject.toml`` of sources says is read in `edit_harness.registry.project`.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from uuid import uuid4

from ..errors import UsageError
from . import project
from .contents import Contents, is_source, python_files, trees, with_imports
from .packages import Package, digest_of, file_of, modules_of, roots_of

PREFIX = "edit_harness_file_"
UNVERSIONED = "unversioned"
"""What the digest begins with of a class that no file has: nobody can tell what it did."""
_ran: dict[Path, str] = {}
"""The digest under which a folder's files, or a file, ran last in this process."""


class _AsRead(SourceFileLoader):
    """Runs what was read, where Python's own loader may run what it compiled within the same second."""

    def __init__(self, name: str, path: Path, source: bytes) -> None:
        super().__init__(name, str(path))
        self.source = source

    def get_code(self, fullname: str) -> CodeType:
        """Compile what was read."""
        return self.source_to_code(self.source, self.path)


@dataclass(frozen=True)
class FileEntry:
    """A plugin in a file that is not installed."""

    path: Path
    """Absolute, links followed."""
    digest: str
    """Of all files that it is taken to be made of."""
    source: bytes = field(repr=False)
    """What the file has in it; this is what runs."""
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
        self._refresh()
        if (folder := str(self.path.parent)) not in sys.path:
            sys.path.append(folder)  # to stay, for what is imported later; behind what is installed
        loader = _AsRead(self.value, self.path, self.source)
        spec = spec_from_file_location(self.value, self.path, loader=loader)
        assert spec
        module = module_from_spec(spec)
        sys.modules[self.value] = module
        try:
            loader.exec_module(module)
        except BaseException:
            del sys.modules[self.value]
            raise
        return module

    def _refresh(self) -> None:
        """Have the modules beside it imported anew, if they have changed since it ran."""
        files = {path.resolve() for _, path in self.contents()}
        if _ran.setdefault(self.root, self.digest) != self.digest:
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
    contents = partial(python_files, folder) if folder else partial(with_imports, path)
    digest = digest_of(contents())
    entry = FileEntry(path, digest, path.read_bytes(), folder or path, contents)
    roots = roots_of([entry])
    return Package(path.name, "", str(path), [entry], roots, contents, named=True, code=digest)


def of_class(kind: type) -> Package:
    """Return the file of a class as a package, or the class itself if it has none, as in a notebook.

    Nobody can tell whether such a class still does the same, so it is another each time.
    """
    if path := file_of(kind):
        return Package(path.name, "", str(path), [], frozenset(), partial(with_imports, path))
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
    if said := project.read(folder / "pyproject.toml"):
        return [_of_sources(folder, said)]
    files = [p for p in sorted(folder.glob("*.py")) if p.is_file() and is_source([p.name])]
    hooked = [p for p in files if b"hookimpl" in p.read_bytes()]
    if not hooked:
        raise UsageError(
            f"{folder} has no plugin",
            "it takes Python files with hooks, or a pyproject.toml with entry points of edit_harness",
        )
    _importable(folder)
    return [of_file(path, folder) for path in hooked]


def _of_sources(folder: Path, said: project.Project) -> Package:
    modules, roots = modules_of(said.entries), roots_of(said.entries)
    for root in sorted(roots):
        src = folder / "src"
        _importable(src if (src / root).is_dir() or (src / f"{root}.py").is_file() else folder)
    source = f"{folder} (sources)" if said.version else f"{folder} (sources, version unknown)"
    return Package(
        said.name, said.version, source, said.entries, roots, lambda: trees(modules), named=True
    )


def _importable(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
