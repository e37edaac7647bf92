"""The papers' tables and figures that have numbers, and how each is made again: papers.json, shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, json, structs

from edit_harness.registry.registry import Plugins
from edit_harness_plugins.commands.report.formats import Grid


class Item(Struct, frozen=True, forbid_unknown_fields=True):
    """A table or a figure: packs that make it again, or the command that prints it, or why there is none."""

    what: str
    shows: str
    packs: tuple[str, ...] = ()
    command: str = ""
    why: str = ""

    @property
    def state(self) -> str:
        """How a reader gets it, in words."""
        way = ", ".join(f"pack {name}" for name in self.packs) or self.command
        return "; ".join(filter(None, (way, self.why))) if way else f"none: {self.why}"


class Paper(Struct, frozen=True, forbid_unknown_fields=True):
    """What is listed of a paper."""

    name: str
    source: str
    items: Sequence[Item]
    notes: Sequence[str] = ()


def listed(plugins: Plugins) -> tuple[list[Mapping[str, Any]], list[Grid]]:
    """Return the list as data and as tables, those packs at its end that are of none of the papers."""
    file = Path(__file__).with_name("papers.json")
    papers = json.decode(file.read_bytes(), type=list[Paper])
    named = {name for paper in papers for item in paper.items for name in item.packs}
    packs = [each for each in plugins.of_kind("pack") if each.name not in named]
    others = [Item("", each.summary, (each.name,)) for each in packs]
    papers += [Paper("Others", "of no paper above", others)] if others else []
    data = [{"paper": p.name, **structs.asdict(item)} for p in papers for item in p.items]
    grids = []
    for paper in papers:
        rows = [((item.what, item.shows, item.state), []) for item in paper.items]
        heads = ["", "shows", "made again by"]
        grids.append(Grid(f"{paper.name}: {paper.source}", heads, [], rows, paper.notes))
    return data, grids
