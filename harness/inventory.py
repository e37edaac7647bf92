"""What brings plugins, from where, how long it takes to load, and what is broken: the command ``plugins``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from edit_harness import discovery, journal
from edit_harness.packages import Package
from edit_harness.plugins import KINDS, Plugins

LIMIT_SECONDS, LIMIT_BYTES = 60, 4 << 30
"""What a package may take to load in a process of its own."""
LOAD = (
    "import resource, sys\n"
    "resource.setrlimit(resource.RLIMIT_AS, ({limit}, resource.RLIM_INFINITY))\n"
    "from edit_harness.plugins import Plugins\n"
    "for failure in Plugins.installed().failures:\n"
    "    if failure.distribution == sys.argv[1]: sys.exit(failure.reason)\n"
)

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

Row = Mapping[str, Any]


def show(plugins: Plugins, *, check: bool, as_json: bool) -> int:
    """Print all packages, and return 3 if ``check`` found one that does not load."""
    found = list(rows(plugins))
    tried = {row["name"]: tried_alone(row["name"]) for row in found if check}
    for row in found:
        row |= {"alone": tried[row["name"]] or "loads"} if check else {}
    if as_json:
        out.out(json.dumps({"plugins": found}, indent=1))
    else:
        out.print(shown(found))
    return 3 if any(tried.values()) else 0


def rows(plugins: Plugins) -> Iterator[dict[str, Any]]:
    """Yield what there is to say of each package."""
    for package, went in plugins.packages.items():
        reasons = [f.reason for f in plugins.failures if f.package is package]
        provided = {kind: _names(plugins, package, kind) for kind in KINDS}
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
    }


def _names(plugins: Plugins, package: Package, kind: str) -> list[str]:
    return [c.name for c in plugins.of_kind(kind) if c.package is package]


def shown(found: Sequence[Row]) -> Group:
    """Return packages as they are printed, a heading and a few lines each."""
    return Group(*(_block(row) for row in found))


def _block(row: Row) -> Group:
    heading = Text(f"{row['name']} {row['version']}".strip(), style="bold")
    if row["state"] != "loaded":
        heading.append(f"  {row['state'].upper()}", style="red")
    grid = Table.grid(padding=(0, 2))
    for label, said in _lines(row):
        grid.add_row("", Text(label, style="cyan"), Text(said))
    return Group(heading, grid, Text())


def _lines(row: Row) -> Iterator[tuple[str, str]]:
    yield "from", row["from"]
    if "seconds" in row:
        yield "loaded in", f"{row['seconds']:.3f} s"
    if "alone" in row:
        yield "alone", row["alone"]
    for kind, names in row.get("provides", {}).items():
        yield kind, ", ".join(names)
    for note in row["notes"]:
        yield "because" if row["state"] == "left out" else "note", note


def tried_alone(name: str) -> str:
    """Return why a package does not load in a process of its own, or an empty text.

    The process has no more than `LIMIT_SECONDS` and `LIMIT_BYTES`, and a cache folder of its own, so
    that nothing is skipped there, and a crash there has no consequences here.
    """
    with tempfile.TemporaryDirectory(prefix="edit-harness-") as cache:
        only = {discovery.ONLY: name, discovery.BLOCK: "", "EDIT_HARNESS_CACHE": cache}
        try:
            done = subprocess.run(
                [sys.executable, "-c", LOAD.format(limit=LIMIT_BYTES), name],
                env={**os.environ, **only},
                capture_output=True,
                text=True,
                timeout=LIMIT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"takes longer than {LIMIT_SECONDS} s"
    if done.returncode == 0:
        return ""
    last = (done.stderr.strip().splitlines() or [""])[-1]
    return last if done.returncode == 1 else f"kills the interpreter: {ended(done.returncode)}"


def ended(code: int) -> str:
    """Say how a process ended."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def enable(name: str) -> None:
    """Load a package again that was skipped. Raises `PluginError` if it was not."""
    journal.enable(name)
    err.print(f"{name} is loaded again from the next start on", markup=False)
