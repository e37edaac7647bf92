"""Reads the authors' tables of people: ethnic groups, and what Wikidata said of subjects and of edited people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import convert

from edit_harness import DataError
from edit_harness_plugins.inputs import Layout, json_of, text_of

from . import files

GENDER, GROUP, DEATH = "P21", "P172", "P570"
VALUED = ("P101", "P27", "P19")
"""The properties whose values are known by label."""
USED = (GENDER, GROUP, DEATH, *VALUED)


class Person(NamedTuple):
    """What Wikidata says of a person."""

    name: str
    properties: dict[str, list[str]]
    """Ids of values, or dates, by property."""


class Group(NamedTuple):
    """What a table says of an ethnic group; an empty text is nothing."""

    geo: str
    race: str


Groups = Mapping[str, Sequence[Group]]
"""What all tables say of each group, by its id."""


class Info(Layout):
    """An entry of the authors' files of subjects."""

    name: str
    properties: dict[str, list[Any]]


def groups_in(folder: Path) -> Groups:
    """Return the ethnic groups of a folder's tables. Raises `DataError` for one of another layout."""
    said: dict[str, dict[str, Group]] = {}
    for path in sorted(folder.glob("*_ethnic_groups.csv")):
        for code, _, _, geo, race, *_ in files.rows(path, 5):
            # The one race that the authors spell in two ways.
            group = Group(geo, "Black" if race == "black" else race)
            said.setdefault(code, {})[path.name] = group
    return {code: tuple(own.values()) for code, own in said.items()}


def people_in(folder: Path) -> dict[str, Person]:
    """Return the people of the authors' files of subjects, with what each says of them."""
    found: dict[str, Person] = {}
    for path in sorted(folder.glob("*_subject_info.json")):
        try:
            said = convert(json_of(path, text_of(path)), dict[str, Info])
        except ValueError as error:
            raise DataError(
                f"{path} is not of the layout: {error}",
                '{ID: {"name": ..., "properties": {"P21": [...], ...}}}',
            ) from None
        for person, info in said.items():
            _add(found, person, Person(info.name, info.properties))
    ids = {known.name: person for person, known in found.items()}
    for edited in edited_in(folder):
        _add(found, ids.get(edited.name, edited.name), edited)
    if not found:
        raise DataError(
            f"{folder} has no file *_subject_info.json, and no *_subj.csv",
            "name the folder of the authors' files, or ask Wikidata: --data wikidata",
        )
    return found


def _add(found: dict[str, Person], person: str, said: Person) -> None:
    own = found.setdefault(person, Person(said.name, {})).properties
    for prop in filter(said.properties.__contains__, USED):
        own[prop] = different([*own.get(prop, ()), *map(str, said.properties[prop])])


def edited_in(folder: Path) -> Iterator[Person]:
    """Yield the people of the authors' tables of edited subjects, which have no ids.

    A column is a property, a cell the ids of its values, or N/A. Raises `DataError` for another layout.
    """
    for path in sorted(folder.rglob("*_subj.csv")):
        rows = files.rows(path, 1)
        if not rows or rows[0][0] != "Name":
            raise DataError(f"{path} has no column Name", "give the authors' table as it is")
        for row in rows[2:]:  # the second has the properties' names
            cells = zip(rows[0], row, strict=False)
            yield Person(row[0], {prop: ids.split(", ") for prop, ids in cells if ids != "N/A"})


def different(texts: Iterable[str]) -> list[str]:
    """Return each text once, without empty ones."""
    return list(dict.fromkeys(filter(None, texts)))
