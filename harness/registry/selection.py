"""Which packages count: what is installed and what is named, as the environment says.

Flags go into the environment while a command runs, so that child processes and workers have the same
plugins:

``EDIT_HARNESS_PLUGINS``       only these distributions; unset is all, empty is none
``EDIT_HARNESS_BLOCK``         not these distributions
``EDIT_HARNESS_PLUGIN_FILES``  modules that are not installed
``EDIT_HARNESS_INCLUDE_PATH``  folders with the sources of a package
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .packages import Package, installed, normal
from .sources import of_file, of_sources

ONLY, BLOCK = "EDIT_HARNESS_PLUGINS", "EDIT_HARNESS_BLOCK"
FILES, FOLDERS = "EDIT_HARNESS_PLUGIN_FILES", "EDIT_HARNESS_INCLUDE_PATH"


def found() -> list[Package]:
    """Return the packages that the environment names, then those that are installed, by name.

    A named package hides an installed one of the same name, and counts once if it is named twice.
    Raises `UsageError` for a file or a folder that is of no use.
    """
    named = [of_file(Path(path)) for path in _paths(FILES)]
    named += [of_sources(Path(folder)) for folder in _paths(FOLDERS)]
    named = list({package.source: package for package in named}.values())
    hidden = {normal(package.name) for package in named}
    return [*named, *(p for p in installed() if normal(p.name) not in hidden)]


def left_out(package: Package) -> str:
    """Return which variable of the environment leaves out an installed package, or an empty text."""
    name = normal(package.name)
    lists = {v: [*map(normal, os.environ[v].split(","))] for v in (ONLY, BLOCK) if v in os.environ}
    if package.named:
        return ""
    if name in lists.get(BLOCK, ()):
        return f"{BLOCK} names it"
    return f"{ONLY} does not name it" if name not in lists.get(ONLY, [name]) else ""


def _paths(variable: str) -> list[str]:
    return [path for path in os.environ.get(variable, "").split(os.pathsep) if path]


@contextmanager
def chosen(
    *,
    plugin: Sequence[str],
    include_path: Sequence[str],
    only: Sequence[str],
    block: Sequence[str],
) -> Iterator[None]:
    """Put flags into the environment for a while; what is not given stays as the environment says."""
    said = {
        FILES: os.pathsep.join(os.path.abspath(path) for path in plugin),
        FOLDERS: os.pathsep.join(os.path.abspath(path) for path in include_path),
        ONLY: ",".join(only),
        BLOCK: ",".join(block),
    }
    given = {name: value for name, value in said.items() if value}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({} if value is None else {name: value})
