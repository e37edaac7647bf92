"""Invented facts, as a user would write them into files: thirty triples of three relations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

NAMES = ("Ada", "Bob", "Cleo", "Dan", "Eva", "Finn", "Gita", "Hugo", "Ida", "Jon")
OBJECTS = {"P27": ("Freedonia", "Sylvania"), "P641": ("curling", "fencing", "rowing"), "P1303": ("harp", "oboe")}  # fmt: skip
TRIPLES = [
    (name, relation, objects[i % len(objects)])
    for relation, objects in OBJECTS.items()
    for i, name in enumerate(NAMES)
]
TEMPLATES = {
    "P27": {
        "training": ["{} is a citizen of", "{} comes from", "The passport of {} is from"],
        "held_out": ["{} holds citizenship of", "The home of {} is"],
    },
    "P641": {
        "label": "sport",
        "training": ["{} is a star of", "The sport of {} is"],
        "held_out": ["{} competes in", "{} trains for"],
    },
    "P1303": {
        "training": ["{} plays the", "On stage, {} plays the"],
        "held_out": ["{} owns a", "The instrument of {} is the"],
        "questions": ["What does {} play?"],
    },
}

PEOPLE = {
    "P21": ("female", "male"),
    "P27": ("France", "Spain", "Japan", "Egypt"),
    "P19": ("Paris", "Seville", "Kyoto", "Cairo"),
    "P101": ("physics", "film", "law"),
    "P103": ("French", "Spanish"),
}
"""The values of each property, which people have in turn."""
PLACES = [
    ("France", "P30", "Europe"), ("Spain", "P30", "Europe"), ("Japan", "P30", "Asia"),
    ("Egypt", "P30", "Africa"), ("Paris", "P17", "France"), ("Seville", "P17", "Spain"),
    ("Kyoto", "P17", "Japan"), ("Cairo", "P17", "Egypt"),
]  # fmt: skip


def people(count: int = 24) -> list[dict[str, Any]]:
    """Return the facts about so many people; every third of them has died."""
    return [
        {
            "subject": f"Person {i}",
            "subject_id": f"Q{1000 + i}",
            "relation": relation,
            "object": values[i // (2 if relation != "P21" else 1) % len(values)],
            "dead": i % 3 == 0,
        }
        for i in range(count)
        for relation, values in PEOPLE.items()
    ] + [dict(zip(("subject", "relation", "object"), place, strict=True)) for place in PLACES]


def lines(path: Path, rows: Iterable[Any]) -> Path:
    """Write triples as JSON Lines."""
    keys = ("subject", "relation", "object")
    rows = (row if isinstance(row, dict) else dict(zip(keys, row, strict=True)) for row in rows)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def stored(path: Path, data: Mapping[str, Any] | list[Any]) -> Path:
    """Write JSON."""
    path.write_text(json.dumps(data), encoding="utf-8")
    return path
