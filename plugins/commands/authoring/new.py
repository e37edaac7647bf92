"""The command ``new``: writes a package of one component that works, for its author to change.

The files are the templates in ``scaffold/``, each named as the file that it becomes, with a few names filled in.
"""

from __future__ import annotations

import os
import re
import shlex
from importlib.metadata import version
from pathlib import Path
from string import Template

import click
from packaging.version import Version

from edit_harness.errors import UsageError
from edit_harness.hookspecs import API, DISTRIBUTION
from edit_harness_plugins.command_line import command
from edit_harness_plugins.terminal import Terminal

TEMPLATES = Path(__file__).with_name("scaffold")
SUFFIX = ".tmpl"
"""What keeps tools from taking a template for the file that it becomes."""
PACKAGE = "package"
PREFIX = f"{DISTRIBUTION}-"
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
LONGEST = 24
"""Characters of a name: lines of the templates that have it stay within their limit."""
RUNS = {
    "editor": "edit-harness --editor {} --limit 100",
    "task": "edit-harness --task {}",
    "metric": "edit-harness --metrics success,{} --limit 100",
    "judge": "edit-harness --task rippleedits --judge {}",
    "command": "edit-harness {} --limit 20",
}
"""What can be created, and the command that shows it at work."""


@command()
@click.argument("kind", type=click.Choice(list(RUNS)))
@click.argument("name")
@click.option("-o", "--output", "out", default=".", show_default=True, metavar="DIR",
              help="Where the package's folder goes.")  # fmt: skip
def new(kind: str, name: str, out: str) -> None:
    """Write a package of an editor, a task, a metric, a judge or a command of one's own.

    It is edit-harness-NAME, and works as it is; a comment marks what makes it yours.
    """
    # Components, packages and classes can have such names.
    if not NAME.fullmatch(name) or len(name) > LONGEST or f"{name}-".startswith(PREFIX):
        shown = repr(name) if len(name) <= LONGEST else f"{name[:LONGEST]!r}…"
        raise UsageError(
            f"{shown} is no name: a-z, 0-9 and single hyphens after a letter, {LONGEST} characters "
            "at most",
            f"such as my-editor; the package will be called {PREFIX}NAME",
        )
    target = Path(out, PREFIX + name)
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise UsageError(f"{target} is there already", "choose another name, or --output DIR")
    files = contents(kind, name)
    for path, text in files.items():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_text(text, encoding="utf-8")
    # A name alone would be looked up in an index.
    place = f".{os.sep}{target}" if target.parent == Path() else str(target)
    lines = [f"written  {place}", *(f"           {path}" for path in sorted(files))]
    lines.append(f"next     pip install -e {shlex.quote(place)}")
    lines.append(f"         edit-harness plugins check {PREFIX}{name}")
    lines.append(f"         {RUNS[kind].format(name)}")
    for line in lines:
        Terminal().print(line, soft_wrap=True)


def contents(kind: str, name: str) -> dict[str, str]:
    """Return the text of each file by its path; a kind's own file counts rather than that of every package."""
    package = (PREFIX + name).replace("-", "_")
    ours = Version(version(DISTRIBUTION))
    filled = {
        "kind": kind,
        "name": name,
        "title": "".join(part.capitalize() for part in name.split("-")),
        "distribution": PREFIX + name,
        "package": package,
        "run": RUNS[kind].format(name),
        "api": str(API),
        "least": f"{ours.major}.{ours.minor}",
        "below": f"{ours.major}.{ours.minor + 1}",
    }
    found = {}
    for folder in (TEMPLATES / "every", TEMPLATES / kind):
        for template in folder.rglob(f"*{SUFFIX}"):
            path = template.relative_to(folder).with_suffix("").as_posix()
            if path.startswith(f"{PACKAGE}/"):
                path = path.replace(PACKAGE, f"src/{package}", 1)
            found[path] = Template(template.read_text(encoding="utf-8")).substitute(filled)
    return found
