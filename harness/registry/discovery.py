"""Which packages count: what is installed and what is named, as the environment says.

The environment, so that child processes and workers have the same plugins:

``EDIT_HARNESS_PLUGINS``       only these distributions; unset is all, empty is none
``EDIT_HARNESS_BLOCK``         not these distributions
``EDIT_HARNESS_PLUGIN_FILES``  modules that are not installed
``EDIT_HARNESS_INCLUDE_PATH``  folders of such modules, or of the sources of a package
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ..errors import UsageError
from .packages import Package, installed, normal
from .uninstalled import FileEntry, in_folder, of_file

ONLY, BLOCK = "EDIT_HARNESS_PLUGINS", "EDIT_HARNESS_BLOCK"
FILES, FOLDERS = "EDIT_HARNESS_PLUGIN_FILES", "EDIT_HARNESS_INCLUDE_PATH"


def found() -> list[Package]:
    """Return what was named in the environment, then what is installed, by name.

    What is named hides an installed distribution of the same name, and what is named twice counts once.
    Raises `UsageError` for a file or a folder that is of no use, and for two sources of one distribution.
    """
    named = {package.source: package for path in _paths(FILES) for package in [of_file(Path(path))]}
    for folder in _paths(FOLDERS):  # of a file that is in one of them, the folder says more
        named |= {package.source: package for package in in_folder(Path(folder))}
    _check_sources(named.values())
    hidden = {normal(package.name) for package in named.values()}
    return [*named.values(), *(p for p in installed() if normal(p.name) not in hidden)]


def _check_sources(named: Iterable[Package]) -> None:
    first: dict[str, Package] = {}
    for package in named:
        if any(isinstance(entry, FileEntry) for entry in package.entries):
            continue  # files may have one name in several folders
        other = first.setdefault(normal(package.name), package)
        if other is not package:
            raise UsageError(
                f"two folders are sources of {package.name}: {other.source}, {package.source}",
                "name one of them",
            )


def left_out(package: Package) -> str:
    """Return which variable of the environment leaves out an installed package, or an empty text."""
    if package.named:
        return ""
    name = normal(package.name)
    if name in _names(BLOCK):
        return f"{BLOCK} names it"
    only = os.environ.get(ONLY)
    return f"{ONLY} does not name it" if only is not None and name not in _names(ONLY) else ""


def _names(variable: str) -> set[str]:
    return {normal(name) for name in os.environ.get(variable, "").split(",")}


def _paths(variable: str) -> list[str]:
    return [path for path in os.environ.get(variable, "").split(os.pathsep) if path]
