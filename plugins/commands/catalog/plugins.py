"""The command ``plugins``: what brings plugins, from where, how long it takes to load, and what is broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from tempfile import TemporaryFile
from typing import Any

import click
from packaging.requirements import Requirement
from rich.console import Group
from rich.table import Table
from rich.text import Text

from edit_harness.hookspecs import DISTRIBUTION
from edit_harness.options import as_json, debug, with_selection
from edit_harness.registry import discovery
from edit_harness.registry.packages import Package, normal
from edit_harness.registry.plugins import Plugins
from edit_harness.registry.uninstalled import FileEntry
from edit_harness.terminal import Terminal, plain

LIMIT = 60
"""Seconds that a package may take to load."""
TRIAL = """
import json, os
from edit_harness.registry.plugins import Plugins
found = Plugins.installed()
reasons = [f.reason for f in found.failures] if found.packages else ["it is not found there"]
print("\\n" + json.dumps(reasons), flush=True)
os._exit(0)
"""
Row = Mapping[str, Any]

out = Terminal()


@click.command("plugins")
@click.option("--check", is_flag=True, help="Load each in a process of its own, within limits.")
@as_json
@debug
@with_selection
def plugins(check: bool, as_json: bool, debug: bool) -> int:
    """Show what is installed, from where, how long it takes to load, and what is broken."""
    if check:
        found = [checked(package) for package in discovery.found()]
    else:
        found = list(rows(Plugins.installed()))
    if as_json:
        out.out(json.dumps({"plugins": found}, indent=1))
    else:
        out.print(shown(found))
    return 3 if check and any(row["state"] == "broken" for row in found) else 0


def checked(package: Package) -> dict[str, Any]:
    """Return what there is to say of a package that is loaded in a process of its own, not here."""
    if reason := discovery.left_out(package):
        return {**identified(package), "state": "left out", "notes": [reason]}
    reason = trouble(package)
    state = "broken" if reason else "loaded"
    return {**identified(package), "state": state, "alone": reason or "loads", "notes": []}


def trouble(package: Package) -> str:
    """Return why a package does not load in a process that has no other; empty if it does."""
    given = dict.fromkeys((discovery.ONLY, discovery.BLOCK, discovery.FILES, discovery.FOLDERS), "")
    files = [str(entry.path) for entry in package.entries if isinstance(entry, FileEntry)]
    if not package.named:
        given[discovery.ONLY] = package.name
    elif files:
        given[discovery.FILES] = os.pathsep.join(files)
    else:
        given[discovery.FOLDERS] = package.source.rpartition(" (sources")[0]
    given["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    # A file, since a process that the package leaves behind would keep a pipe open.
    with TemporaryFile() as said:
        command, nowhere = [sys.executable, "-P", "-c", TRIAL], subprocess.DEVNULL
        try:
            code = subprocess.run(
                command, stdin=nowhere, stdout=said, stderr=nowhere, timeout=LIMIT, check=False,
                env={**os.environ, **given},
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"takes longer than {LIMIT} s"
        said.seek(0)
        try:
            return "; ".join(json.loads(said.read().splitlines()[-1]))
        except (IndexError, ValueError):
            return (
                f"kills the interpreter: {f'signal {-code}' if code < 0 else f'exit code {code}'}"
            )


def rows(plugins: Plugins) -> Iterator[dict[str, Any]]:
    """Yield what there is to say of each package."""
    for package, went in plugins.packages.items():
        reasons = [f.reason for f in plugins.failures if f.package is package]
        provided: dict[str, list[str]] = {}
        for kind in plugins.kinds:
            names = [c.name for c in plugins.of_kind(kind) if c.package is package]
            provided |= {f"{kind}s": names} if names else {}
        yield {
            **identified(package),
            "state": "broken" if reasons else "loaded",
            "seconds": round(went.seconds, 3),
            "provides": provided,
            "notes": [*reasons, *went.notes],
        }
    for left in plugins.left_out:
        yield {**identified(left.package), "state": "left out", "notes": [left.reason]}


def identified(package: Package) -> dict[str, Any]:
    """Return which package it is, and which harness it requires, if it says so."""
    known = {
        "name": package.name,
        "version": package.version,
        "from": package.source,
        "modules": [entry.value for entry in package.entries],
    }
    stated = () if package.named else metadata.distribution(package.name).requires or ()
    for requirement in map(Requirement, stated):
        if normal(requirement.name) == DISTRIBUTION and not requirement.marker:
            here = metadata.version(DISTRIBUTION)
            holds = requirement.specifier.contains(here, prereleases=True)
            return {**known, "requires": str(requirement), "holds": holds}
    return known


def shown(found: Sequence[Row]) -> Group:
    """Return packages as they are printed, a heading and a few lines each."""
    blocks: list[Any] = []
    for row in found:
        heading = plain(f"{row['name']} {row['version']}".strip(), "bold")
        if row["state"] != "loaded":
            heading.append(f"  {row['state'].upper()}", style="red")
        grid = Table.grid(padding=(0, 2))
        for label, said in _lines(row):
            grid.add_row("", plain(label, "cyan"), said)
        blocks += [heading, grid, Text()]
    return Group(*blocks)


def _lines(row: Row) -> Iterator[tuple[str, str]]:
    yield "from", row["from"]
    if "requires" in row:
        holds = "which holds" if row["holds"] else "which does not hold"
        here = metadata.version(DISTRIBUTION)
        yield "requires", f"{row['requires']}, {holds}: {here} is installed"
    if "seconds" in row:
        yield "loaded in", f"{row['seconds']:.3f} s"
    if "alone" in row:
        yield "alone", row["alone"]
    for kind, names in row.get("provides", {}).items():
        yield kind, ", ".join(names)
    for note in row["notes"]:
        yield "because" if row["state"] == "left out" else "note", note
