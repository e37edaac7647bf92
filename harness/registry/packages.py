"""What brings plugins along: a distribution, or what stands in for one; identified by its files.

Here are those that are installed. `edit_harness.registry.uninstalled` has files and folders,
`edit_harness.registry.discovery` says which count, and `edit_harness.registry.plugins` loads them. Entry points are
iterated here because pluggy's own loader drops a second distribution with an equal entry-point name,
and dies on the first broken plugin.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import Distribution, EntryPoint, distribution, distributions
from pathlib import Path
from typing import Any, Protocol

from ..hookspecs import GROUP
from .contents import Contents, is_source, trees


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
    """Empty for a file, and for sources that do not name it."""
    source: str
    """Where it is from: a folder of installed packages, an address, a file."""
    entries: Sequence[Entry]
    roots: frozenset[str]
    """Its top-level modules, as far as it names them."""
    contents: Callable[[], Contents]
    """Returns its files, each with a name that does not depend on where it is installed."""
    named: bool = False
    """Whether it was asked for as a file or a folder, so that no list of distributions is about it."""
    code: str = ""
    """Its digest, if that was to be taken before it ran, or if it has no files."""

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the names and bytes of its files; the same installed and from its sources.

        It is of the files as they are when it is first asked for.
        """
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


def digest_of(contents: Contents) -> str:
    """Return the SHA-256 of the names and bytes of files."""
    whole = hashlib.sha256()
    for name, path in sorted(contents):
        said = f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n"
        whole.update(said.encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def file_of(kind: type) -> Path | None:
    """Return the file that a class is from, links followed; None if none has it, as in a notebook."""
    with suppress(TypeError, OSError):
        path = Path(inspect.getfile(kind)).resolve()
        return path if path.is_file() else None
    return None


def normal(name: str) -> str:
    """Return a distribution's name as package indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def installed() -> Iterator[Package]:
    """Yield every distribution with entry points of ours; the first of a name on the path counts."""
    # A name is read from a distribution's metadata, which takes long: only of those with entry points.
    names = {normal(d.name) for d in distributions() if d.entry_points.select(group=GROUP)}
    for first in map(distribution, sorted(names)):
        if entries := list(first.entry_points.select(group=GROUP)):
            yield of_distribution(first, entries)


def of_distribution(distribution: Distribution, entries: Sequence[EntryPoint]) -> Package:
    """Return an installed distribution as a package."""
    said = _direct_url(distribution)
    listed = (distribution.read_text("top_level.txt") or "").split()

    def contents() -> Contents:
        # Only RECORD says what is installed; a checkout that was built in lists its sources instead.
        recorded = distribution.files if distribution.read_text("RECORD") else None
        if said.get("dir_info", {}).get("editable"):
            recorded = None
        named = [(str(f), Path(str(f.locate()))) for f in recorded or () if _counts(f.parts)]
        there = [(name, path) for name, path in named if path.is_file()]
        return there or trees(modules_of(entries, listed))

    source = _origin(distribution, said)
    roots = roots_of(entries, listed)
    return Package(distribution.name, distribution.version, source, entries, roots, contents)


def _counts(parts: Sequence[str]) -> bool:
    """Tell whether a recorded file is the package's own, rather than the installer's."""
    top = parts[0]
    own = top != ".." and not top.endswith((".dist-info", ".egg-info", ".pth"))
    return own and is_source(parts)


def _direct_url(distribution: Distribution) -> dict[str, Any]:
    """Return what an installer noted about where a distribution is from (PEP 610), if it did."""
    try:
        said = json.loads(distribution.read_text("direct_url.json") or "{}")
    except ValueError:
        return {}
    return said if isinstance(said, dict) and "url" in said else {}


def _origin(distribution: Distribution, said: dict[str, Any]) -> str:
    """Return where a distribution was installed from, or else where it lies."""
    if not said:
        return str(Path(str(distribution.locate_file(""))).resolve())
    if "vcs_info" in said:
        return f"{said['vcs_info']['vcs']}+{said['url']}@{said['vcs_info']['commit_id']}"
    editable = said.get("dir_info", {}).get("editable", False)
    return f"{said['url']} (editable)" if editable else str(said["url"])


def modules_of(entries: Iterable[Entry], listed: Iterable[str] = ()) -> list[str]:
    """Return the modules of entry points, and the top-level ones that are listed besides."""
    modules = [entry.value.partition(":")[0].strip() for entry in entries]
    tops = {module.partition(".")[0] for module in modules}
    return modules + [name for name in listed if name not in tops]


def roots_of(entries: Iterable[Entry], listed: Iterable[str] = ()) -> frozenset[str]:
    """Return the top-level modules of entry points, and those that are listed."""
    return frozenset(module.partition(".")[0] for module in modules_of(entries, listed))
