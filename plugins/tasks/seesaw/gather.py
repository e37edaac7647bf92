"""Makes a tag file: from the authors' tables of ethnic groups, and what Wikidata says of people.

That is in the authors' files of subjects, or Wikidata's query service is asked (``EDIT_HARNESS_WIKIDATA`` names
another); replies are kept, so that an interrupted run goes on. It was tried with recorded replies alone.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from edit_harness import DataError, Making
from edit_harness.files import replacing
from edit_harness_plugins.downloads import Remote, fetch, set_aside

from .._files.records import Record
from . import candidates, files, subjects
from .authors import (
    DEATH,
    GENDER,
    GROUP,
    USED,
    VALUED,
    Groups,
    Person,
    different,
    groups_in,
    people_in,
)
from .candidates import GENDERS

ADDRESS = "https://query.wikidata.org/sparql"
VARIABLE = "EDIT_HARNESS_WIKIDATA"
AGENT = "edit-harness/0.1 (tags for an evaluation of knowledge edits; one query at a time)"
BATCH = 50
PROPERTIES = " ".join(f"wdt:{prop}" for prop in USED)
BY_ID = """SELECT ?person ?property ?value WHERE {
  VALUES ?person { %s }
  VALUES ?property { %s }
  ?person ?property ?value .
}"""
BY_TITLE = """SELECT ?person ?title ?property ?value WHERE {
  VALUES ?title { %s }
  VALUES ?property { %s }
  ?article schema:name ?title ;
           schema:isPartOf <https://en.wikipedia.org/> ;
           schema:about ?person .
  ?person wdt:P31 wd:Q5 ;
          ?property ?value .
}"""
"""Asks for people by the title of their article, since edits name no ids."""
Binding = Mapping[str, Mapping[str, str]]
Row = tuple[str, str, str, str]
"""The id of a person, the title if one was asked for, the property and its value."""


def people(
    names: Mapping[str, str],
    titles: Sequence[str],
    folder: Path,
    advance: Callable[[int, int], None],
) -> dict[str, Person]:
    """Return what Wikidata says of people: those whose names are given by id, and those by title.

    The replies are kept in the folder. Raises `DataError` if it cannot be reached or understood.
    """
    ids = [f"wd:{person}" for person in names]
    queries = [
        query % (" ".join(terms[at : at + BATCH]), PROPERTIES)
        for query, terms in ((BY_ID, ids), (BY_TITLE, [*map(_quoted, titles)]))
        for at in range(0, len(terms), BATCH)
    ]
    found: dict[str, dict[str, list[str]]] = {person: {} for person in names}
    called = dict(names)
    for done, query in enumerate(queries, 1):
        for person, title, prop, value in _answer(query, folder):
            called.setdefault(person, title)
            values = found.setdefault(person, {}).setdefault(prop, [])
            if value not in values:
                values.append(value)
        advance(done, len(queries))
    return {person: Person(called[person], own) for person, own in found.items()}


def _quoted(title: str) -> str:
    """Return a title as a text of SPARQL, whose escapes are those of JSON."""
    return f"{json.dumps(title, ensure_ascii=False)}@en"


def _answer(query: str, folder: Path) -> list[Row]:
    """Return the rows of a reply, which is on disk if the query was asked before."""
    address = os.environ.get(VARIABLE) or ADDRESS
    digest = hashlib.sha256(query.encode()).hexdigest()[:32]
    url = f"{address}?{urlencode({'format': 'json', 'query': query})}"
    # The cache folder and an absolute path make that path.
    remote = Remote((url,), str((folder / f"{digest}.json").absolute()), agent=AGENT)
    try:
        path = fetch(remote)
    except DataError as error:
        # The query in its address would hide what happened.
        raise DataError(
            error.cause.replace(url, address).replace(remote.name, "a reply of Wikidata"),
            f"try again later: what was answered so far is in {folder}",
        ) from None
    try:
        rows = [_row(each) for each in json.loads(path.read_bytes())["results"]["bindings"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{address} gave a reply that is not understood: {type(error).__name__}: {error}",
            f"it was kept as {set_aside(path)}; try again",
        ) from None
    return rows


def _row(binding: Binding) -> Row:
    person, prop, value = (
        binding[name]["value"].rpartition("/")[2] if binding[name]["type"] == "uri"
        else binding[name]["value"]
        for name in ("person", "property", "value")
    )  # fmt: skip
    title = binding["title"]["value"] if "title" in binding else ""
    return person, title, prop, value


def entry(said: Person, groups: Groups, labels: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Return the entry of a tag file for a person.

    Whoever is of several groups has the tags of each. Values whose label is not known are left out.
    """
    own = [group for code in said.properties.get(GROUP, ()) for group in groups.get(code, ())]
    genders = {GENDERS.get(code, "") for code in said.properties.get(GENDER, ())}
    known = {
        prop: different(labels.get(prop, {}).get(it, "") for it in said.properties.get(prop, ()))
        for prop in VALUED
    }
    return {
        "name": said.name,
        # Whoever has both genders, or another one, has no tag, as in the authors' filter.
        "gender": genders.pop() if len(genders) == 1 else "",
        "race": different(group.race for group in own),
        "geo": different(group.geo for group in own),
        "dead": bool(said.properties.get(DEATH)),
        "values": {prop: values for prop, values in known.items() if values},
    }


def make_tags(making: Making, tables: Path, records: Sequence[Record], origin: str) -> None:
    """Make the file of tags from the authors' tables in a folder. Raises `DataError`.

    Wikidata is asked of the people in ``records``, if there are any; ``origin`` is what errors call them.
    """
    found = _asked_of_wikidata(making, records, origin) if records else people_in(tables)
    groups = groups_in(tables)
    if not groups:
        making.report(f"{tables} has no *_ethnic_groups.csv, so nobody has race or region")
    labels = candidates.known(tables).labels
    entries = {person: entry(said, groups, labels) for person, said in found.items()}
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
    making.report(f"wikidata asked for {len(names):,} people by id, and {len(edited):,} by name")
    return people(names, edited, making.folder / "replies", making.advance)
