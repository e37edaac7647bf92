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

from .packages import Package, installed, normal, of_file, of_sources

ONLY, BLOCK = "EDIT_HARNESS_PLUGINS", "EDIT_HARNESS_BLOCK"
FILES, FOLDERS = "EDIT_HARNESS_PLUGIN_FILES", "EDIT_HARNESS_INCLUDE_PATH"


def found() -> list[Package]:
    """Return the packages that the environment names, then those that are installed, by name.

    A named package hides an installed one of the same name, and counts once if it is named twice.
    Raises `UsageError` for a file or a folder that is of no use.
    """
    named = [*map(of_file, _paths(FILES)), *map(of_sources, _paths(FOLDERS))]
    named = list({package.source: package for package in named}.values())
    hidden = {normal(package.name) for package in named}
    return [*named, *(p for p in installed() if normal(p.name) not in hidden)]


def left_out(package: Package) -> str:
    """Return which variable of the environment leaves out an installed package, or an empty text."""
    lists = {v: [*map(normal, os.environ[v].split(","))] for v in (ONLY, BLOCK) if v in os.environ}
    name = normal(package.name)
    if package.named or (name in lists.get(ONLY, [name]) and name not in lists.get(BLOCK, ())):
        return ""
    return f"{BLOCK} names it" if name in lists.get(BLOCK, ()) else f"{ONLY} does not name it"


def _paths(variable: str) -> list[Path]:
    return [Path(path) for path in os.environ.get(variable, "").split(os.pathsep) if path]


@contextmanager
def chosen(
    *, plugin: Sequence[str], include_path: Sequence[str], only: Sequence[str], block: Sequence[str]
) -> Iterator[None]:
    """Put flags into the environment for a while; what is not given stays as the environment says."""
    paths = {FILES: plugin, FOLDERS: include_path}
    flags = {name: os.pathsep.join(map(os.path.abspath, given)) for name, given in paths.items()}
    flags |= {ONLY: ",".join(only), BLOCK: ",".join(block)}
    before = {name: os.environ.pop(name, None) for name in flags}
    kept = {name: flags[name] or before[name] for name in flags}
    os.environ.update({name: value for name, value in kept.items() if value is not None})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({} if value is None else {name: value})
