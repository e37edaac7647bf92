"""The command ``show``: what a component says of itself, and what a task's data are made of."""

from __future__ import annotations

import ast
import inspect
import json
import math
import textwrap
from collections.abc import Mapping
from dataclasses import MISSING
from itertools import pairwise
from typing import Any

import click
from rich.table import Table

from edit_harness.errors import PluginError, UsageError
from edit_harness.interfaces import Control, Editor, Judge, Measure, Metric, Task
from edit_harness.registry.guard import blamed, named
from edit_harness.registry.registry import Component, Plugins, suggestion
from edit_harness.registry.settings import defaults, make_task, source_of
from edit_harness_plugins.command_line import as_json, command, settings, with_plugins
from edit_harness_plugins.composition import of_cases
from edit_harness_plugins.terminal import out, plain

Content = dict[str, Any]


@command()
@click.argument("name")
@click.option("--stats", is_flag=True, help="Count what a task's data are made of.")
@settings("--task-args", help="With --stats: the task's fields.")
@click.option("-m", "--model", default="", metavar="NAME",
              help="With --stats: whose sample, if it brings one; else pocket's.")  # fmt: skip
@as_json
@with_plugins
def show(plugins: Plugins, name: str, stats: bool, model: str, as_json: bool, **of: Any) -> None:
    """Show the card of whatever `ls` lists: an editor, a task, a metric, a judge, a model, a pack."""
    if stats:
        show_composition(plugins, name, of["task_args"], model or "pocket", as_json)
        return
    if of["task_args"] or model:
        raise UsageError("--task-args and --model say which data are counted", "add --stats")
    components = found(plugins, name)
    if not components:
        show_measures(plugins, name, as_json)
        return
    cards = [card(plugins, component) for component in components]
    if as_json:
        out.out(json.dumps(cards if len(cards) > 1 else cards[0], indent=1, default=str))
        return
    for component, content in zip(components, cards, strict=True):
        out.print(plain(f"{component.kind} {component.name}", "bold"))
        for label, said in content.items():
            print_entry(label, said)
        out.print()


def found(plugins: Plugins, name: str) -> list[Component]:
    """Return every component of a name, by kind."""
    every = (component for kind in plugins.kinds for component in plugins.of_kind(kind))
    return [each for each in every if name in (each.name, each.qualified)]


def show_measures(plugins: Plugins, name: str, as_json: bool) -> None:
    """Explain a column of a table, by each metric that has it. Raises `PluginError` if none has."""
    measures = {
        (measure, each.name): said
        for each in plugins.of_kind("metric")
        for measure, said in each.load().measures.items()
    }
    cards = {at: facts(said) for at, said in measures.items() if at[0].lower() == name.lower()}
    if not cards:
        close = suggestion(name, [c.name for c in plugins.components])
        raise PluginError(f"nothing is called {name!r}{close}", "see: edit-harness ls")
    if as_json:
        out.out(json.dumps({metric: card for (_, metric), card in cards.items()}, indent=1))
        return
    for (measure, metric), content in cards.items():
        out.print(plain(f"column {measure} of metric {metric}", "bold"))
        print_entry("measures", {measure: content})


def card(plugins: Plugins, component: Component) -> Content:
    """Return what is to be known of a component; what it does not say is left out."""
    factory, kind, name = component.load(), component.kind, component.name
    content: Content = {"summary": component.summary, "package": component.origin}
    if kind != "command":
        paragraphs = (inspect.getdoc(factory) or "").split("\n\n")
        # Each paragraph in one line, for a terminal to wrap.
        content["description"] = "\n".join(" ".join(text.split()) for text in paragraphs)
        content |= {name: getattr(factory, name, "") for name in ("citation", "needs")}
        with blamed(f"{named(kind, name, factory)} cannot be described", factory):
            content |= of_kind(plugins, factory)
            if hasattr(factory, "card"):
                content |= factory.card()
            # The fields of an adaptor are an edit's contents, not settings.
            fields = {} if kind == "adaptor" else defaults(factory)
        words = {MISSING: "(has to be given)", None: "(from the preset)"}
        told = sentences(factory) if fields else {}
        content["fields"] = {
            key: {
                "default": next((text for it, text in words.items() if value is it), value),
                "help": told.get(key, ""),
            }
            for key, value in fields.items()
        }
    return {label: said for label, said in content.items() if said}


def sentences(factory: type) -> dict[str, str]:
    """Return what the texts below a class's fields, and those of its bases, say of them."""
    told = {}
    for base in reversed(factory.__mro__):
        try:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        except (OSError, TypeError, SyntaxError, ValueError):  # there is no source
            continue
        for one, other in pairwise(getattr(tree, "body", ())):
            match one, other:
                case (ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text)))):
                    told[name] = " ".join(text.split())
    return told


def of_kind(plugins: Plugins, factory: Any) -> Content:
    """Return what is to be known of a component for what it is."""
    if issubclass(factory, Editor):
        presets = factory.presets.items()
        return {"presets": {family: {**p.values, "from": str(p)} for family, p in presets}}
    if issubclass(factory, Metric):
        return {"measures": {name: facts(measure) for name, measure in factory.measures.items()}}
    if issubclass(factory, Task):
        summaries = {c.name: c.summary for c in plugins.of_kind("metric")}
        return {
            "version": factory.version,
            "protocol": factory.asks,
            "data": dict(factory.dataset()),
            "regime": str(factory.regime),
            "judge": factory.judge,
            "metrics": {name: summaries.get(name, "not installed") for name in factory.metrics},
        }
    known = {Judge: ("version", "kinds"), Control: ("version", "takes", "note")}
    names = next((names for kind, names in known.items() if issubclass(factory, kind)), ())
    return {name: getattr(factory, name) for name in names}


def facts(measure: Measure) -> Content:
    """Return what a measure says of itself; an end of its range that is open is None."""
    return {
        "formula": measure.formula,
        "range": [limit if math.isfinite(limit) else None for limit in measure.limits],
        "unit": measure.unit,
        "better": measure.better,
        "probes": list(measure.probes),
        "source": measure.source,
        "detail": measure.detail,
    }


def print_entry(label: str, content: Any) -> None:
    """Print a label, and what is said under it."""
    grid = Table.grid(padding=(0, 2))
    if not isinstance(content, Mapping):
        grid.add_row("", plain(label, "cyan"), str(content))
        out.print(grid)
        return
    for key, value in content.items():
        if label == "measures":
            value = _measure(value)
        elif label == "fields":
            default = "''" if value["default"] == "" else value["default"]
            value = f"{default}\n{value['help']}".rstrip()
        elif isinstance(value, Mapping):
            value = "  ".join(f"{k}={v}" for k, v in value.items())
        grid.add_row("  ", key, str(value) if value != "" else "''")
    out.print(plain(f"  {label}", "cyan"), grid, sep="\n")


def _measure(facts: Mapping[str, Any]) -> str:
    # Here, since it brings numpy along.
    from edit_harness.run.report import HUNDREDTHS

    factor = 100 if facts["unit"] in HUNDREDTHS else 1
    low, high = ("any" if limit is None else f"{factor * limit:g}" for limit in facts["range"])
    limits = f"{low} to {high} {facts['unit']}".rstrip()
    lines = [facts["formula"], f"{limits}; {facts['better'] or 'neither direction'} is better"]
    lines += [f"probes: {', '.join(facts['probes'])}"] if facts["probes"] else []
    lines += [f"source: {facts['source']}"] if facts["source"] else []
    return "\n".join(lines)


def show_composition(
    plugins: Plugins, name: str, settings: Mapping[str, str], model: str, as_json: bool
) -> None:
    """Print what the data of a task are made of, as they are put to a model. Raises `HarnessError`."""
    # Here, since it brings numpy along.
    from ..report.formats import listed

    task: Task = make_task(plugins, name, settings, source_of(plugins, model), seed=0).value
    with blamed(f"{named('task', name, task)} failed to count its data", task):
        tables = task.composition() or of_cases(task.cases())
    if as_json:
        out.out(json.dumps({title: list(rows) for title, rows in tables.items()}, indent=1))
        return
    print_entry("task", f"{name} {task.version}, {task.origin or 'its own data'}")
    for note in getattr(task, "notes", ()):
        print_entry("note", note)
    for title, rows in tables.items():
        out.print("", listed(title, rows), sep="\n")
