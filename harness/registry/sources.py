"""Plugins that are not installed: a file, the sources of a package, a class in memory."""

from __future__ import annotations

import hashlib
import re
import sys
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint
from modulefinder import ModuleFinder
from pathlib import Path
from types import ModuleType
from uuid import uuid4

from ..errors import UsageError
from ..hookspecs import GROUP
from .packages import Contents, Package, digest_of, file_of, modules, roots_of

PREFIX = "edit_harness_file_"
UNVERSIONED = "unversioned"
"""What the digest of a class without a file begins with: nobody can tell what the class did."""


def _with_imports(file: Path) -> Contents:
    """Return a file and the modules that it imports from its own folder, and what these import from there."""
    finder = ModuleFinder([str(file.parent)])
    with suppress(SyntaxError, ImportError):  # whoever runs it is told
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
    """Of the file and of what it imports from beside it."""

    @property
    def value(self) -> str:
        """The module's name: no installed module has it, no other file, nor this one once it is changed."""
        stem = re.sub(r"[^0-9a-zA-Z]", "_", self.path.stem)
        own = hashlib.sha256(f"{self.path} {self.digest}".encode("utf-8", "surrogateescape"))
        return f"{PREFIX}{stem}_{own.hexdigest()[:12]}"

    def load(self) -> ModuleType:
        """Run the file once, and return it as a module."""
        if known := sys.modules.get(self.value):
            return known
        if (folder := str(self.path.parent)) not in sys.path:
            sys.path.append(folder)  # to stay, for what is imported later; behind what is installed
        module = ModuleType(self.value)
        module.__file__, module.__package__ = str(self.path), ""
        sys.modules[self.value] = module
        try:
            # Not by Python's loader, which may run what it compiled within the same second.
            exec(compile(self.path.read_bytes(), str(self.path), "exec"), vars(module))  # noqa: S102
        except BaseException:
            del sys.modules[self.value]
            raise
        return module


def of_file(path: Path) -> Package:
    """Return a file as a package, with what it imports from beside it. Raises `UsageError` if it is no file."""
    if path.suffix != ".py" or not path.is_file():
        raise UsageError(
            f"{path} is no plugin: there is no such Python file", "name a file: --plugin mine.py"
        )
    path = path.resolve()
    contents = partial(_with_imports, path)
    digest = digest_of(contents())
    entry = FileEntry(path, digest)
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


def of_sources(folder: Path) -> Package:
    """Return the package whose sources a folder has; the folder, or its ``src``, can be imported from then.

    Raises `UsageError` if its ``pyproject.toml`` has no name and entry points of ours.
    """
    file = folder.resolve() / "pyproject.toml"
    try:
        project = tomllib.loads(file.read_text("utf-8"))["project"]
        name, points = project["name"], sorted(project["entry-points"][GROUP].items())
        entries = [EntryPoint(str(entry), str(value), GROUP) for entry, value in points]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{file} is of no package with plugins ({type(error).__name__}: {error})",
            f"it takes a name and [project.entry-points.{GROUP}]; of a single file: --plugin FILE",
        ) from None
    roots = roots_of(entries)
    for root in sorted(roots):
        src = file.parent / "src"
        inside = (src / root).is_dir() or (src / f"{root}.py").is_file()
        if (place := str(src if inside else file.parent)) not in sys.path:
            sys.path.insert(0, place)
    version = str(project.get("version", ""))
    source = f"{file.parent} (sources{'' if version else ', version unknown'})"
    return Package(name, version, source, entries, roots, partial(modules, roots), named=True)
