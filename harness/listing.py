"""What is installed: the commands ``ls``, ``plugins`` and ``show``. No model is loaded."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from edit_harness.errors import PluginError
from edit_harness.fields import defaults
from edit_harness.interfaces import Editor, Metric, Task
from edit_harness.plugins import KINDS, Component, Plugins, suggestion

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

Row = Mapping[str, Any]


def show_kinds(plugins: Plugins, kinds: Sequence[str], results: Path, as_json: bool) -> None:
    """Print what there is of each kind."""
    rows = {kind: list(_rows(plugins, kind, results)) for kind in kinds}
    if as_json:
        out.out(json.dumps(rows, indent=1))
    else:
        for kind, found in rows.items():
            out.print(_table(kind, found))
            out.print()
    for failure in plugins.failures if not as_json else ():
        err.print(Text(f"broken   {failure}"))


def _rows(plugins: Plugins, kind: str, results: Path) -> Iterable[Row]:
    if kind == "runs":
        return _runs(results)
    if kind == "plugins":
        return _plugins(plugins)
    return (
        {"name": c.name, "package": f"{c.distribution} {c.version}", "what": c.summary}
        for c in plugins.of_kind(kind.removesuffix("s"))
    )


def _plugins(plugins: Plugins) -> Iterable[Row]:
    packages: dict[tuple[str, str], list[str]] = {}
    for c in plugins.components:
        packages.setdefault((c.distribution, c.version), []).append(f"{c.kind} {c.name}")
    for (name, version), provides in packages.items():
        yield {"name": name, "version": version, "provides": ", ".join(provides)}
    for f in plugins.failures:
        yield {"name": f.distribution, "version": f.version, "provides": f"BROKEN: {f.reason}"}


def _runs(results: Path) -> Iterable[Row]:
    for manifest in sorted(results.glob("*/manifest.json")):
        planned = len(json.loads(manifest.read_text(encoding="utf-8")).get("cases", ()))
        samples = manifest.with_name("samples.jsonl")
        lines = samples.read_bytes().count(b"\n") if samples.exists() else 0
        yield {"name": str(manifest.parent), "cases": f"{min(lines, planned)}/{planned}"}


def _table(title: str, rows: Sequence[Row]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, show_header=False)
    for key in rows[0] if rows else ():
        table.add_column(key, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(value)) for value in row.values()))
    return table


def show_card(plugins: Plugins, name: str, as_json: bool) -> None:
    """Print the card of every component of a name. Raises `PluginError` if there is none."""
    found = [c for c in plugins.components if name in (c.name, c.qualified)]
    if not found:
        known = [c.name for c in plugins.components]
        raise PluginError(
            f"nothing is called {name!r}{suggestion(name, known)}", "see: edit-harness ls"
        )
    cards = [card(component) for component in found]
    if as_json:
        out.out(json.dumps(cards if len(cards) > 1 else cards[0], indent=1, default=str))
        return
    for component, content in zip(found, cards, strict=True):
        out.print(Text(f"{component.kind} {component.name}", style="bold"))
        for label, text in content.items():
            _print_entry(label, text)
        out.print()


def card(component: Component) -> dict[str, Any]:
    """Return what is to be known of a component."""
    factory = component.load()
    content: dict[str, Any] = {
        "summary": component.summary,
        "package": f"{component.distribution} {component.version}",
        "description": unwrapped(inspect.getdoc(factory) or ""),
    }
    if citation := getattr(factory, "citation", ""):
        content["citation"] = citation
    if needs := getattr(factory, "needs", ""):
        content["needs"] = needs
    # The fields of an adaptor are an edit's contents, not settings.
    if component.kind != "adaptor" and (fields := defaults(factory)):
        content["fields"] = {k: "(from the preset)" if v is None else v for k, v in fields.items()}
    if issubclass(factory, Editor) and factory.presets:
        content["presets"] = {
            family: {**preset.values, "from": str(preset)}
            for family, preset in factory.presets.items()
        }
    if issubclass(factory, Metric):
        content["measures"] = {
            name: f"{m.formula}; {m.unit or 'no unit'}; {m.better or 'neither'} is better"
            for name, m in factory.measures.items()
        }
    if issubclass(factory, Task):
        content["version"] = factory.version
        content["metrics"] = ", ".join(factory.metrics)
    if component.kind in KINDS[:2]:
        content["example"] = f"edit-harness --{component.kind} {component.name}"
    return content


def unwrapped(text: str) -> str:
    """Return a docstring with each paragraph on one line, for a terminal to wrap."""
    return "\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _print_entry(label: str, content: Any) -> None:
    grid = Table.grid(padding=(0, 2))
    if not isinstance(content, Mapping):
        grid.add_row("", Text(label, style="cyan"), Text(str(content)))
        out.print(grid)
        return
    out.print(Text(f"  {label}", style="cyan"))
    for key, value in content.items():
        if isinstance(value, Mapping):
            value = "  ".join(f"{k}={v}" for k, v in value.items())
        grid.add_row("  ", key, Text(str(value) if value != "" else "''"))
    out.print(grid)
