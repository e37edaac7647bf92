"""Asks Wikidata for people's properties, some at a time; each reply is kept in a file.

The address is that of the query service, or ``EDIT_HARNESS_WIKIDATA``; it needs no key. A query
that was answered is not asked again, so an interrupted one goes on. Of each property the best-ranked
values count. It was tried with recorded replies alone. What the properties mean stands in `edit_harness_plugins.tasks.seesaw.gather`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from edit_harness import DataError
from edit_harness.files import Remote, fetch, set_aside

GENDER, GROUP, DEATH = "P21", "P172", "P570"
VALUED = ("P101", "P27", "P19")
"""The properties whose values are known by label."""
USED = (GENDER, GROUP, DEATH, *VALUED)

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


class Person(NamedTuple):
    """What Wikidata says of a person."""

    name: str
    properties: dict[str, list[str]]
    """Ids of values, or dates, by property."""


def people(
    names: Mapping[str, str],
    titles: Sequence[str],
    folder: Path,
    advance: Callable[[int, int], None],
) -> dict[str, Person]:
    """Return what Wikidata says of people: those whose names are given by id, and those by title.

    The replies are kept in the folder. Raises `DataError` if it cannot be reached or understood.
    """
    by_id = [(BY_ID, [f"wd:{person}" for person in batch]) for batch in _batches(list(names))]
    by_title = [(BY_TITLE, [_quoted(title) for title in batch]) for batch in _batches(titles)]
    queries = [query % (" ".join(terms), PROPERTIES) for query, terms in by_id + by_title]
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


def _batches(items: Sequence[str]) -> Iterator[list[str]]:
    rest = iter(items)
    while batch := list(islice(rest, BATCH)):
        yield batch


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
    """Return a row of a reply, in which entities and properties are addresses."""
    person, prop, value = (
        binding[name]["value"].rpartition("/")[2] if binding[name]["type"] == "uri"
        else binding[name]["value"]
        for name in ("person", "property", "value")
    )  # fmt: skip
    title = binding["title"]["value"] if "title" in binding else ""
    return person, title, prop, value
