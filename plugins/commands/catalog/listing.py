"""What is installed: the commands ``ls``, ``plugins`` and ``show``. No model is loaded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from edit_harness.errors import HarnessError, UsageError
from edit_harness.registry.plugins import Plugins, suggestion
from edit_harness.run.control import is_control
from edit_harness.terminal import Terminal, plain

from . import cards, inventory

out = Terminal()
err = Terminal(stderr=True)

Row = Mapping[str, Any]


def show_kinds(plugins: Plugins, kinds: Sequence[str], results: Path, as_json: bool) -> None:
    """Print what there is of each kind. Raises `UsageError` for what is none."""
    known = [*(f"{kind}s" for kind in plugins.kinds), "plugins", "runs"]
    if wrong := [kind for kind in kinds if kind not in known]:
        raise UsageError(
            f"there is no kind {wrong[0]!r}{suggestion(wrong[0], known)}",
            f"choose from {', '.join(known)}",
        )
    rows = {kind: list(_rows(plugins, kind, results)) for kind in kinds}
    if as_json:
        out.out(json.dumps(rows, indent=1))
    else:
        for kind, found in rows.items():
            out.print(inventory.shown(found) if kind == "plugins" else _table(kind, found))
            out.print()
    for failure in plugins.failures if not as_json else ():
        err.print(f"broken   {failure}")


def _rows(plugins: Plugins, kind: str, results: Path) -> Iterable[Row]:
    if kind == "runs":
        return _runs(results)
    if kind == "plugins":
        return inventory.rows(plugins)
    return (
        {"name": c.name, "package": c.origin, "what": c.summary}
        for c in plugins.of_kind(kind.removesuffix("s"))
    )


def _runs(results: Path) -> Iterable[Row]:
    # Here, since it brings numpy along.
    from edit_harness.folder.folder import RunFolder, check_regular

    for path in sorted(results.glob("*/manifest.json")):
        try:
            check_regular(path.parent)
            manifest = RunFolder(path.parent).planned()
            rows = RunFolder(path.parent).visits(whole=True)
        except HarnessError as error:
            yield {"name": str(path.parent), "cases": f"BROKEN: {str(error).splitlines()[0]}"}
            continue
        known, planned, visits = set(manifest.cases), len(manifest.cases), manifest.visits
        part = f" of shard {shard.number} of {shard.of}" if (shard := manifest.shard) else ""
        there = sum(case in known or is_control(case) for case, _ in rows)
        # Each case may be asked in several states of the model.
        done = planned if there >= visits else there * planned // max(visits, 1)
        yield {"name": str(path.parent), "cases": f"{done}/{planned}{part}"}


def _table(title: str, rows: Sequence[Row]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, show_header=False)
    for key in rows[0] if rows else ():
        table.add_column(key, overflow="fold")
    for row in rows:
        table.add_row(*map(str, row.values()))
    return table


def show_card(plugins: Plugins, name: str, as_json: bool) -> None:
    """Print the card of every component of a name. Raises `PluginError` if there is none."""
    found = cards.found(plugins, name)
    contents = [cards.card(plugins, component) for component in found]
    if as_json:
        out.out(json.dumps(contents if len(contents) > 1 else contents[0], indent=1, default=str))
        return
    for component, content in zip(found, contents, strict=True):
        out.print(plain(f"{component.kind} {component.name}", "bold"))
        for label, said in content.items():
            _print_entry(label, said)
        out.print()


def _print_entry(label: str, content: Any) -> None:
    grid = Table.grid(padding=(0, 2))
    if not isinstance(content, Mapping):
        grid.add_row("", plain(label, "cyan"), str(content))
        out.print(grid)
        return
    out.print(plain(f"  {label}", "cyan"))
    for key, value in content.items():
        if label == "measures":
            value = _measure(value)
        elif isinstance(value, Mapping):
            value = "  ".join(f"{k}={v}" for k, v in value.items())
        grid.add_row("  ", key, str(value) if value != "" else "''")
    out.print(grid)


def _measure(facts: Mapping[str, Any]) -> str:
    """Return what a card says of one measure, each thing on its line."""
    better = f"{facts['better'] or 'neither direction'} is better"
    lines = [facts["formula"], f"{_range(facts['range'], facts['unit'])}; {better}"]
    if facts["probes"]:
        lines.append(f"probes: {', '.join(facts['probes'])}")
    if facts["source"]:
        lines.append(f"source: {facts['source']}")
    return "\n".join(lines)


def _range(limits: Sequence[float | None], unit: str) -> str:
    """Return a range as tables show the values."""
    # Here, since it brings numpy along.
    from edit_harness.run.report import HUNDREDTHS

    factor = 100 if unit in HUNDREDTHS else 1
    low, high = (None if limit is None else f"{factor * limit:g}" for limit in limits)
    if low is None:
        return "any number" if high is None else f"up to {high} {unit}".rstrip()
    return f"{low} to {high} {unit}".rstrip() if high else f"from {low} on, {unit}".rstrip(", ")


def show_composition(
    plugins: Plugins, name: str, settings: Mapping[str, str], model: str, as_json: bool
) -> None:
    """Print what the data of a task are made of, as they are put to a model.

    Raises `UsageError` if the name is that of something else than a task.
    """
    # Here, since it brings numpy along.
    from edit_harness.run import report

    task, tables = cards.composed(plugins, name, settings, model)
    if as_json:
        out.out(json.dumps({title: list(rows) for title, rows in tables.items()}, indent=1))
        return
    _print_entry("task", f"{name} {task.version}, {task.origin or 'its own data'}")
    for note in getattr(task, "notes", ()):
        _print_entry("note", note)
    for title, rows in tables.items():
        out.print()
        out.print(report.listed(title, rows))
