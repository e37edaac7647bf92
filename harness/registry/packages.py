"""What brings plugins along: installed distributions, files, classes; and which of them count.

A package is identified by its files. Flags go into the environment while a command runs, so that child
processes and workers have the same plugins:

``EDIT_HARNESS_PLUGINS``       only these distributions; unset is all, empty is none
``EDIT_HARNESS_BLOCK``         not these distributions
``EDIT_HARNESS_PLUGIN_FILES``  modules that are not installed
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import Distribution, EntryPoint, distribution, distributions
from modulefinder import ModuleFinder
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from uuid import uuid4

from ..errors import UsageError
from ..hookspecs import GROUP

ONLY, BLOCK = "EDIT_HARNESS_PLUGINS", "EDIT_HARNESS_BLOCK"
FILES = "EDIT_HARNESS_PLUGIN_FILES"
Contents = Iterable[tuple[str, Path]]
"""Files, each with a name that does not depend on where it is installed."""
UNVERSIONED = "unversioned"
"""What the digest of a class without a file begins with: nobody can tell what the class did."""


@dataclass(frozen=True, eq=False)
class Package:
    """A distribution, or what stands in for one."""

    name: str
    version: str
    """Empty for a file."""
    source: str
    """Where it is from: a folder of installed packages, an address, a file."""
    contents: Callable[[], Contents]
    """Returns its files."""
    entries: Sequence[Any] = ()
    """Its plugins: entry points, or what has their ``value``, the module's name, and ``load``."""
    named: bool = False
    """Whether the user named the file, so that no list of distributions is about it."""
    code: str = ""
    """Its digest, if that had to be taken before it ran, or if it has no files."""

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the names and bytes of its files; the same of a wheel and of an editable install."""
        return self.code or digest_of(self.contents())

    @cached_property
    def files(self) -> frozenset[Path]:
        """Where its files are, links followed."""
        return frozenset(path.resolve() for _, path in self.contents())

    @property
    def identity(self) -> dict[str, str]:
        """What the manifest of a run records."""
        return {each: getattr(self, each) for each in ("name", "version", "source", "digest")}


def normal(name: str) -> str:
    """Return a distribution's name as package indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def digest_of(contents: Contents) -> str:
    """Return the SHA-256 of the names and bytes of files."""
    whole = hashlib.sha256()
    for name, path in sorted(contents):
        line = f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n"
        whole.update(line.encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def found() -> list[Package]:
    """Return the packages that the environment names, each once, then those that are installed, by name.

    Of two distributions of one name the first on the path counts; pluggy's own loader would drop one whose
    entry points are called like another's. Raises `UsageError` for a file that is of no use.
    """
    paths = filter(None, os.environ.get(FILES, "").split(os.pathsep))
    named = {package.source: package for package in (_of_file(Path(path)) for path in paths)}
    # A name is read from a distribution's metadata, which takes long: only of those with entry points.
    names = {normal(d.name) for d in distributions() if d.entry_points.select(group=GROUP)}
    first = [
        (each, each.entry_points.select(group=GROUP)) for each in map(distribution, sorted(names))
    ]
    return [*named.values(), *(_of_distribution(each, [*own]) for each, own in first if own)]


def left_out(package: Package) -> str:
    """Return which variable of the environment leaves out an installed package, or an empty text."""
    lists = {v: [*map(normal, os.environ[v].split(","))] for v in (ONLY, BLOCK) if v in os.environ}
    name = normal(package.name)
    if package.named:
        return ""
    if name in lists.get(BLOCK, ()):
        return f"{BLOCK} names it"
    return f"{ONLY} does not name it" if name not in lists.get(ONLY, [name]) else ""


def _of_distribution(distribution: Distribution, entries: Sequence[EntryPoint]) -> Package:
    address: dict[str, Any] = {}
    with suppress(ValueError):  # what an installer noted about where it is from (PEP 610)
        address = json.loads(distribution.read_text("direct_url.json") or "{}")
    editable = address.get("dir_info", {}).get("editable", False)
    roots = {re.split("[.:]", entry.value.strip())[0].strip() for entry in entries}
    roots |= {*(distribution.read_text("top_level.txt") or "").split()}
    source = address.get("url") or str(Path(str(distribution.locate_file(""))).resolve())
    if revision := address.get("vcs_info"):
        source = f"{revision['vcs']}+{source}@{revision['commit_id']}"
    source += " (editable)" if editable else ""
    contents = partial(_modules, sorted(roots))
    return Package(distribution.name, distribution.version, source, contents, entries)


def _modules(roots: Iterable[str]) -> Contents:
    """Return the files of top-level modules, where Python would import them from, named from their module on.

    Compiled files and hidden ones, such as a text editor's swap file, are none.
    """
    files: dict[str, Path] = {}
    for root in roots:
        try:
            spec = importlib.util.find_spec(root)
        except (ImportError, ValueError, AttributeError):  # no module, such as "" and "__main__"
            continue
        own = [spec.origin] if spec and spec.has_location else []
        for place in map(Path, (spec and spec.submodule_search_locations) or filter(None, own)):
            for path in [place] if place.is_file() else place.rglob("*"):
                name = path.relative_to(place.parent)
                hidden = any(part == "__pycache__" or part.startswith(".") for part in name.parts)
                if path.is_file() and not hidden and name.suffix != ".pyc":
                    files[name.as_posix()] = path
    return files.items()


def _with_imports(file: Path) -> Contents:
    """Return a file and the modules that it imports from its own folder, and what these import from there."""
    finder = ModuleFinder([str(file.parent)])
    with suppress(SyntaxError, ImportError):  # whoever runs it is told
        finder.run_script(str(file))
    files = [getattr(module, "__file__", None) for module in finder.modules.values()]
    parts = {file, *map(Path, filter(None, files))}
    return [(path.relative_to(file.parent).as_posix(), path) for path in parts]


def _of_file(path: Path) -> Package:
    """Return a file as a package, with what it imports from beside it. Raises `UsageError` if it is no file."""
    if path.suffix != ".py" or not path.is_file():
        raise UsageError(
            f"{path} is no plugin: there is no such Python file", "name a file: --plugin mine.py"
        )
    path = path.resolve()
    contents = partial(_with_imports, path)
    digest = digest_of(contents())
    # No installed module has this name, no other file, nor this one once it is changed.
    own = hashlib.sha256(f"{path} {digest}".encode("utf-8", "surrogateescape")).hexdigest()
    name = f"edit_harness_file_{re.sub('[^0-9a-zA-Z]', '_', path.stem)}_{own[:12]}"
    entry = SimpleNamespace(value=name, load=partial(_run, path, name))
    return Package(path.name, "", str(path), contents, [entry], named=True, code=digest)


def _run(path: Path, name: str) -> ModuleType:
    """Run a file once, and return it as a module of that name."""
    if known := sys.modules.get(name):
        return known
    if (folder := str(path.parent)) not in sys.path:
        sys.path.append(folder)  # to stay, for what is imported later; behind what is installed
    module = ModuleType(name)
    module.__file__, module.__package__ = str(path), ""
    sys.modules[name] = module
    try:
        # Not by Python's loader, which may run what it compiled within the same second.
        exec(compile(path.read_bytes(), str(path), "exec"), vars(module))  # noqa: S102
    except BaseException:
        del sys.modules[name]
        raise
    return module


def file_of(kind: type) -> Path | None:
    """Return the file that a class is from, links followed; None if none has it, as in a notebook."""
    with suppress(TypeError, OSError):
        path = Path(inspect.getfile(kind)).resolve()
        return path if path.is_file() else None
    return None


def of_class(kind: type) -> Package:
    """Return the file of a class as a package; the class itself if it has none, another each time."""
    if path := file_of(kind):
        return Package(path.name, "", str(path), partial(_with_imports, path))
    return Package(kind.__qualname__, "", "in memory", list, code=f"{UNVERSIONED} {uuid4().hex}")
