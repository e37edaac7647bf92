"""The papers' tables and figures that have numbers, and how each is made again: papers.json, shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edit_harness.registry.registry import Plugins
from edit_harness_plugins.commands.report.formats import Grid, Row

NONE = {"what": "", "shows": "", "packs": [], "command": "", "why": ""}
"""An item: packs that make it again, or the command that prints it, or why there is neither."""


def listed(plugins: Plugins) -> tuple[list[dict[str, Any]], list[Grid]]:
    """Return the list as data and as tables, those packs at its end that are of none of the papers."""
    papers = json.loads(Path(__file__).with_name("papers.json").read_text(encoding="utf-8"))
    data = [{"paper": p["name"], **NONE, **item} for p in papers for item in p["items"]]
    named = {name for item in data for name in item["packs"]}
    others = [each for each in plugins.of_kind("pack") if each.name not in named]
    data += [{"paper": "", **NONE, "shows": c.summary, "packs": [c.name]} for c in others]
    grids = []
    for paper in [*papers, {"name": "", "source": "Of none of these papers"}]:
        own = [item for item in data if item["paper"] == paper["name"]]
        rows: list[Row] = [([each["what"], each["shows"], _state(each)], []) for each in own]
        title = ": ".join(filter(None, (paper["name"], paper["source"])))
        heads = ["", "shows", "made again by"]
        grids += [Grid(title, heads, [], rows, paper.get("notes", ()))] if rows else []
    return data, grids


def _state(item: Mapping[str, Any]) -> str:
    way = ", ".join(f"pack {name}" for name in item["packs"]) or item["command"]
    return "; ".join(filter(None, (way, item["why"]))) if way else f"none: {item['why']}"
