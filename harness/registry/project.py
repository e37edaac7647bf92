"""What the ``pyproject.toml`` of a package that is not installed says of its plugins, checked."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..hookspecs import GROUP


@dataclass(frozen=True)
class Project:
    """A package with entry points of ours."""

    name: str
    version: str
    """Empty if its build backend finds it out."""
    entries: Sequence[EntryPoint]


def read(pyproject: Path) -> Project | None:
    """Return what a package says of itself, or None if it has no entry points of ours.

    Raises `UsageError`, which names the file, for what no package can say.
    """
    try:
        text = pyproject.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageError(f"{pyproject} cannot be read: {error}") from None
    try:
        said = _table(tomllib.loads(text), "project", "[project]")
        groups = _table(said, "entry-points", "[project.entry-points]")
        values = _table(groups, GROUP, f"[project.entry-points.{GROUP}]")
        return Project(_name(said), _version(said), _entries(values)) if values else None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{pyproject} is no TOML: {error}") from None
    except UsageError as error:
        raise UsageError(f"{pyproject}: {error.cause}", error.remedy) from None


def _table(said: Mapping[str, Any], key: str, called: str) -> Mapping[str, Any]:
    table = said.get(key, {})
    if not isinstance(table, dict):
        raise UsageError(f"{called} is no table", f"write {called} on a line of its own")
    return table


def _name(said: Mapping[str, Any]) -> str:
    name = said.get("name")
    if not isinstance(name, str) or not name.strip():
        raise UsageError("[project] has no name", 'it takes name = "edit-harness-x"')
    return name.strip()


def _version(said: Mapping[str, Any]) -> str:
    version = said.get("version", "")
    if not isinstance(version, str):
        raise UsageError(f"the version {version!r} is no text", 'it takes version = "0.1"')
    return version


def _entries(values: Mapping[str, Any]) -> list[EntryPoint]:
    remedy = 'it takes name = "package.module"'
    for name, value in values.items():
        if not isinstance(value, str):
            raise UsageError(f"the entry point {name!r} is no text", remedy)
        found = EntryPoint.pattern.match(value)
        parts = found["module"].split(".") if found else [""]
        if parts == ["__main__"] or not all(part.isidentifier() for part in parts):
            raise UsageError(f"the entry point {name!r} names no module: {value!r}", remedy)
    return [EntryPoint(name, value, GROUP) for name, value in sorted(values.items())]
