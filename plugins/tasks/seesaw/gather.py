"""Makes a tag file: from the authors' tables of ethnic groups, and what Wikidata says of people.

That is either in the authors' files of subjects or asked for (`edit_harness_plugins.tasks.seesaw.
wikidata`); the mapping to tags is the same. How the file is read stands in `subjects`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edit_harness import DataError, Making
from edit_harness.files import replacing

from .._files.records import Record, kind_of
from . import candidates, files, subjects, wikidata
from .candidates import GENDERS
from .tables import rows
from .wikidata import DEATH, GENDER, GROUP, USED, VALUED, Person

RACES = ("white", "Black", "Jewish", "Arab", "East Asian", "Southeast Asian", "North Asian",
         "Central Asian", "South Asian", "Latine", "Indigenous", "Romani", "multiracial")  # fmt: skip
SPELLED = {name.casefold(): name for name in RACES}
"""How a race is written, whatever a table does with capital letters."""


@dataclass(frozen=True)
class Group:
    """What a table says of an ethnic group; an empty text is nothing."""

    name: str
    geo: str
    race: str


Groups = Mapping[str, Sequence[Group]]
"""What all tables say of each group, by its id."""


def groups_in(folder: Path) -> tuple[Groups, list[str]]:
    """Return the ethnic groups of a folder's tables, and what differs in the tables.

    Raises `DataError` for a table that is not of the layout.
    """
    said: dict[str, dict[str, Group]] = {}
    differences: list[str] = []
    for path in sorted(folder.glob("*_ethnic_groups.csv")):
        for code, _, name, geo, written, *_ in rows(path, 5):
            race = SPELLED.get(written.casefold(), written)
            if race != written:
                differences.append(f"{name} ({code}): {written!r} in {path.name} is {race!r}")
            said.setdefault(code, {})[path.name] = Group(name, geo, race)
    for code, own in said.items():
        differences += _differences(code, own)
    return {code: tuple(own.values()) for code, own in said.items()}, differences


def _differences(code: str, said: Mapping[str, Group]) -> Iterator[str]:
    """Say in what the tables that have a group differ on it."""
    for field in ("geo", "race"):
        told = {file: getattr(group, field) or "none" for file, group in said.items()}
        if len(set(told.values())) > 1:
            name = next(iter(said.values())).name
            each = ", ".join(f"{value} in {file}" for file, value in told.items())
            yield f"{name} ({code}): {field} is {each}; all that is said counts"


def people_in(folder: Path) -> dict[str, Person]:
    """Return the people of the authors' files of subjects. Raises `DataError`."""
    found: dict[str, Person] = {}
    for path in sorted(folder.glob("*_subject_info.json")):
        try:
            said = json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path} is not JSON: {error}", "it is damaged or cut off") from None
        if not isinstance(said, dict):
            raise DataError(f"{path} is {kind_of(said)}, expected an object with an entry per id")
        for person, entry in said.items():
            found[person] = _merged(_person(path, person, entry), found.get(person))
    if not found:
        raise DataError(
            f"{folder} has no file *_subject_info.json",
            "name the folder of the authors' files, or ask Wikidata: --data wikidata",
        )
    return found


def _person(path: Path, person: str, entry: Any) -> Person:
    """Return an entry of a file, with the properties that are used."""
    try:
        name, properties = entry["name"], entry["properties"]
        own = {prop: [str(v) for v in properties[prop]] for prop in USED if prop in properties}
    except (KeyError, TypeError) as error:
        raise DataError(
            f"{path}: {person}: not of the layout ({type(error).__name__}: {error})",
            '{"name": ..., "properties": {"P21": [...], ...}}',
        ) from None
    return Person(str(name), own)


def _merged(said: Person, before: Person | None) -> Person:
    """Return what two files say of a person; neither knows what is true."""
    if before is None:
        return said
    both = dict(before.properties)
    for prop, own in said.properties.items():
        both[prop] = _different([*both.get(prop, ()), *own])
    return Person(before.name, both)


def tagged(
    people: Mapping[str, Person], groups: Groups, labels: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, Any]]:
    """Return the entries of a tag file for people, by their ids.

    A person of several groups has the tags of each. Values whose label is not known are left out.
    """
    return {person: _entry(said, groups, labels) for person, said in people.items()}


def _entry(said: Person, groups: Groups, labels: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    own = [group for code in said.properties.get(GROUP, ()) for group in groups.get(code, ())]
    genders = {GENDERS.get(code, "") for code in said.properties.get(GENDER, ())}
    known = {
        prop: [labels[prop][code] for code in said.properties.get(prop, ()) if code in labels[prop]]
        for prop in VALUED
        if prop in labels
    }
    return {
        "name": said.name,
        # Whoever has both genders, or another one, has no tag, as in the authors' filter.
        "gender": genders.pop() if len(genders) == 1 else "",
        "race": _different(group.race for group in own),
        "geo": _different(group.geo for group in own),
        "dead": bool(said.properties.get(DEATH)),
        "values": {prop: _different(values) for prop, values in known.items() if values},
    }


def _different(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(filter(None, texts)))


def counted(entries: Mapping[str, Mapping[str, Any]], people: Mapping[str, Person]) -> str:
    """Say how many people have each tag, and how many values had no label."""
    have = Counter(
        name
        for entry in entries.values()
        for name in ("gender", "race", "geo", "dead", "values")
        if entry[name]
    )
    told = ", ".join(f"{have[name]:,} {name}" for name in ("gender", "race", "geo", "dead"))
    values = sum(len(p.properties.get(prop, ())) for p in people.values() for prop in VALUED)
    kept = sum(len(own) for entry in entries.values() for own in entry["values"].values())
    return (
        f"{len(entries):,} people: {told}; {kept:,} of {values:,} values of {', '.join(VALUED)} "
        "have a label in the tables"
    )


def save(entries: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Write a tag file, whole or not at all."""
    lines = (
        f"{json.dumps(person)}: {json.dumps(entry, ensure_ascii=False)}"
        for person, entry in sorted(entries.items())
    )
    with replacing(path) as partial:
        partial.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def make_tags(making: Making, tables: Path, records: Sequence[Record], origin: str) -> None:
    """Make the file of tags from the authors' tables in a folder. Raises `DataError`.

    Wikidata is asked of the people in ``records``, if there are any; ``origin`` is what errors call them.
    """
    people = _asked_of_wikidata(making, records, origin) if records else people_in(tables)
    groups, differences = groups_in(tables)
    if not groups:
        making.report(f"{tables} has no *_ethnic_groups.csv, so nobody has race or region")
    for difference in differences:
        making.report(difference)
    entries = tagged(people, groups, candidates.known(tables).labels)
    save(entries, making.folder / subjects.FILE)
    making.report(counted(entries, people))
    making.report(f"saved    {making.folder / subjects.FILE}")


def _asked_of_wikidata(making: Making, records: Sequence[Record], origin: str) -> dict[str, Person]:
    asked = files.people(records)
    known = wikidata.known_ids(asked)
    if not known:
        raise DataError(
            f"no prompt of {origin} is on somebody with an id of Wikidata",
            "the people of a sample are made up: name the authors' files with --task-args data=",
        )
    edited = sorted({record["requested_rewrite"]["subject"] for record in records})
    names = {person: asked[person] for person in known}
    return wikidata.people(names, edited, making.folder / "replies", making.advance)


def folder_of(name: str) -> Path:
    """Return a folder of the authors' tables. Raises `DataError`."""
    path = Path(name).expanduser()
    if not path.is_dir():
        raise DataError(f"there is no folder {str(path)!r}", "name that of the authors' tables")
    return path
