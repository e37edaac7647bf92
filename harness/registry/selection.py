"""Which plugins a command has: what its flags say goes into the environment for as long as it runs.

So the command's own lookups, its child processes and its workers all have the same plugins; see
`edit_harness.registry.discovery` for the variables.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from ..errors import PluginError, UsageError
from . import discovery, guard, packages
from .plugins import Plugins


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
        discovery.FILES: os.pathsep.join(map(_absolute, plugin)),
        discovery.FOLDERS: os.pathsep.join(map(_absolute, include_path)),
        discovery.ONLY: ",".join(only),
        discovery.BLOCK: ",".join(block),
    }
    given = {name: value for name, value in said.items() if value}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        _note_unknown([*only, *block])
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _absolute(path: str) -> str:
    """Return a path that holds wherever a child process runs."""
    if os.pathsep in (found := str(Path(path).absolute())):
        raise UsageError(
            f"{found} has a {os.pathsep!r}, which stands between paths", "name it otherwise"
        )
    return found


def _note_unknown(names: Sequence[str]) -> None:
    if names:
        known = {packages.normal(package.name) for package in packages.installed()}
        for name in names:
            if packages.normal(name) not in known:
                guard.note(f"nothing that is installed has plugins and is called {name}")


def check_required(plugins: Plugins, wanted: Sequence[str]) -> None:
    """Raise `PluginError` unless distributions are there as they are wanted, such as ``x==1.2``.

    One that brings plugins must also have been loaded. Raises `UsageError` for what is no requirement.
    """
    for text in wanted:
        _check(plugins, _requirement(text))


def _requirement(text: str) -> Requirement:
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        requirement = None
    if requirement is None or requirement.url or requirement.marker or requirement.extras:
        raise UsageError(
            f"{text!r} is no distribution with a version", 'write --require "edit-harness-x==1.2"'
        )
    return requirement


def _check(plugins: Plugins, requirement: Requirement) -> None:
    name = packages.normal(requirement.name)
    remedy = f"pip install '{requirement}'"
    ours = [p for p in plugins.packages if packages.normal(p.name) == name]
    try:
        version = ours[0].version if ours else metadata.version(name)
    except metadata.PackageNotFoundError:
        raise PluginError(f"{requirement} is required, and not installed", remedy) from None
    if not version:
        raise PluginError(
            f"{requirement} is required, and {requirement.name} here has no version",
            "install it, or leave --require out",
        )
    if not requirement.specifier.contains(version, prereleases=True):
        raise PluginError(f"{requirement} is required, and {version} is installed", remedy)
    for out in plugins.left_out:
        if packages.normal(out.package.name) == name:
            raise PluginError(f"{requirement} is required, and left out", out.reason)
    for failure in plugins.failures:
        if packages.normal(failure.distribution) == name:
            raise PluginError(f"{requirement} is required, and broken", str(failure))
