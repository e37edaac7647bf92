"""Reads the authors' tables: of ethnic groups, of what Wikidata said of people, and of the values of properties."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import convert

from edit_harness import DataError
from edit_harness_plugins.inputs import Layout, json_of, text_of

GENDER, GROUP, DEATH = "P21", "P172", "P570"
HEADERS = {"Code", "case_id"}
"""What the first named column of a header is called."""
NOWHERE = {"", "None"}
"""What the authors' tables say of a value that is on no continent."""
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
        for code, _, _, geo, race, *_ in rows(path, 5):
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
        table = rows(path, 1)
        if not table or table[0][0] != "Name":
            raise DataError(f"{path} has no column Name", "give the authors' table as it is")
        for row in table[2:]:  # the second has the properties' names
            cells = zip(table[0], row, strict=False)
            yield Person(row[0], {prop: ids.split(", ") for prop, ids in cells if ids != "N/A"})


def different(texts: Iterable[str]) -> list[str]:
    """Return each text once, without empty ones."""
    return list(dict.fromkeys(filter(None, texts)))


def rows(path: Path, cells: int) -> list[list[str]]:
    """Return the rows of one of the authors' tables in CSV, each with at least so many cells.

    Some have a header and some have none, one kind has a column of row numbers without a name, and
    cells have white space at their ends. Raises `DataError` that names file and line if one has fewer, or the file is no such table.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream)
            lined = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is no table in CSV: {error}") from None
    if lined and not lined[0][1][0]:
        lined = [(line, row[1:]) for line, row in lined]
    if lined and lined[0][1][0] in HEADERS:
        lined = lined[1:]
    for line, row in lined:
        if len(row) < cells:
            raise DataError(
                f"{path}:{line}: has {len(row)} cells, expected {cells}",
                "give the authors' table as it is",
            )
    return [row for _, row in lined]


class Known(NamedTuple):
    """What tables say of the values of properties, see `candidates.Values`."""

    labels: dict[str, dict[str, str]]
    continents: dict[str, dict[str, str]]
    fields: dict[str, str]


def values_in(folder: Path) -> Known:
    """Return what a folder's tables say of the values of properties."""
    labels: dict[str, dict[str, str]] = {}
    continents: dict[str, dict[str, str]] = {}
    fields: dict[str, str] = {}
    if (path := folder / "fow.csv").is_file():
        work = rows(path, 2)
        labels["P101"] = {code: label for code, label, *_ in work}
        fields = _placed((row[1], row[2]) for row in work if row[2:])
    if (path := folder / "P27_cats.csv").is_file():
        countries = rows(path, 3)
        labels["P27"] = {code: label for code, label, *_ in countries}
        continents["P27"] = _placed((label, where) for _, label, where, *_ in countries)
    if (path := folder / "city_to_country.csv").is_file():
        # Two tables side by side, the id and the country of birthplaces, and the id and the name: a
        # row's halves are on different places, and the second table is the shorter one.
        found = rows(path, 4)
        labels["P19"] = {code: label for _, _, code, label, *_ in found if code}
        country = {code: land for code, land, *_ in found}
        codes = folder / "country_codes.csv"
        where = {name: on for name, _, on, *_ in rows(codes, 3)} if codes.is_file() else {}
        continents["P19"] = _placed(
            (label, where.get(country.get(code, ""), "")) for code, label in labels["P19"].items()
        )
    return Known(labels, continents, fields)


def _placed(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {label: continent for label, continent in pairs if continent not in NOWHERE}
