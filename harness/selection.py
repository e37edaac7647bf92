"""Which plugins a command has: what its flags say goes into the environment for as long as it runs.

So the command's own lookups, its child processes and its workers all have the same plugins; see
`edit_harness.packages` for the variables.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from edit_harness import discovery, packages
from edit_harness.errors import PluginError, UsageError
from edit_harness.plugins import Plugins


@contextmanager
def chosen(
    *, plugin: Sequence[str], include_path: Sequence[str], only: str | None, block: str | None
) -> Iterator[None]:
    """Put flags into the environment for a while; what is not given stays as the environment says."""
    said = {
        discovery.FILES: _joined(plugin),
        discovery.FOLDERS: _joined(include_path),
        discovery.ONLY: only,
        discovery.BLOCK: block,
    }
    given = {name: value for name, value in said.items() if value is not None}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _joined(paths: Sequence[str]) -> str | None:
    """Return paths as one text that holds wherever a child process runs; None if there are none."""
    return os.pathsep.join(str(Path(path).absolute()) for path in paths) or None


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
    if requirement is None or requirement.url or requirement.marker:
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
    if not requirement.specifier.contains(version, prereleases=True):
        raise PluginError(f"{requirement} is required, and {version} is installed", remedy)
    for out in plugins.left_out:
        if packages.normal(out.package.name) == name:
            raise PluginError(f"{requirement} is required, and left out", out.reason)
    for failure in plugins.failures:
        if packages.normal(failure.distribution) == name:
            raise PluginError(f"{requirement} is required, and broken", str(failure))
