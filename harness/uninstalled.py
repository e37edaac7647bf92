"""Plugins that are not installed: a file, a folder of files, or the sources of a package."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
import tomllib
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

from edit_harness.errors import UsageError
from edit_harness.hookspecs import GROUP
from edit_harness.packages import Package, roots_of, trees


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


def of_file(path: Path) -> Package:
    """Return a file as a package. Raises `UsageError` if it is no file."""
    if path.suffix != ".py" or not path.is_file():
        raise UsageError(
            f"{path} is no plugin: there is no such Python file", "name a file: --plugin mine.py"
        )
    path = path.resolve()
    entry = FileEntry(path)
    roots, contents = roots_of([entry]), lambda: [(path.name, path)]
    return Package(path.name, "", str(path), [entry], roots, contents, named=True)


def of_class(kind: type) -> Package | None:
    """Return the file of a class as a package; None if it has none, as in a notebook."""
    try:
        path = Path(inspect.getfile(kind))
    except (TypeError, OSError):
        return None
    return Package(path.name, "", str(path), [], frozenset(), lambda: [(path.name, path)])


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
    roots = roots_of(entries)
    version = str(project.get("version", "0"))
    name, source = str(project["name"]), f"{folder} (sources)"
    return Package(name, version, source, entries, roots, lambda: trees(roots), named=True)


def _importable(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
