"""Which packages count: what is installed and what is named, as the environment says.

Flags go into the environment while a command runs, so that child processes and workers have the same
plugins:

``EDIT_HARNESS_PLUGINS``       only these distributions; unset is all, empty is none
``EDIT_HARNESS_BLOCK``         not these distributions
``EDIT_HARNESS_PLUGIN_FILES``  modules that are not installed
``EDIT_HARNESS_INCLUDE_PATH``  folders of such modules, or of the sources of a package
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import PluginError, UsageError
from .guard import note
from .packages import Package, installed, normal
from .sources import FileEntry, in_folder, of_file

if TYPE_CHECKING:
    from .registry import Plugins

ONLY, BLOCK = "EDIT_HARNESS_PLUGINS", "EDIT_HARNESS_BLOCK"
FILES, FOLDERS = "EDIT_HARNESS_PLUGIN_FILES", "EDIT_HARNESS_INCLUDE_PATH"


def found() -> list[Package]:
    """Return the packages that the environment names, then those that are installed, by name.

    A named package hides an installed one of the same name, and counts once if it is named twice.
    Raises `UsageError` for a file or a folder that is of no use, and for two sources of one distribution.
    """
    named = {package.source: package for path in _paths(FILES) for package in [of_file(Path(path))]}
    for folder in _paths(FOLDERS):  # of a file that is in one of them, the folder says more
        named |= {package.source: package for package in in_folder(Path(folder))}
    sources: dict[str, Package] = {}
    for package in named.values():
        if any(isinstance(entry, FileEntry) for entry in package.entries):
            continue  # files may have one name in several folders
        if (other := sources.setdefault(normal(package.name), package)) is not package:
            raise UsageError(
                f"two folders are sources of {package.name}: {other.source}, {package.source}",
                "name one of them",
            )
    hidden = {normal(package.name) for package in named.values()}
    return [*named.values(), *(p for p in installed() if normal(p.name) not in hidden)]


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
    """Put flags into the environment for a while; what is not given stays as the environment says.

    Raises `UsageError` for a path that the environment cannot hold.
    """
    said = {
        FILES: os.pathsep.join(map(_absolute, plugin)),
        FOLDERS: os.pathsep.join(map(_absolute, include_path)),
        ONLY: ",".join(only),
        BLOCK: ",".join(block),
    }
    given = {name: value for name, value in said.items() if value}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        known = {normal(package.name) for package in installed()} if only or block else set()
        for name in (*only, *block):
            if normal(name) not in known:
                note(f"nothing that is installed has plugins and is called {name}")
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({} if value is None else {name: value})


def _absolute(path: str) -> str:
    """Return a path that holds wherever a child process runs."""
    if os.pathsep in (found := str(Path(path).absolute())):
        raise UsageError(
            f"{found} has a {os.pathsep!r}, which stands between paths", "name it otherwise"
        )
    return found


def check_required(plugins: Plugins, wanted: Sequence[str]) -> None:
    """Raise `PluginError` unless distributions are there as they are wanted, such as ``x==1.2``.

    One that brings plugins must also have been loaded. Raises `UsageError` for what is no requirement.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    there = {normal(package.name): package.version for package in plugins.packages}
    unloaded = {normal(out.package.name): out.reason for out in plugins.left_out}
    unloaded |= {normal(failure.distribution): str(failure) for failure in plugins.failures}
    for text in wanted:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            requirement = None
        if requirement is None or requirement.url or requirement.marker or requirement.extras:
            raise UsageError(
                f"{text!r} is no distribution with a version",
                'write --require "edit-harness-x==1.2"',
            )
        name = normal(requirement.name)
        with suppress(PackageNotFoundError):
            there.setdefault(name, version(name))
        found = there.get(name)
        if not found or not requirement.specifier.contains(found, prereleases=True):
            what = f"{found} is installed" if found else "not installed"
            raise PluginError(
                f"{requirement} is required, and {what}", f"pip install '{requirement}'"
            )
        if name in unloaded:
            raise PluginError(f"{requirement} is required, and not loaded", unloaded[name])
