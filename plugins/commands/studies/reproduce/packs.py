"""What a reproduction pack says: the table, what is run for it, the numbers that were printed.

A pack is a file of JSON that a plugin names (`edit_harness_plugins.commands.studies.reproduce.Pack`); here it is read and
checked, and nothing is run. What a table's columns measure stands in `edit_harness_plugins.commands.report.papers`, by the
table's name; a table that no paper has is described in the pack itself. How a number of ours is held
against a printed one stands in `edit_harness_plugins.commands.studies.reproduce.tolerances`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args

from edit_harness.errors import PluginError
from edit_harness.registry.registry import Component, Plugins
from edit_harness_plugins.commands.report.papers import PRINTED, Printed

from . import Pack

Comparing = Literal["values", "orderings", "figures"]
"""values: within both intervals; orderings: which editor is above which; figures: the project's own, of
the same cases, within a fixed tolerance."""
Made = TypeVar("Made")


@dataclass(frozen=True)
class Wanted:
    """A model of a table."""

    name: str
    """Where it is: a registered name, a folder or a name on the hub."""
    family: str = ""
    """As `edit_harness.registry.settings` recognises it: a copy in a folder is the same model."""


@dataclass(frozen=True)
class Method:
    """An editor of a table, with the fields that the table has it with."""

    editor: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Leg:
    """A part of what is run: some editors on one task."""

    task: str
    args: Mapping[str, Any] = field(default_factory=dict)
    editors: tuple[str, ...] = ()
    """As the table calls them; empty for all."""
    limit: int | None = None
    """The first cases only, where the table is of them."""
    metrics: tuple[str, ...] = ()
    """Instead of the task's own."""
    mode: str | None = None
    """How edits share the model, where the task would have it otherwise; and how many at once, or all."""
    batch: str | None = None
    judge: str = ""


@dataclass(frozen=True)
class Expected:
    """A number as it was printed."""

    model: str
    editor: str
    """As the table calls it; one that is no editor of the pack is the model before any edit."""
    column: str
    value: float
    row: str = ""
    """The value that splits the table's rows: an edited property, a task."""
    low: float | None = None
    high: float | None = None
    n: int = 0
    """How many cases it was printed of; 0 if that is not known."""
    within: float | None = None
    """Of a figure: how far another machine may be from it."""
    doubts: tuple[str, ...] = ()
    """What is doubtful about what was printed."""
    apart: str = ""
    """Why nothing of ours can be compared with it; empty if something can."""
    places: int = 0
    """Digits behind the point as printed."""

    @property
    def rounding(self) -> float:
        """By how much a printed number may be off what it was rounded from."""
        return 0.5 * 10.0**-self.places


@dataclass(frozen=True)
class Contents:
    """A pack that was read."""

    name: str
    paper: str
    table: Printed
    compares: Comparing
    models: Mapping[str, Wanted]
    """By what the table calls them, in its order; so are the editors."""
    editors: Mapping[str, Method]
    legs: Sequence[Leg]
    cells: Sequence[Expected]
    needs: str = ""
    hours: str = ""
    """How long it takes, in words, and how that is known."""
    differs: Sequence[str] = ()
    """What cannot be matched or is known to be otherwise, a sentence each."""
    unit: float = 1.0
    """What a printed 1 is as we store it: 0.01 where percentages are printed."""
    level: float = 0.99
    """Of the printed intervals."""

    def of_models(self, labels: Sequence[str]) -> Contents:
        """Return the pack with some of its models; the numbers of the others tell how a column spreads."""
        return replace(self, models={label: self.models[label] for label in labels})

    @property
    def asked(self) -> list[Expected]:
        """The numbers of its models."""
        return [cell for cell in self.cells if cell.model in self.models]

    def edited(self, leg: Leg, model: str) -> dict[str, Method]:
        """Return the editors of a leg that the table has numbers of on a model.

        Where it has but numbers from before any edit, that is the first editor of the leg.
        """
        there = {cell.editor for cell in self.cells if cell.model == model}
        named = leg.editors or tuple(self.editors)
        found = {label: self.editors[label] for label in named if label in there}
        return found or {named[0]: self.editors[named[0]]}


def read(plugins: Plugins, name: str) -> Contents:
    """Return what the pack of a name says.

    Raises `PluginError` for a pack that is not installed, or says something that it cannot mean.
    """
    component = plugins.find("pack", name)
    factory = cast(type[Pack], component.load())
    try:
        said = json.loads(Path(factory.file).read_text(encoding="utf-8"))
        return checked(_contents(component.name, said), plugins)
    except OSError as error:
        raise _wrong(component, f"{error.filename}: {error.strerror}") from None
    except KeyError as error:
        raise _wrong(component, f"there is no {error}") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise _wrong(component, str(error)) from None


def checked(contents: Contents, plugins: Plugins) -> Contents:
    """Return contents that fit together. Raises `ValueError` for others, `PluginError` for plugins missing."""
    for cell in contents.cells:
        _among("model", cell.model, contents.models)
        if contents.table.split == "task":
            _among("task", cell.row, contents.table.tasks)
        if not (contents.table.by or contents.table.groups):
            _among("column", cell.column, contents.table.measures)
    for leg in contents.legs:
        _among("task", leg.task, contents.table.tasks)
        plugins.find("task", leg.task)
        for label in leg.editors:
            _among("editor", label, contents.editors)
        for name in leg.metrics:
            plugins.find("metric", name)
    for method in contents.editors.values():
        plugins.find("editor", method.editor)
    if not contents.unit > 0:
        raise ValueError(f"unit is {contents.unit}, and has to be above 0")
    if not 0 < contents.level < 1:
        raise ValueError(f"level is {contents.level}, and has to be between 0 and 1")
    if not (contents.editors and contents.legs and contents.cells):
        raise ValueError("a pack has editors, runs and cells, and here one of them is empty")
    return contents


def _among(what: str, name: str, known: Mapping[str, Any]) -> None:
    if name not in known:
        raise ValueError(f"{name!r} is no {what} of it: {', '.join(known)}")


def _contents(name: str, said: Any) -> Contents:
    if not isinstance(said, dict):
        raise TypeError(f"it is a {type(said).__name__}, and no table of names")
    if (compares := said.get("compares", "values")) not in get_args(Comparing):
        raise ValueError(f"it compares {compares!r}, and not {' or '.join(get_args(Comparing))}")
    places = int(said.get("digits", 0))
    return Contents(
        name=name,
        paper=str(said["paper"]),
        table=_table(said),
        compares=compares,
        models={label: _of(Wanted, each) for label, each in said["models"].items()},
        editors={label: _of(Method, each) for label, each in said["editors"].items()},
        legs=[_of(Leg, each) for each in said["runs"]],
        cells=[_cell({"within": said.get("within"), **each}, places) for each in said["cells"]],
        **{key: said[key] for key in ("needs", "hours", "differs", "unit", "level") if key in said},
    )


def _table(said: Mapping[str, Any]) -> Printed:
    """Return the table: one of a paper's, with other measures where its code had others; or its own."""
    if not isinstance(said["table"], str):
        return _of(Printed, said["table"])
    found = next((table for table in PRINTED if table.name == said["table"]), None)
    if found is None:
        raise ValueError(f"no table is called {said['table']!r}")
    return replace(found, measures=said.get("measures", found.measures))


def _cell(said: Mapping[str, Any], places: int) -> Expected:
    for key in ("value", "low", "high", "within", "n"):
        if (number := said.get(key)) is not None and not _is_number(number):
            raise ValueError(f"{key} is {number!r}, which is no number")
    exponent = Decimal(str(said["value"])).as_tuple().exponent
    shown = -exponent if isinstance(exponent, int) else 0
    return _of(Expected, {"places": max(places, shown), **said})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _of(kind: Callable[..., Made], said: Mapping[str, Any]) -> Made:
    """Return what a mapping says, with tuples for lists. Raises `TypeError` for what it cannot have."""
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in said.items()})


def _wrong(component: Component, what: str) -> PluginError:
    return PluginError(
        f"pack {component.name!r} of {component.origin} cannot be read: {what}",
        "reinstall it or ask its author; docs/reproducing.md says what a pack has",
    )
