"""The command ``plugins``: what brings plugins, from where, how long it takes to load, and what is broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from tempfile import TemporaryFile
from typing import Any

import click
from packaging.requirements import Requirement
from rich.table import Table

from edit_harness.hookspecs import DISTRIBUTION
from edit_harness.registry import packages
from edit_harness.registry.packages import Package, normal
from edit_harness.registry.registry import Plugins
from edit_harness_plugins.command_line import as_json, debug, with_selection
from edit_harness_plugins.terminal import Terminal, plain

LIMIT = 60
"""Seconds that a package may take to load."""
TRIAL = """
import json, os
from edit_harness.registry import packages
from edit_harness.registry.registry import Plugins
loaded = Plugins.commands_alone()
loaded.take(packages.found()[{number}])
print("\\n" + json.dumps([failure.reason for failure in loaded.failures]), flush=True)
os._exit(0)
"""

out = Terminal()


@click.command("plugins")
@click.option("--check", is_flag=True, help="Load each in a process of its own, within limits.")
@as_json
@debug
@with_selection
def plugins(check: bool, as_json: bool, debug: bool) -> int:
    """Show what is installed, from where, how long it takes to load, and what is broken."""
    if check:
        found = [checked(*each) for each in enumerate(packages.found())]
    else:
        found = list(rows(Plugins.installed()))
    if as_json:
        out.out(json.dumps({"plugins": found}, indent=1))
    for row in () if as_json else found:
        print_package(row)
    return 3 if check and any(row["state"] == "broken" for row in found) else 0


def checked(number: int, package: Package) -> dict[str, Any]:
    """Return what there is to say of a package, by its place in `packages.found`, loaded in a child process."""
    if reason := packages.left_out(package):
        return {**identified(package), "state": "left out", "notes": [reason]}
    reason = trouble(number)
    state = "broken" if reason else "loaded"
    return {**identified(package), "state": state, "alone": reason or "loads", "notes": []}


def trouble(number: int) -> str:
    """Return why a package does not load in a process that has no other; empty if it does."""
    path = os.pathsep.join(filter(None, sys.path))
    # A file, since a process that the package leaves behind would keep a pipe open.
    with TemporaryFile() as said:
        try:
            code = subprocess.run(
                [sys.executable, "-P", "-c", TRIAL.format(number=number)],
                stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.DEVNULL,
                timeout=LIMIT, check=False, env={**os.environ, "PYTHONPATH": path},
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"takes longer than {LIMIT} s"
        said.seek(0)
        try:
            return "; ".join(json.loads(said.read().splitlines()[-1]))
        except (IndexError, ValueError):
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            return f"kills the interpreter: {how}"


def rows(plugins: Plugins) -> Iterator[dict[str, Any]]:
    """Yield what there is to say of each package."""
    for package, went in plugins.packages.items():
        reasons = [f.reason for f in plugins.failures if f.package is package]
        named = {
            f"{kind}s": [c.name for c in plugins.of_kind(kind) if c.package is package]
            for kind in plugins.kinds
        }
        yield {
            **identified(package),
            "state": "broken" if reasons else "loaded",
            "seconds": round(went.seconds, 3),
            "provides": {kinds: names for kinds, names in named.items() if names},
            "notes": [*reasons, *went.notes],
        }
    for package, reason in plugins.left_out.items():
        yield {**identified(package), "state": "left out", "notes": [reason]}


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
            holds = requirement.specifier.contains(metadata.version(DISTRIBUTION), prereleases=True)
            return {**known, "requires": str(requirement), "holds": holds}
    return known


def print_package(row: Mapping[str, Any]) -> None:
    """Print what there is to say of a package: a heading and a few lines."""
    heading = plain(f"{row['name']} {row['version']}".strip(), "bold")
    told = {"from": row["from"]}
    if row["state"] != "loaded":
        heading.append(f"  {row['state'].upper()}", style="red")
    if "requires" in row:
        holds = "which holds" if row["holds"] else "which does not hold"
        here = metadata.version(DISTRIBUTION)
        told["requires"] = f"{row['requires']}, {holds}: {here} is installed"
    if "seconds" in row:
        told["loaded in"] = f"{row['seconds']:.3f} s"
    if "alone" in row:
        told["alone"] = row["alone"]
    told |= {kind: ", ".join(names) for kind, names in row.get("provides", {}).items()}
    why = "because" if row["state"] == "left out" else "note"
    grid = Table.grid(padding=(0, 2))
    for label, said in (*told.items(), *((why, note) for note in row["notes"])):
        grid.add_row("", plain(label, "cyan"), said)
    out.print(heading, grid, "", sep="\n")
