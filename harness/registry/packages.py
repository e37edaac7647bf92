"""What brings plugins along: installed distributions and what stands in for one, identified by their files.

`edit_harness.registry.sources` has what is not installed, `edit_harness.registry.selection` says which
packages count, and `edit_harness.registry.registry` loads them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import Distribution, EntryPoint, distribution, distributions
from pathlib import Path
from typing import Any

from ..hookspecs import GROUP

Contents = Iterable[tuple[str, Path]]
"""Files, each with a name that does not depend on where it is installed."""


@dataclass(frozen=True, eq=False)
class Package:
    """A distribution, or what stands in for one."""

    name: str
    version: str
    """Empty for a file, and for sources that do not name it."""
    source: str
    """Where it is from: a folder of installed packages, an address, a file."""
    entries: Sequence[Any]
    """Its plugins: entry points, or what has their ``value``, the module's name, and ``load``."""
    roots: frozenset[str]
    """Its top-level modules, as far as it names them."""
    contents: Callable[[], Contents]
    """Returns its files."""
    named: bool = False
    """Whether the user named the file or folder, so that no list of distributions is about it."""
    code: str = ""
    """Its digest, if that had to be taken before it ran, or if it has no files."""

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the names and bytes of its files; the same installed and from its sources."""
        return self.code or digest_of(self.contents())

    @cached_property
    def files(self) -> frozenset[Path]:
        """Where its files are, links followed."""
        return frozenset(path.resolve() for _, path in self.contents())

    @property
    def identity(self) -> dict[str, str]:
        """What the manifest of a run records."""
        return {
            "name": self.name,
            "version": self.version,
            "source": self.source,
            "digest": self.digest,
        }


def normal(name: str) -> str:
    """Return a distribution's name as package indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def installed() -> Iterator[Package]:
    """Yield every distribution with entry points of ours; the first of a name on the path counts.

    pluggy's own loader drops a second distribution with an equal entry-point name, and dies on the
    first broken plugin.
    """
    # A name is read from a distribution's metadata, which takes long: only of those with entry points.
    names = {normal(d.name) for d in distributions() if d.entry_points.select(group=GROUP)}
    for first in map(distribution, sorted(names)):
        if entries := list(first.entry_points.select(group=GROUP)):
            yield _of_distribution(first, entries)


def _of_distribution(distribution: Distribution, entries: Sequence[EntryPoint]) -> Package:
    said = _direct_url(distribution)
    editable = said.get("dir_info", {}).get("editable", False)
    roots = roots_of(entries, (distribution.read_text("top_level.txt") or "").split())

    def contents() -> Contents:
        # Only RECORD says what is installed; a checkout that was built in lists its sources instead.
        recorded = distribution.files if distribution.read_text("RECORD") and not editable else None
        own = [(str(f), Path(str(f.locate()))) for f in recorded or () if _is_own(f.parts)]
        return [(name, path) for name, path in own if path.is_file()] or modules(roots)

    if not said:
        source = str(Path(str(distribution.locate_file(""))).resolve())
    elif "vcs_info" in said:
        source = f"{said['vcs_info']['vcs']}+{said['url']}@{said['vcs_info']['commit_id']}"
    else:
        source = f"{said['url']} (editable)" if editable else str(said["url"])
    return Package(distribution.name, distribution.version, source, entries, roots, contents)


def _direct_url(distribution: Distribution) -> dict[str, Any]:
    """Return what an installer noted about where a distribution is from (PEP 610), if it did."""
    with suppress(ValueError):
        said = json.loads(distribution.read_text("direct_url.json") or "{}")
        return said if isinstance(said, dict) and "url" in said else {}
    return {}


def roots_of(entries: Iterable[Any], listed: Iterable[str] = ()) -> frozenset[str]:
    """Return the top-level modules of entry points, and those that are listed."""
    return frozenset([*listed, *(re.split("[.:]", e.value.strip())[0].strip() for e in entries)])


def digest_of(contents: Contents) -> str:
    """Return the SHA-256 of the names and bytes of files."""
    whole = hashlib.sha256()
    for name, path in sorted(contents):
        said = f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n"
        whole.update(said.encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def modules(roots: Iterable[str]) -> Contents:
    """Return the files of top-level modules, where Python would import them from.

    In a ``src`` layout they are all modules of that folder. In a flat one they are those that are given:
    which others belong to the package, only its build backend knows.
    """
    files: dict[str, Path] = {}
    for root in roots:
        try:
            spec = importlib.util.find_spec(root)
        except (ImportError, ValueError, AttributeError):  # no module, such as "" and "__main__"
            continue
        own = [spec.origin] if spec and spec.has_location else []
        for place in map(Path, (spec and spec.submodule_search_locations) or filter(None, own)):
            project = place.parent.parent / "pyproject.toml"
            src = project.is_file() and not (place.parent / "pyproject.toml").exists()
            for path in place.parent.iterdir() if src else [place]:
                if path.suffix == ".py" or (path.is_dir() and path.name.isidentifier()):
                    files |= _files_below(path)
    return files.items()


def _files_below(path: Path) -> dict[str, Path]:
    """Return a file, or the files below a folder, by their names, which begin with the folder's."""
    if path.is_file():
        return {path.name: path}
    names = {file: file.relative_to(path.parent) for file in path.rglob("*") if file.is_file()}
    return {name.as_posix(): file for file, name in names.items() if _is_source(name.parts)}


def _is_source(parts: Sequence[str]) -> bool:
    """Tell whether a file may be an author's: not compiled, nor hidden as a text editor's swap file."""
    hidden = any(part.startswith(".") for part in parts)
    return not hidden and "__pycache__" not in parts and not parts[-1].endswith(".pyc")


def _is_own(parts: Sequence[str]) -> bool:
    """Tell whether a recorded file is the package's own, rather than the installer's."""
    installers = parts[0] == ".." or parts[0].endswith((".dist-info", ".egg-info", ".pth"))
    return not installers and _is_source(parts)


def file_of(kind: type) -> Path | None:
    """Return the file that a class is from, links followed; None if none has it, as in a notebook."""
    with suppress(TypeError, OSError):
        path = Path(inspect.getfile(kind)).resolve()
        return path if path.is_file() else None
    return None
