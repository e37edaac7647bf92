"""A small data folder in the schema of Seesaw-CF's authors, of invented people.

Everything is chosen here and counted in the tests: twelve people with tags and facts, two or three
edits in a set, and every person of whom the new value is true as a prompt.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

TEMPLATES = {
    "P101": "{}'s field of work is",
    "P103": "{}'s native language is",
    "P21": "{}'s gender is",
    "P27": "{} is a citizen of",
    "P19": "{} was born in",
}
VALUES = {
    "P101": ("physics", "chemistry"),
    "P103": ("French", "Danish"),
    "P21": ("female", "male"),
    "P27": ("France", "Kenya"),
    "P19": ("Paris", "Nairobi"),
}
"""Two values of each property; people have them in turn, in another rhythm for each."""
CONTINENTS = {"France": "Europe", "Kenya": "Africa", "Paris": "Europe", "Nairobi": "Africa"}
RACES = (["white"], ["Black"], ["Black", "Jewish"], [])
REGIONS = (["Western Europe"], ["Africa"], [])


def _values(i: int) -> dict[str, list[str]]:
    """Return what is true of the person of a number."""
    rhythm = {"P101": i, "P103": i // 2, "P21": i // 3, "P27": i // 2, "P19": i // 2}
    return {prop: [own[rhythm[prop] % 2]] for prop, own in VALUES.items()}


SUBJECTS: dict[str, dict[str, Any]] = {
    f"Q{i}": {
        "name": f"Person {i}",
        "gender": _values(i)["P21"][0],
        "race": RACES[i % 4],
        "geo": REGIONS[i % 3],
        "dead": i % 5 == 0,
        "values": {prop: own for prop, own in _values(i).items() if prop != "P21"},
    }
    for i in range(12)
}
"""A tag file. Q0, Q1 and Q2 are those that are edited."""
CANDIDATES: dict[str, Any] = {
    **{prop: list(own) for prop, own in VALUES.items()},
    "continents": CONTINENTS,
}


def record(name: str, person: str = "Q0", case_id: int = 0, **changes: Any) -> dict[str, Any]:
    """Return a record of a set, such as "P21_P101", in which a person gets the other value."""
    edited, _, effect = name.partition("_")
    subject = SUBJECTS[person]["name"]
    true = _of(person, edited)
    new = next(value for value in VALUES[edited] if value != true)
    others = [other for other in SUBJECTS if other != person and _of(other, edited) == new]
    told = [TEMPLATES[effect].format(subject)] if effect else [f"{subject} works on"]
    made = {
        "case_id": case_id,
        "requested_rewrite": {
            "prompt": TEMPLATES[edited],
            "relation_id": edited,
            "target_new": {"str": new, "id": f"Q-{new}"},
            "target_true": {"str": true, "id": f"Q-{true}"},
            "subject": subject,
        },
        "generation_prompts": told * 5 + [f"{subject} is"] * 5,
        "attribute_prompts": [TEMPLATES[edited].format(SUBJECTS[o]["name"]) for o in others],
        "attribute_aux_info": others,
        "attribute_aux_ent": [SUBJECTS[other]["name"] for other in others],
    }
    return made | changes


def _of(person: str, prop: str) -> str:
    own = SUBJECTS[person]
    return own["gender"] if prop == "P21" else own["values"][prop][0]


def efficacy(made: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record as in a file for efficacy: its one prompt is the edited one."""
    rewrite = made["requested_rewrite"]
    prompt = rewrite["prompt"].format(rewrite["subject"])
    return {
        "case_id": made["case_id"],
        "requested_rewrite": rewrite,
        "attribute_prompts": [prompt],
    }


def records(name: str, count: int = 2, first: int = 0) -> list[dict[str, Any]]:
    """Return the records of a set, on different people."""
    return [record(name, f"Q{i}", first + i) for i in range(count)]


def write(path: Path, data: Any) -> Path:
    """Write JSON, and return where."""
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def folder(
    path: Path,
    sets: Iterable[str] = ("P101", "P21_P101", "P27_P21"),
    only_efficacy: Iterable[str] = (),
    tags: Mapping[str, Any] | None = SUBJECTS,
    candidates: Mapping[str, Any] | None = CANDIDATES,
) -> Path:
    """Write a data folder, and return it; None leaves a file out."""
    path.mkdir(parents=True, exist_ok=True)
    for name in sets:
        write(path / f"seesaw_cf_{name}.json", records(name))
    for name in only_efficacy:
        write(path / f"seesaw_cf_{name}_eff.json", [efficacy(made) for made in records(name)])
    for file, data in (("subjects.json", tags), ("candidates.json", candidates)):
        if data is not None:
            write(path / file, data)
    return path
