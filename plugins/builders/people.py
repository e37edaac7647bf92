"""The people that facts are about; race and region come from a file of tags alone, never from names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edit_harness import DataError
from edit_harness_plugins.people import Subject

from . import files
from .triples import Fact, by, merged

GENDER, CITIZENSHIP, BIRTH, WORK, LANGUAGE = "P21", "P27", "P19", "P101", "P103"
PROPERTIES = (GENDER, CITIZENSHIP, BIRTH, WORK, LANGUAGE)
DEATH, COUNTRY, CONTINENT, CATEGORY = "P570", "P17", "P30", "P279"
GENDERS = ("female", "male")
Tags = Sequence[tuple[str, Subject]]
"""Entries of a file of tags by their ids, which may be empty."""


@dataclass(frozen=True)
class Person:
    """Someone whom facts are about; what is not known is empty."""

    id: str
    name: str
    gender: str = ""
    race: tuple[str, ...] = ()
    geo: tuple[str, ...] = ()
    dead: bool = False
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """The true objects of each property."""

    @property
    def tags(self) -> dict[str, Any]:
        """What a file of tags says of the person."""
        groups = {"race": list(self.race), "geo": list(self.geo)}
        known = {name: found for name, found in groups.items() if found}
        values = {name: list(objects) for name, objects in self.values.items()}
        tags = {"name": self.name, "gender": self.gender, **known}
        return {**tags, "dead": self.dead, "values": values}


def spelled(facts: Iterable[Fact]) -> list[Fact]:
    """Return the facts with the labels of gender in small letters, and each triple once."""
    return merged(
        replace(fact, object=fact.object.lower())
        if fact.relation == GENDER and fact.object.lower() in GENDERS
        else fact
        for fact in facts
    )


def people_of(facts: Sequence[Fact], tags: Tags) -> list[Person]:
    """Return everyone who has one of the `PROPERTIES`, in the facts' order, with their tags.

    Tags are found by id, or else by a name that one entry has. Raises `DataError` if a tag
    contradicts a fact.
    """
    by_name, named = by(facts, lambda fact: fact.subject), by(tags, lambda entry: entry[1].name)
    tagged = {name: own[0] for name, own in named.items() if name and len(own) == 1}
    tagged |= {identifier: (identifier, tag) for identifier, tag in tags if identifier}
    return [
        _person(name, own, tagged)
        for name, own in by_name.items()
        if any(fact.relation in PROPERTIES for fact in own)
    ]


def _person(name: str, facts: Sequence[Fact], tagged: Mapping[str, tuple[str, Subject]]) -> Person:
    given = next((fact.subject_id for fact in facts if fact.subject_id), "")
    known, tag = tagged.get(given) or tagged.get(name) or ("", Subject())
    values = {
        relation: found
        for relation in PROPERTIES
        if (found := tuple(fact.object for fact in facts if fact.relation == relation))
    }
    said = [value for value in values.get(GENDER, ()) if value in GENDERS]
    if tag.gender and said and tag.gender not in said:
        raise DataError(
            f"{name} is {tag.gender} by the tags and {' and '.join(said)} by the facts",
            "correct one of the files",
        )
    gender = tag.gender or (said[0] if len(said) == 1 else "")
    dead = tag.dead or any(fact.dead or fact.relation == DEATH for fact in facts)
    identifier = given or known or files.made_up_id(name)
    return Person(identifier, name, gender, tag.race, tag.geo, dead, values)


def continents_of(facts: Sequence[Fact]) -> dict[str, str]:
    """Return the continents of countries and of cities whose country's is known, the first of each."""
    direct = first(facts, CONTINENT)
    through = {name: direct[land] for name, land in first(facts, COUNTRY).items() if land in direct}
    return through | direct


def first(facts: Sequence[Fact], relation: str) -> dict[str, str]:
    """Return the first object of each subject in a relation."""
    return {fact.subject: fact.object for fact in reversed(facts) if fact.relation == relation}
