"""People in a file of tags: what tells groups of them apart, and what is true of them.

The file is a JSON object, {id: {"name", "gender", "race", "geo", "dead", "values"}}, or, for builders, a list
of such entries with names. Labels that differ in nothing but case or white space are one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, convert
from msgspec.structs import replace

from edit_harness.files import strict

from .inputs import json_of, refuse, text_of

BETWEEN = "|"
"""What stands between the values of one tag; none may have it."""
Label = Annotated[str, Meta(pattern=r"^[^|]*[^|\s][^|]*$")]
REMEDY = (
    'write {"Q1": {"name": "Ada", "gender": "female", "geo": ["Western Europe"]}}, with labels '
    "without '|'"
)


class Subject(Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of a person; an empty field is not known."""

    name: str = ""
    gender: Literal["male", "female", ""] = ""
    race: tuple[Label, ...] = ()
    geo: tuple[Label, ...] = ()
    values: dict[str, tuple[Label, ...]] = {}
    """Labels by property, such as {"P101": ("physics",)}."""
    dead: bool = False


def read(path: Path, *, lists: bool = False) -> list[tuple[str, Subject]]:
    """Return the people of a file by id, empty in a list. Raises `DataError` that names entries."""
    said = json_of(path, text_of(path), parse=strict)
    if not said or not isinstance(said, dict | list if lists else dict):
        refuse(path, ["expected an object with an entry for each id"], REMEDY)
    found: list[tuple[str, Subject]] = []
    problems: list[str] = []
    spelled: dict[str, str] = {}
    pairs = said.items() if isinstance(said, dict) else (("", entry) for entry in said)
    for number, (person, entry) in enumerate(pairs, 1):
        try:
            found.append((person, _subject(entry, spelled)))
            if not (person or found[-1][1].name):
                raise ValueError("the name is missing")
        except ValueError as error:
            problems.append(f"{person or f'entry {number}'}: {error}")
    refuse(path, problems, REMEDY)
    return found


def _subject(entry: Any, spelled: dict[str, str]) -> Subject:
    """Return an entry with each label as it was first spelled. Raises `ValueError`."""
    if isinstance(entry, dict):
        plain = {n: [v] for n, v in entry.items() if n in ("race", "geo") and isinstance(v, str)}
        gender = entry.get("gender")
        told = {"gender": gender.strip().lower()} if isinstance(gender, str) else {}
        entry = entry | plain | told
    own = convert(entry, Subject)
    race, geo = (
        dict.fromkeys(spelled.setdefault(" ".join(t.split()).casefold(), t.strip()) for t in texts)
        for texts in (own.race, own.geo)
    )
    values = {
        prop: tuple(dict.fromkeys(value.strip() for value in texts))
        for prop, texts in own.values.items()
    }
    return replace(own, name=own.name.strip(), race=tuple(race), geo=tuple(geo), values=values)
