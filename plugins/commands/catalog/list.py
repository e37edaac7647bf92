"""The command ``ls``: what is installed, and which runs there are. No model is loaded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from edit_harness.errors import HarnessError, UsageError
from edit_harness.registry.registry import Plugins, suggestion
from edit_harness.run.controls import is_control
from edit_harness_plugins.command_line import as_json, debug, with_plugins
from edit_harness_plugins.terminal import Terminal

USUAL = ("editors", "tasks", "metrics", "judges", "controls", "builders", "models", "packs")
"""What is listed if nothing is named."""
Row = Mapping[str, Any]


@click.command("ls")
@click.argument("kinds", nargs=-1, metavar="[KIND]…")
@click.option("-o", "--output-path", default="results", help="Where run folders are.")
@as_json
@debug
@with_plugins
def ls(
    plugins: Plugins, kinds: Sequence[str], output_path: str, as_json: bool, debug: bool
) -> None:
    """List editors, tasks, metrics, judges, controls, builders, models, packs, and what is there else."""
    out = Terminal()
    known = [*(f"{kind}s" for kind in plugins.kinds), "runs"]
    if wrong := [kind for kind in kinds if kind not in known]:
        raise UsageError(
            f"there is no kind {wrong[0]!r}{suggestion(wrong[0], known)}",
            f"choose from {', '.join(known)}",
        )
    found = {kind: rows(plugins, kind, Path(output_path)) for kind in kinds or USUAL}
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
        Terminal(stderr=True).print(f"broken   {failure}")


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
            visits = RunFolder(path.parent).visits(whole=True)
        except HarnessError as error:
            yield {"name": str(path.parent), "cases": f"BROKEN: {str(error).splitlines()[0]}"}
            continue
        known, planned = set(manifest.cases), len(manifest.cases)
        part = f" of shard {shard.number} of {shard.of}" if (shard := manifest.shard) else ""
        there = sum(case in known or is_control(case) for case, _ in visits)
        # Each case may be asked in several states of the model.
        done = min(planned, there * planned // max(manifest.visits, 1))
        yield {"name": str(path.parent), "cases": f"{done}/{planned}{part}"}
