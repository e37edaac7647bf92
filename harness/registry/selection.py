"""Which packages count: what is installed and what is named, as the environment says.

Flags go into the environment while a command runs, so that child processes and workers have the same
plugins:

``EDIT_HARNESS_PLUGINS``       only these distributions; unset is all, empty is none
``EDIT_HARNESS_BLOCK``         not these distributions
``EDIT_HARNESS_PLUGIN_FILES``  modules that are not installed
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .packages import Package, installed, normal, of_file

ONLY, BLOCK = "EDIT_HARNESS_PLUGINS", "EDIT_HARNESS_BLOCK"
FILES = "EDIT_HARNESS_PLUGIN_FILES"


def found() -> list[Package]:
    """Return the packages that the environment names, each once, then those that are installed, by name.

    Raises `UsageError` for a file that is of no use.
    """
    paths = filter(None, os.environ.get(FILES, "").split(os.pathsep))
    named = {package.source: package for package in (of_file(Path(path)) for path in paths)}
    return [*named.values(), *installed()]


def left_out(package: Package) -> str:
    """Return which variable of the environment leaves out an installed package, or an empty text."""
    lists = {v: [*map(normal, os.environ[v].split(","))] for v in (ONLY, BLOCK) if v in os.environ}
    name = normal(package.name)
    if package.named:
        return ""
    if name in lists.get(BLOCK, ()):
        return f"{BLOCK} names it"
    return f"{ONLY} does not name it" if name not in lists.get(ONLY, [name]) else ""


@contextmanager
def chosen(
    *, plugin: Sequence[str] = (), only: Sequence[str] = (), block: Sequence[str] = ()
) -> Iterator[None]:
    """Put flags into the environment for a while; what is not given stays as the environment says."""
    files = os.pathsep.join(map(os.path.abspath, plugin))
    flags = {FILES: files, ONLY: ",".join(only), BLOCK: ",".join(block)}
    given = {name: value for name, value in flags.items() if value}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({} if value is None else {name: value})
