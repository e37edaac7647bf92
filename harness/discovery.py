"""Which packages count: what is installed and what is named, as the environment says.

The environment, so that child processes and workers have the same plugins:

``EDIT_HARNESS_PLUGINS``       only these distributions; unset is all, empty is none
``EDIT_HARNESS_BLOCK``         not these distributions
``EDIT_HARNESS_PLUGIN_FILES``  modules that are not installed
``EDIT_HARNESS_INCLUDE_PATH``  folders of such modules, or of the sources of a package
"""

from __future__ import annotations

import os
from pathlib import Path

from edit_harness.packages import Package, installed, normal
from edit_harness.uninstalled import in_folder, of_file

ONLY, BLOCK = "EDIT_HARNESS_PLUGINS", "EDIT_HARNESS_BLOCK"
FILES, FOLDERS = "EDIT_HARNESS_PLUGIN_FILES", "EDIT_HARNESS_INCLUDE_PATH"


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
