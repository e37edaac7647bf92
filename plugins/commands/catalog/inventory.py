"""What brings plugins, from where, how long it takes to load, and what is broken: the command ``plugins``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any

from packaging.requirements import Requirement
from rich.console import Group
from rich.table import Table
from rich.text import Text

from edit_harness import hookspecs
from edit_harness.registry import selection as discovery
from edit_harness.registry.packages import Package, normal
from edit_harness.registry.registry import Plugins
from edit_harness.terminal import Terminal, plain

from . import alone

out = Terminal()

Row = Mapping[str, Any]


def show(as_json: bool) -> int:
    """Load all packages, and print what there is to say of each."""
    _print(list(rows(Plugins.installed())), as_json)
    return 0


def check(as_json: bool) -> int:
    """Load each package in a process of its own, and return 3 if one does not load; none is loaded here."""
    found = [_checked(package) for package in discovery.found()]
    _print(found, as_json)
    return 3 if any(row["state"] == "broken" for row in found) else 0


def _checked(package: Package) -> dict[str, Any]:
    if reason := discovery.left_out(package):
        return {**_identified(package), "state": "left out", "notes": [reason]}
    reason = alone.trouble(package)
    state = "broken" if reason else "loaded"
    return {**_identified(package), "state": state, "alone": reason or "loads", "notes": []}


def _print(found: Sequence[Row], as_json: bool) -> None:
    if as_json:
        out.out(json.dumps({"plugins": found}, indent=1))
    else:
        out.print(shown(found))


def rows(plugins: Plugins) -> Iterator[dict[str, Any]]:
    """Yield what there is to say of each package."""
    for package, went in plugins.packages.items():
        reasons = [f.reason for f in plugins.failures if f.package is package]
        provided = {kind: _names(plugins, package, kind) for kind in plugins.kinds}
        yield {
            **_identified(package),
            "state": "broken" if reasons else "loaded",
            "seconds": round(went.seconds, 3),
            "provides": {f"{kind}s": names for kind, names in provided.items() if names},
            "notes": [*reasons, *went.notes],
        }
    for left in plugins.left_out:
        yield {**_identified(left.package), "state": "left out", "notes": [left.reason]}


def _identified(package: Package) -> dict[str, Any]:
    return {
        "name": package.name,
        "version": package.version,
        "from": package.source,
        "modules": [entry.value for entry in package.entries],
        **_required(package),
    }


def _required(package: Package) -> dict[str, Any]:
    """Return which harness an installed package requires, and whether this is one; nothing if it does not say."""
    stated = () if package.named else metadata.distribution(package.name).requires or ()
    for requirement in map(Requirement, stated):
        if normal(requirement.name) == hookspecs.DISTRIBUTION and not requirement.marker:
            here = metadata.version(hookspecs.DISTRIBUTION)
            holds = requirement.specifier.contains(here, prereleases=True)
            return {"requires": str(requirement), "holds": holds}
    return {}


def _names(plugins: Plugins, package: Package, kind: str) -> list[str]:
    return [c.name for c in plugins.of_kind(kind) if c.package is package]


def shown(found: Sequence[Row]) -> Group:
    """Return packages as they are printed, a heading and a few lines each."""
    return Group(*(_block(row) for row in found))


def _block(row: Row) -> Group:
    heading = plain(f"{row['name']} {row['version']}".strip(), "bold")
    if row["state"] != "loaded":
        heading.append(f"  {row['state'].upper()}", style="red")
    grid = Table.grid(padding=(0, 2))
    for label, said in _lines(row):
        grid.add_row("", plain(label, "cyan"), said)
    return Group(heading, grid, Text())


def _lines(row: Row) -> Iterator[tuple[str, str]]:
    yield "from", row["from"]
    if "requires" in row:
        here = metadata.version(hookspecs.DISTRIBUTION)
        holds = "which holds" if row["holds"] else "which does not hold"
        yield "requires", f"{row['requires']}, {holds}: {here} is installed"
    if "seconds" in row:
        yield "loaded in", f"{row['seconds']:.3f} s"
    if "alone" in row:
        yield "alone", row["alone"]
    for kind, names in row.get("provides", {}).items():
        yield kind, ", ".join(names)
    for note in row["notes"]:
        yield "because" if row["state"] == "left out" else "note", note
