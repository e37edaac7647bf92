"""What brings plugins along: a distribution, or what stands in for one; identified by its files.

Here are those that are installed. `edit_harness.uninstalled` has files and folders,
`edit_harness.discovery` says which count, and `edit_harness.plugins` loads them. Entry points are
iterated here because pluggy's own loader drops a second distribution with an equal entry-point name,
and dies on the first broken plugin.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path
from typing import Any, Protocol

from edit_harness.hookspecs import GROUP

Contents = Iterable[tuple[str, Path]]


class Entry(Protocol):
    """One plugin of a package: an entry point, or a file."""

    @property
    def value(self) -> str:
        """The module's name."""

    def load(self) -> Any:
        """Import the module and return it."""


@dataclass(frozen=True, eq=False)
class Package:
    """A distribution, or what stands in for one."""

    name: str
    version: str
    """Empty for a file."""
    source: str
    """Where it is from: a folder of installed packages, an address, a file."""
    entries: Sequence[Entry]
    roots: frozenset[str]
    """Its top-level modules, as far as it names them."""
    contents: Callable[[], Contents]
    """Returns its files, each with a name that does not depend on where it is installed."""
    named: bool = False
    """Whether it was asked for as a file or a folder, so that no list of distributions is about it."""

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the names and bytes of its files; the same installed and from its sources."""
        whole = hashlib.sha256()
        for name, path in sorted(self.contents()):
            whole.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
        return whole.hexdigest()

    @property
    def stamp(self) -> str:
        """What changes when a file does: of names, sizes and times, so that nothing need be read."""
        stats = [(name, path.stat()) for name, path in sorted(self.contents())]
        said = "".join(f"{name}\0{at.st_size}\0{at.st_mtime_ns}\n" for name, at in stats)
        return hashlib.sha256(said.encode()).hexdigest()

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
    """Yield every distribution with entry points of ours; the first of a name on the path counts."""
    first = {normal(d.name): d for d in reversed(list(distributions())) if d.name}
    for name in sorted(first):
        if entries := list(first[name].entry_points.select(group=GROUP)):
            yield of_distribution(first[name], entries)


def of_distribution(distribution: Distribution, entries: Sequence[EntryPoint]) -> Package:
    """Return an installed distribution as a package."""

    def contents() -> Contents:
        # Only RECORD says what is installed; a checkout that was built in lists its sources instead.
        recorded = distribution.files if distribution.read_text("RECORD") else None
        named = [(str(f), Path(str(f.locate()))) for f in recorded or () if _counts(f.parts)]
        there = [(name, path) for name, path in named if path.is_file()]
        return there or trees(roots)

    roots = roots_of(entries, distribution.read_text("top_level.txt") or "")
    name, version, source = distribution.name, distribution.version, _origin(distribution)
    return Package(name, version, source, entries, roots, contents)


def _counts(parts: Sequence[str]) -> bool:
    """Tell whether a recorded file is the package's own, rather than the installer's."""
    top = parts[0]
    ours = top != ".." and not top.startswith("__editable__") and not top.endswith(".pth")
    return ours and not top.endswith((".dist-info", ".egg-info")) and _is_source(parts)


def _is_source(parts: Sequence[str]) -> bool:
    return "__pycache__" not in parts and not parts[-1].endswith(".pyc")


def _origin(distribution: Distribution) -> str:
    """Return where a distribution was installed from (PEP 610), or else where it lies."""
    said = json.loads(distribution.read_text("direct_url.json") or "{}")
    if not said:
        return str(Path(str(distribution.locate_file(""))).resolve())
    if "vcs_info" in said:
        return f"{said['vcs_info']['vcs']}+{said['url']}@{said['vcs_info']['commit_id']}"
    editable = said.get("dir_info", {}).get("editable", False)
    return f"{said['url']} (editable)" if editable else str(said["url"])


def roots_of(entries: Iterable[Entry], listed: str = "") -> frozenset[str]:
    """Return the top-level modules of entry points, and those that are listed."""
    values = (entry.value for entry in entries)
    return frozenset(
        [*listed.split(), *(value.partition(":")[0].partition(".")[0] for value in values)]
    )


def trees(roots: Iterable[str]) -> Contents:
    """Yield the files of top-level modules, where Python would import them from."""
    for root in roots:
        spec = importlib.util.find_spec(root)
        if spec and spec.submodule_search_locations:
            for folder in spec.submodule_search_locations:
                yield from ((f"{root}/{name}", path) for name, path in _tree(Path(folder)))
        elif spec and spec.origin:
            yield Path(spec.origin).name, Path(spec.origin)


def _tree(folder: Path) -> Contents:
    for path in folder.rglob("*"):
        parts = path.relative_to(folder).parts
        if path.is_file() and _is_source(parts):
            yield "/".join(parts), path
