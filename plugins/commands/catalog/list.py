"""The commands ``ls`` and ``plugins``: what is installed, from where, and which runs there are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import click
from packaging.requirements import Requirement
from rich.table import Table

from edit_harness.errors import HarnessError, UsageError
from edit_harness.hookspecs import DISTRIBUTION
from edit_harness.registry.packages import Package, normal
from edit_harness.registry.registry import Plugins, suggestion
from edit_harness.run.controls import is_control
from edit_harness_plugins.command_line import as_json, command, with_plugins, with_selection
from edit_harness_plugins.terminal import err, out, plain

USUAL = ("editors", "tasks", "metrics", "judges", "controls", "builders", "models", "packs")
"""What is listed if nothing is named."""
Row = Mapping[str, Any]


@command("ls")
@click.argument("kinds", nargs=-1, metavar="[KIND]…")
@click.option("-o", "--output", default="results", help="Where run folders are.")
@as_json
@with_plugins
def ls(plugins: Plugins, kinds: Sequence[str], output: str, as_json: bool) -> None:
    """List editors, tasks, metrics, judges, controls, builders, models, packs, and what is there else."""
    known = [*(f"{kind}s" for kind in plugins.kinds), "runs"]
    if wrong := [kind for kind in kinds if kind not in known]:
        raise UsageError(
            f"there is no kind {wrong[0]!r}{suggestion(wrong[0], known)}",
            f"choose from {', '.join(known)}",
        )
    found = {kind: rows(plugins, kind, Path(output)) for kind in kinds or USUAL}
    if as_json:
        out.out(json.dumps(found, indent=1))
        return
    for kind, listed in found.items():
        made = Table(title=kind, title_justify="left", box=None, pad_edge=False, show_header=False)
        for key in listed[0] if listed else ():
            made.add_column(key, overflow="fold")
        for row in listed:
            made.add_row(*map(str, row.values()))
        out.print(made, "", sep="\n")
    for failure in plugins.failures:
        err.print(f"broken   {failure}")


def rows(plugins: Plugins, kind: str, results: Path) -> Sequence[Row]:
    """Return what there is of a kind."""
    if kind == "runs":
        return list(runs(results))
    found = plugins.of_kind(kind.removesuffix("s"))
    return [{"name": c.name, "package": c.origin, "what": c.summary} for c in found]


def runs(results: Path) -> Iterator[Row]:
    """Yield the run folders, and how many of their cases are done."""
    # Here, since it brings numpy along.
    from edit_harness.folder.folder import RunFolder, check_regular

    for path in sorted(results.glob("*/manifest.json")):
        try:
            check_regular(path.parent)
            manifest = RunFolder(path.parent).planned()
            cases = RunFolder(path.parent).records(whole=True).cases
        except HarnessError as error:
            yield {"name": str(path.parent), "cases": f"BROKEN: {str(error).splitlines()[0]}"}
            continue
        known, planned = set(manifest.cases), len(manifest.cases)
        part = f" of shard {shard.number} of {shard.of}" if (shard := manifest.shard) else ""
        there = sum(case in known or is_control(case) for case in cases)
        # Each case may be asked in several states of the model.
        done = min(planned, there * planned // max(manifest.visits, 1))
        yield {"name": str(path.parent), "cases": f"{done}/{planned}{part}"}


@command("plugins")
@as_json
@with_selection
def plugins(as_json: bool) -> None:
    """Show what is installed, from where, how long it takes to load, and what is broken."""
    found = list(packages(Plugins.installed()))
    if as_json:
        out.out(json.dumps({"plugins": found}, indent=1))
    for row in () if as_json else found:
        print_package(row)


def packages(plugins: Plugins) -> Iterator[Row]:
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
    told |= {kind: ", ".join(names) for kind, names in row.get("provides", {}).items()}
    why = "because" if row["state"] == "left out" else "note"
    grid = Table.grid(padding=(0, 2))
    for label, said in (*told.items(), *((why, note) for note in row["notes"])):
        grid.add_row("", plain(label, "cyan"), said)
    out.print(heading, grid, "", sep="\n")
