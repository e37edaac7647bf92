"""The command ``new``: writes a package of one component that works, for its author to change.

What is written are the templates in ``scaffold/``, each named as the file that it becomes, with a few
names filled in. What tries the package is not here: see the suites in `edit_harness.testing`.
"""

from __future__ import annotations

import os
import re
import shlex
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from string import Template

from packaging.version import Version

from edit_harness.errors import PluginError, UsageError
from edit_harness.hookspecs import API, DISTRIBUTION
from edit_harness.registry.registry import NAME, TAKEN, Plugins

from ..run.console import out

TEMPLATES = Path(__file__).with_name("scaffold")
SUFFIX = ".tmpl"
"""What keeps tools from taking a template for the file that it becomes."""
PACKAGE = "package"
"""The folder of templates that becomes the package."""
PREFIX = f"{DISTRIBUTION}-"
LONGEST = 24
"""Characters of a name: lines of the templates that have it stay within their limit."""
SHORTEST = 3
"""Characters of a name that is suggested."""
RUNS = {
    "editor": "edit-harness --editor {} --limit 100",
    "task": "edit-harness --task {}",
    "metric": "edit-harness --metrics success,{} --limit 100",
    "judge": "edit-harness --task rippleedits --judge {}",
    "command": "edit-harness {} --limit 20",
}
"""What can be created, and the command that shows it at work."""


@dataclass(frozen=True)
class Blueprint:
    """A package to be written."""

    kind: str
    name: str

    @property
    def distribution(self) -> str:
        """What pip calls it."""
        return f"{PREFIX}{self.name}"

    @property
    def package(self) -> str:
        """What Python imports."""
        return self.distribution.replace("-", "_")

    @property
    def run(self) -> str:
        """The command that shows the component at work."""
        return RUNS[self.kind].format(self.name)

    @property
    def filled(self) -> dict[str, str]:
        """What stands in the templates, by placeholder."""
        ours = Version(version(DISTRIBUTION))
        return {
            "kind": self.kind,
            "name": self.name,
            "title": "".join(part.capitalize() for part in self.name.split("-")),
            "distribution": self.distribution,
            "package": self.package,
            "run": self.run,
            "api": str(API),
            "least": f"{ours.major}.{ours.minor}",
            "below": f"{ours.major}.{ours.minor + 1}",
        }

    def files(self) -> Iterator[tuple[Path, str]]:
        """Yield path and text of each file; those of a kind come after those of every package."""
        filled = self.filled
        for folder in ("every", self.kind):
            for template in sorted((TEMPLATES / folder).rglob(f"*{SUFFIX}")):
                inside = template.relative_to(TEMPLATES / folder).with_suffix("")
                if inside.parts[0] == PACKAGE:
                    inside = Path("src", self.package, *inside.parts[1:])
                yield inside, Template(template.read_text(encoding="utf-8")).substitute(filled)


def new(plugins: Plugins, kind: str, name: str, folder: Path) -> None:
    """Write a package into a folder of its own, and say what to do with it.

    Raises `UsageError` for a name that cannot be one and for a place that is taken, `PluginError` for
    a name that is.
    """
    check_name(name)
    blueprint = Blueprint(kind, name)
    check_free(plugins, blueprint)
    target = folder / blueprint.distribution
    if target.is_symlink() and not target.exists():
        raise UsageError(f"{target} is a link that leads nowhere", "remove it, or --out DIR")
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise UsageError(f"{target} is there already", "choose another name, or --out DIR")
    written: list[Path] = []
    for path, text in blueprint.files():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_text(text, encoding="utf-8")
        written = [*dict.fromkeys([*written, path])]
    tell(blueprint, target, written)


def check_name(name: str) -> None:
    """Raise `UsageError` for a name that no component, package and class can have."""
    shown = repr(name) if len(name) <= LONGEST else f"{name[:LONGEST]!r}…"
    if name.startswith(PREFIX):
        raise UsageError(
            f"the package of NAME will be called {PREFIX}NAME", f"say {suggested(name) or 'NAME'}"
        )
    if name == DISTRIBUTION:
        raise UsageError(f"{shown} is the harness itself", "name what you are making")
    remedy = f"such as {suggested(name)}" if suggested(name) else ""
    if not NAME.fullmatch(name):
        raise UsageError(f"{shown} is no name: use a-z, 0-9 and single hyphens", remedy)
    if not name[0].isalpha():
        raise UsageError(f"{shown} does not begin with a letter, as a class has to", remedy)
    if len(name) > LONGEST:
        raise UsageError(f"{shown} has {len(name)} characters, and {LONGEST} are the most", remedy)


def suggested(name: str) -> str:
    """Return a name like one that cannot be; empty if too little of it would be left to know it by."""
    letters = unicodedata.normalize("NFKD", name.lower())
    plain = "".join(c for c in letters if not unicodedata.combining(c))
    if not plain.isascii():
        return ""
    words = re.sub(r"[^a-z0-9]+", "-", plain).strip("-").removeprefix(PREFIX)
    whole = f"my-{words}" if words[:1].isdigit() else words
    short = whole[:LONGEST].rpartition("-")[0] if len(whole) > LONGEST else whole
    return short if len(short) >= SHORTEST else ""


def check_free(plugins: Plugins, blueprint: Blueprint) -> None:
    """Raise `PluginError` if something that is installed has the name of the component or package."""
    kind, name, package = blueprint.kind, blueprint.name, blueprint.package
    if name in TAKEN.get(kind, ()):
        raise PluginError(f"no {kind} can be called {name!r}", "choose another name")
    for component in plugins.of_kind(kind):
        if component.name == name:
            raise PluginError(
                f"{component.origin} has the {kind} {name!r} already",
                "choose another name",
            )
    if find_spec(package):
        raise PluginError(f"there is a package {package} already", "choose another name")


def tell(blueprint: Blueprint, target: Path, written: list[Path]) -> None:
    """Print what was written, and the commands that come next."""
    # A name alone would be looked up in an index.
    place = f".{os.sep}{target}" if target.parent == Path() else str(target)
    out.print(f"written  {place}", soft_wrap=True)
    for path in sorted(written):
        out.print(f"           {path.as_posix()}", soft_wrap=True)
    steps = (
        f"pip install -e {shlex.quote(place)}",
        f"edit-harness check {blueprint.distribution}",
        blueprint.run,
    )
    for i, step in enumerate(steps):
        out.print(f"{'' if i else 'next':9}{step}", soft_wrap=True)
