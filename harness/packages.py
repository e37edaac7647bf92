"""What brings plugins along: an installed distribution, or a folder or a file that is not installed.

Here they are found, and identified by a digest of their files; `edit_harness.plugins` loads them. Entry
points are iterated here because pluggy's own loader drops a second distribution with an equal
entry-point name, and dies on the first broken plugin.

The environment says which count, so that child processes and workers have the same ones:

``EDIT_HARNESS_PLUGINS``       only these distributions; unset is all, empty is none
``EDIT_HARNESS_BLOCK``         not these distributions
``EDIT_HARNESS_PLUGIN_FILES``  modules that are not installed
``EDIT_HARNESS_INCLUDE_PATH``  folders of such modules, or of the sources of a package
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from edit_harness.errors import UsageError
from edit_harness.hookspecs import GROUP

ONLY, BLOCK = "EDIT_HARNESS_PLUGINS", "EDIT_HARNESS_BLOCK"
FILES, FOLDERS = "EDIT_HARNESS_PLUGIN_FILES", "EDIT_HARNESS_INCLUDE_PATH"

Contents = Iterable[tuple[str, Path]]


class Entry(Protocol):
    """One plugin of a package: an entry point, or a file."""

    @property
    def value(self) -> str:
        """The module's name."""

    def load(self) -> Any:
        """Import the module and return it."""


@dataclass(frozen=True, eq=False)
class Package:
    """A distribution, or what stands in for one."""

    name: str
    version: str
    """Empty for a file."""
    source: str
    """Where it is from: a folder of installed packages, an address, a file."""
    entries: Sequence[Entry]
    contents: Callable[[], Contents]
    """Returns its files, each with a name that does not depend on where it is installed."""

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the names and bytes of its files; the same installed and from its sources."""
        whole = hashlib.sha256()
        for name, path in sorted(self.contents()):
            whole.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
        return whole.hexdigest()

    @property
    def stamp(self) -> str:
        """What changes when a file does: of names, sizes and times, so that nothing need be read."""
        stats = [(name, path.stat()) for name, path in sorted(self.contents())]
        said = "".join(f"{name}\0{at.st_size}\0{at.st_mtime_ns}\n" for name, at in stats)
        return hashlib.sha256(said.encode()).hexdigest()

    @property
    def identity(self) -> dict[str, str]:
        """What the manifest of a run records."""
        return {
            "name": self.name,
            "version": self.version,
            "source": self.source,
            "digest": self.digest,
        }


@dataclass(frozen=True)
class FileEntry:
    """A plugin in a file that is not installed."""

    path: Path

    @property
    def value(self) -> str:
        """The module's name, which no installed module has."""
        return f"edit_harness_file_{re.sub(r'[^0-9a-zA-Z]', '_', str(self.path))}"

    def load(self) -> ModuleType:
        """Run the file once, and return it as a module."""
        if known := sys.modules.get(self.value):
            return known
        spec = importlib.util.spec_from_file_location(self.value, self.path)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[self.value] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[self.value]
            raise
        return module


def normal(name: str) -> str:
    """Return a distribution's name as package indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def found() -> list[Package]:
    """Return what was named in the environment, then what is installed, by name.

    What is named hides an installed distribution of the same name. Raises `UsageError` for a file or a
    folder that is of no use.
    """
    named = [of_file(Path(path)) for path in _paths(FILES)]
    for folder in _paths(FOLDERS):
        named += in_folder(Path(folder))
    hidden = {normal(package.name) for package in named}
    return named + [package for package in installed() if normal(package.name) not in hidden]


def left_out(package: Package) -> str:
    """Return which variable of the environment leaves out an installed package, or an empty text."""
    name = normal(package.name)
    if name in _names(BLOCK):
        return f"{BLOCK} names it"
    only = os.environ.get(ONLY)
    return f"{ONLY} does not name it" if only is not None and name not in _names(ONLY) else ""


def _names(variable: str) -> set[str]:
    return {normal(name) for name in os.environ.get(variable, "").split(",")}


def _paths(variable: str) -> list[str]:
    return [path for path in os.environ.get(variable, "").split(os.pathsep) if path]


def installed() -> Iterator[Package]:
    """Yield every distribution with entry points of ours; the first of a name on the path counts."""
    first = {normal(d.name): d for d in reversed(list(distributions())) if d.name}
    for name in sorted(first):
        if entries := list(first[name].entry_points.select(group=GROUP)):
            yield of_distribution(first[name], entries)


def of_distribution(distribution: Distribution, entries: Sequence[EntryPoint]) -> Package:
    """Return an installed distribution as a package."""

    def contents() -> Contents:
        # Only RECORD says what is installed; a checkout that was built in lists its sources instead.
        recorded = distribution.files if distribution.read_text("RECORD") else None
        named = [(str(f), Path(str(f.locate()))) for f in recorded or () if _counts(f.parts)]
        there = [(name, path) for name, path in named if path.is_file()]
        return there or _trees(_roots(distribution, entries))

    return Package(
        distribution.name, distribution.version, _origin(distribution), entries, contents
    )


def _counts(parts: Sequence[str]) -> bool:
    """Tell whether a recorded file is the package's own, rather than the installer's."""
    top = parts[0]
    ours = top != ".." and not top.startswith("__editable__") and not top.endswith(".pth")
    return ours and not top.endswith((".dist-info", ".egg-info")) and _is_source(parts)


def _is_source(parts: Sequence[str]) -> bool:
    return "__pycache__" not in parts and not parts[-1].endswith(".pyc")


def _origin(distribution: Distribution) -> str:
    """Return where a distribution was installed from (PEP 610), or else where it lies."""
    said = json.loads(distribution.read_text("direct_url.json") or "{}")
    if not said:
        return str(Path(str(distribution.locate_file(""))).resolve())
    if "vcs_info" in said:
        return f"{said['vcs_info']['vcs']}+{said['url']}@{said['vcs_info']['commit_id']}"
    editable = said.get("dir_info", {}).get("editable", False)
    return f"{said['url']} (editable)" if editable else str(said["url"])


def _roots(distribution: Distribution, entries: Iterable[Entry]) -> set[str]:
    """Return the names of a distribution's top-level modules."""
    listed = (distribution.read_text("top_level.txt") or "").split()
    return {*listed, *(entry.value.partition(":")[0].partition(".")[0] for entry in entries)}


def _trees(roots: Iterable[str]) -> Contents:
    """Yield the files of top-level modules, where Python would import them from."""
    for root in roots:
        spec = importlib.util.find_spec(root)
        if spec and spec.submodule_search_locations:
            for folder in spec.submodule_search_locations:
                yield from ((f"{root}/{name}", path) for name, path in _tree(Path(folder)))
        elif spec and spec.origin:
            yield Path(spec.origin).name, Path(spec.origin)


def _tree(folder: Path) -> Contents:
    for path in folder.rglob("*"):
        parts = path.relative_to(folder).parts
        if path.is_file() and _is_source(parts):
            yield "/".join(parts), path


def of_file(path: Path) -> Package:
    """Return a file as a package. Raises `UsageError` if it is no file."""
    if path.suffix != ".py" or not path.is_file():
        raise UsageError(
            f"{path} is no plugin: there is no such Python file", "name a file: --plugin mine.py"
        )
    path = path.resolve()
    return Package(path.name, "", str(path), [FileEntry(path)], lambda: [(path.name, path)])


def in_folder(folder: Path) -> list[Package]:
    """Return the package whose sources a folder has, or else its files that have hooks.

    The folder, or its ``src``, can be imported from then. Raises `UsageError` if there is nothing.
    """
    if not folder.is_dir():
        raise UsageError(
            f"there is no folder {folder}", "name a folder of plugins: --include-path DIR"
        )
    if project := _project(folder / "pyproject.toml"):
        return [_of_sources(folder.resolve(), project)]
    hooked = [
        p for p in sorted(folder.glob("*.py")) if "hookimpl" in p.read_text("utf-8", "replace")
    ]
    if not hooked:
        raise UsageError(
            f"{folder} has no plugin",
            "it takes Python files with hooks, or a pyproject.toml with entry points of edit_harness",
        )
    _importable(folder.resolve())
    return [of_file(path) for path in hooked]


def _project(pyproject: Path) -> dict[str, Any]:
    """Return what a package says of itself, or nothing if it has no entry points of ours."""
    try:
        project = tomllib.loads(pyproject.read_text("utf-8")).get("project", {})
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise UsageError(f"{pyproject} is no TOML: {error}") from None
    return project if GROUP in project.get("entry-points", {}) else {}


def _of_sources(folder: Path, project: dict[str, Any]) -> Package:
    root = folder / "src" if (folder / "src").is_dir() else folder
    _importable(root)
    values = project["entry-points"][GROUP]
    entries = [EntryPoint(name, value, GROUP) for name, value in sorted(values.items())]
    roots = {entry.value.partition(":")[0].partition(".")[0] for entry in entries}
    version = str(project.get("version", "0"))
    return Package(
        str(project["name"]), version, f"{folder} (sources)", entries, lambda: _trees(roots)
    )


def _importable(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
