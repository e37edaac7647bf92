"""Makes a tag file: from the authors' tables of ethnic groups, and what Wikidata says of people.

That is either in the authors' files of subjects or asked for (`edit_harness_plugins.tasks.seesaw.
wikidata`); the mapping to tags is the same. How the file is read stands in `subjects`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import convert

from edit_harness import DataError, Making
from edit_harness.files import replacing
from edit_harness_plugins.inputs import Layout, json_of, text_of

from .._files.records import Record
from . import candidates, files, subjects, wikidata
from .candidates import GENDERS
from .wikidata import DEATH, GENDER, GROUP, USED, VALUED, Person


@dataclass(frozen=True)
class Group:
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
        for person, entry in said.items():
            own = found.setdefault(person, Person(entry.name, {}))
            for prop in filter(entry.properties.__contains__, USED):
                values = map(str, entry.properties[prop])
                own.properties[prop] = _different([*own.properties.get(prop, ()), *values])
    if not found:
        raise DataError(
            f"{folder} has no file *_subject_info.json",
            "name the folder of the authors' files, or ask Wikidata: --data wikidata",
        )
    return found


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


def make_tags(making: Making, tables: Path, records: Sequence[Record], origin: str) -> None:
    """Make the file of tags from the authors' tables in a folder. Raises `DataError`.

    Wikidata is asked of the people in ``records``, if there are any; ``origin`` is what errors call them.
    """
    people = _asked_of_wikidata(making, records, origin) if records else people_in(tables)
    groups = groups_in(tables)
    if not groups:
        making.report(f"{tables} has no *_ethnic_groups.csv, so nobody has race or region")
    entries = tagged(people, groups, candidates.known(tables).labels)
    path = making.folder / subjects.FILE
    with replacing(path) as partial:
        text = json.dumps(dict(sorted(entries.items())), ensure_ascii=False, indent=1)
        partial.write_text(text, encoding="utf-8")
    making.report(f"saved    {path}: {len(entries):,} people")


def _asked_of_wikidata(making: Making, records: Sequence[Record], origin: str) -> dict[str, Person]:
    asked = files.people(records)
    # Those of a sample are made up.
    names = {i: name for i, name in asked.items() if i[:1] == "Q" and i[1:].isdecimal()}
    if not names:
        raise DataError(
            f"no prompt of {origin} is on somebody with an id of Wikidata",
            "the people of a sample are made up: name the authors' files with --task-args data=",
        )
    edited = sorted({record["requested_rewrite"]["subject"] for record in records})
    return wikidata.people(names, edited, making.folder / "replies", making.advance)


def folder_of(name: str) -> Path:
    """Return a folder of the authors' tables. Raises `DataError`."""
    path = Path(name).expanduser()
    if not path.is_dir():
        raise DataError(f"there is no folder {str(path)!r}", "name that of the authors' tables")
    return path
