"""The files of a package that no installer has listed: found from its modules and where they lie.

Nothing is imported for that but namespace packages, which have no code. What an installer did list is
read in `edit_harness.registry.packages`.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Any

Contents = Iterable[tuple[str, Path]]
"""Files, each with a name that does not depend on where it is installed."""


class _Finder(ModuleFinder):
    """Looks beside a file of no package for what it imports from its package; running it says what is wrong."""

    def determine_parent(self, caller: Any, level: int = -1) -> Any:
        """Return the package that an import is relative to, or the module itself if it is in none."""
        try:
            return super().determine_parent(caller, level)
        except ImportError:
            return caller


def is_source(parts: Sequence[str]) -> bool:
    """Tell whether a file may be an author's: not compiled, nor hidden as a text editor's swap file."""
    hidden = any(part.startswith(".") for part in parts)
    return not hidden and "__pycache__" not in parts and not parts[-1].endswith(".pyc")


def trees(modules: Iterable[str]) -> Contents:
    """Yield the files of the packages of modules, where Python would import them from.

    In a ``src`` layout they are all modules of that folder. In a flat one they are those of the top-level
    modules that are given: which others belong to the package, only its build backend knows.
    """
    seen: set[Path] = set()
    for root, place in (found for module in modules for found in _places(module)):
        beside = _modules(place.parent) if _is_src(place.parent) else [(root, place)]
        for name, path in beside:
            if path not in seen:
                seen.add(path)
                yield from _files(name, path)


def python_files(folder: Path) -> Contents:
    """Yield the Python files in a folder, and below it those that can be imported from it."""
    for at, folders, files in os.walk(folder):
        below = Path(at).relative_to(folder).parts
        folders[:] = [name for name in folders if _is_package(Path(at, name))]
        for name in files:
            path, parts = Path(at, name), (*below, name)
            if path.suffix == ".py" and is_source(parts) and path.is_file():
                yield "/".join(parts), path


def with_imports(file: Path) -> Contents:
    """Yield a file and the modules that it imports from its own folder, and what these import from there.

    It is read off the code, so that an import by another name than one written there is not seen.
    """
    finder = _Finder([str(file.parent)])
    with suppress(SyntaxError):  # whoever runs it is told
        finder.run_script(str(file))
    files = [getattr(module, "__file__", None) for module in finder.modules.values()]
    for path in {file, *map(Path, filter(None, files))}:
        yield path.relative_to(file.parent).as_posix(), path


def _places(module: str) -> Iterator[tuple[str, Path]]:
    """Yield the name of a module's top-level package, and the folders or the file it is in."""
    root = module.partition(".")[0]
    spec = _spec(root)
    if spec is None:
        return
    if spec.submodule_search_locations is None:
        yield from [(root, Path(spec.origin))] if spec.has_location and spec.origin else []
        return
    folders = [Path(folder) for folder in spec.submodule_search_locations]
    inner = None if spec.has_location else _inner(module)
    # The folders of a namespace may belong to several packages.
    own = [folder for folder in folders if inner and inner.is_relative_to(folder)]
    yield from ((root, folder) for folder in own or folders)


def _inner(module: str) -> Path | None:
    """Return the file of a module in a namespace, or of the first package on the way to it."""
    parts = module.split(".")
    for depth in range(2, len(parts) + 1):
        spec = _spec(".".join(parts[:depth]))
        if spec is None or (spec.has_location and spec.origin):
            return Path(spec.origin) if spec and spec.origin else None
    return None


def _spec(module: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):  # no module, such as "" and "__main__"
        return None


def _is_src(folder: Path) -> bool:
    """Tell whether a folder has a project's modules and nothing else, as the usual ``src``."""
    return (folder.parent / "pyproject.toml").is_file() and not (folder / "pyproject.toml").exists()


def _modules(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.iterdir()):
        if _is_package(path) or (path.suffix == ".py" and path.is_file()):
            yield path.stem, path


def _is_package(path: Path) -> bool:
    """Tell whether a folder can be a package: not a virtual environment, for one."""
    named = path.name.isidentifier() and path.name != "__pycache__"
    return named and path.is_dir() and not (path / "pyvenv.cfg").exists()


def _files(name: str, path: Path) -> Contents:
    if path.is_file():
        yield path.name, path
        return
    for file in path.rglob("*"):
        parts = file.relative_to(path).parts
        if is_source(parts) and file.is_file():
            yield "/".join((name, *parts)), file
