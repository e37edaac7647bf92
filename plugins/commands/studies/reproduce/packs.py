"""What a reproduction pack says: the table, what is run for it, the numbers that were printed.

A pack is a file of JSON that a plugin names (`edit_harness_plugins.commands.studies.reproduce.Pack`);
docs/how-to/reproduce-a-paper.md has its keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from msgspec import Meta, Struct, json, structs

from edit_harness.errors import PluginError
from edit_harness.folder.manifest import decoded
from edit_harness.registry.registry import Plugins
from edit_harness_plugins.commands.report.papers import PRINTED, Printed

from . import Pack

Number = int | float
"""An integer stays one: 100 was printed with fewer digits than 100.0."""


class Wanted(Struct, frozen=True, forbid_unknown_fields=True):
    """A model of a table."""

    name: str
    family: str = ""


class Method(Struct, frozen=True, forbid_unknown_fields=True):
    """An editor of a table, with the fields that the table has it with."""

    editor: str
    args: Mapping[str, Any] = {}


class Leg(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of what is run: some editors on one task."""

    task: str
    args: Mapping[str, Any] = {}
    editors: tuple[str, ...] = ()
    limit: int | None = None
    metrics: tuple[str, ...] = ()
    mode: str | None = None
    """How edits share the model, where the task would have it otherwise; and how many at once, or all."""
    batch: str | None = None
    judge: str = ""
    judge_args: Mapping[str, Any] = {}


class Expected(Struct, frozen=True, forbid_unknown_fields=True):
    """A number as it was printed."""

    model: str
    editor: str
    """As the table calls it; one that is no editor of the pack is the model before any edit."""
    column: str
    value: Number
    row: str = ""
    """The value that splits the table's rows: an edited property, a task."""
    low: Number | None = None
    high: Number | None = None
    n: int = 0
    within: Number | None = None
    """Of a figure: how far another machine may be from it."""
    doubts: tuple[str, ...] = ()
    apart: str = ""
    places: int = 0

    @property
    def rounding(self) -> float:
        """By how much a printed number may be off what it was rounded from."""
        return 0.5 * 10.0**-self.places


class Contents(Struct, frozen=True, kw_only=True, rename={"legs": "runs"}):
    """What a pack says, but for what only its card shows."""

    name: str = ""
    paper: str
    table: Printed
    compares: Literal["values", "orderings", "figures"] = "values"
    """Within both intervals; which editor is above which; our own figures, within a fixed tolerance."""
    models: dict[str, Wanted]
    """By what the table calls them, in its order; so are the editors."""
    editors: Annotated[dict[str, Method], Meta(min_length=1)]
    legs: Annotated[list[Leg], Meta(min_length=1)]
    cells: Annotated[list[Expected], Meta(min_length=1)]
    differs: Sequence[str] = ()
    digits: int = 0
    within: Number | None = None
    """Of all cells that do not say it themselves."""
    unit: Annotated[float, Meta(gt=0)] = 1.0
    """What a printed 1 is as we store it: 0.01 where percentages are printed."""
    level: Annotated[float, Meta(gt=0, lt=1)] = 0.99

    @property
    def asked(self) -> list[Expected]:
        """The numbers of its models; it may have been left with some of them."""
        return [cell for cell in self.cells if cell.model in self.models]

    def edited(self, leg: Leg, model: str) -> dict[str, Method]:
        """Return the editors of a leg that the table has numbers of on a model; the first if it has none."""
        there = {cell.editor for cell in self.cells if cell.model == model}
        named = leg.editors or tuple(self.editors)
        found = {label: self.editors[label] for label in named if label in there}
        return found or {named[0]: self.editors[named[0]]}


def read(plugins: Plugins, name: str) -> Contents:
    """Return what the pack of a name says. Raises `PluginError` for one that is not there or not right."""
    component = plugins.find("pack", name)
    file = cast(type[Pack], component.load()).file
    try:
        said = json.decode(Path(file).read_bytes(), type=dict[str, Any])
        said["name"] = component.name
        if isinstance(table := said.get("table"), str):
            known = {each.name: each for each in PRINTED}
            if table not in known:
                raise ValueError(f"no table is called {table!r}")
            # Its code may have had other measures.
            measures = said.get("measures", known[table].measures)
            said["table"] = replace(known[table], measures=measures)
        contents = decoded(said, Contents)
    except (OSError, ValueError) as error:
        raise PluginError(
            f"pack {component.name!r} of {component.origin} cannot be read: {error}",
            "reinstall it or ask its author; docs/how-to/reproduce-a-paper.md says what a pack has",
        ) from None
    cells = []
    for cell in contents.cells:
        exponent = Decimal(str(cell.value)).as_tuple().exponent
        printed = -exponent if isinstance(exponent, int) else 0
        within = contents.within if cell.within is None else cell.within
        places = cell.places or max(contents.digits, printed)
        cells.append(structs.replace(cell, places=places, within=within))
    return structs.replace(contents, cells=cells)
