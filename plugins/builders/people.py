"""The people that facts are about, with what tells groups of them apart.

Gender is read from the facts; race and region only from a file of tags, never from names. What is
asked about them stands in `seesaw`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from msgspec import Struct, convert

from edit_harness import DataError
from edit_harness.files import strict
from edit_harness_plugins.inputs import empty_texts, json_of, refuse, text_of

from . import files
from .triples import Fact, merged

GENDER, CITIZENSHIP, BIRTH, WORK, LANGUAGE = "P21", "P27", "P19", "P101", "P103"
PROPERTIES = (GENDER, CITIZENSHIP, BIRTH, WORK, LANGUAGE)
DEATH, COUNTRY, CONTINENT, CATEGORY = "P570", "P17", "P30", "P279"
GENDERS = ("female", "male")
BETWEEN = "|"
"""What stands between several labels or values in the tags of a case; none may have it."""
REMEDY = 'write {"Q1": {"name": "Ada", "gender": "female", "geo": ["Western Europe"]}}'


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
        return {
            "name": self.name,
            "gender": self.gender,
            **known,
            "dead": self.dead,
            "values": values,
        }


def spelled(facts: Iterable[Fact]) -> list[Fact]:
    """Return the facts with the labels of gender in small letters, and each triple once."""
    return merged(
        replace(fact, object=fact.object.lower())
        if fact.relation == GENDER and fact.object.lower() in GENDERS
        else fact
        for fact in facts
    )


def people_of(facts: Sequence[Fact], tags: Sequence[Person]) -> list[Person]:
    """Return everyone who has one of the `PROPERTIES`, in the facts' order, with their tags.

    Tags are found by id, or else by a name that one entry has. Raises `DataError` if a tag
    contradicts a fact.
    """
    by_name: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        by_name[fact.subject].append(fact)
    several = _namesakes(tags)
    tagged = {tag.name: tag for tag in tags if tag.name and tag.name not in several}
    tagged |= {tag.id: tag for tag in tags if tag.id}
    return [
        _person(name, own, tagged)
        for name, own in by_name.items()
        if any(fact.relation in PROPERTIES for fact in own)
    ]


def untaken(people: Sequence[Person], tags: Sequence[Person]) -> Iterator[str]:
    """Say how many tags are of nobody among the people, and which names tell nobody from another."""
    ids, names = ({getattr(each, what) for each in people} for what in ("id", "name"))
    unknown = [tag.name or tag.id for tag in tags if tag.id not in ids and tag.name not in names]
    if unknown:
        told = files.counted(len(unknown), "tag")
        yield f"left out {told} of people in no fact: {files.listed(unknown)}"
    known = {tag.id for tag in tags if tag.id}
    several = _namesakes(tags)
    if doubted := [each.name for each in people if each.name in several and each.id not in known]:
        yield (
            f"left out the tags of {files.counted(len(doubted), 'name')} with several entries and no "
            f"id that tells which: {files.listed(doubted)}"
        )


def _namesakes(tags: Iterable[Person]) -> set[str]:
    """Return the names that several entries have."""
    counts = Counter(tag.name for tag in tags if tag.name)
    return {name for name, count in counts.items() if count > 1}


def _person(name: str, facts: Sequence[Fact], tagged: Mapping[str, Person]) -> Person:
    given = next((fact.subject_id for fact in facts if fact.subject_id), "")
    tag = tagged.get(given) or tagged.get(name) or Person("", name)
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
    return Person(
        id=given or tag.id or files.made_up_id(name),
        name=name,
        gender=tag.gender or (said[0] if len(said) == 1 else ""),
        race=tag.race,
        geo=tag.geo,
        dead=tag.dead or any(fact.dead or fact.relation == DEATH for fact in facts),
        values=values,
    )


class Tag(Struct, forbid_unknown_fields=True):
    """What an entry of a file of tags may have; its values are not read."""

    name: str = ""
    gender: str = ""
    race: tuple[str, ...] | str = ()
    geo: tuple[str, ...] | str = ()
    dead: bool = False
    values: Any = None


def read_tags(path: Path) -> list[Person]:
    """Return the people of a file of tags, without values.

    It is an object with an entry for each id, or a list of entries that have a name. Raises
    `DataError`.
    """
    data = json_of(path, text_of(path), parse=strict)
    if not isinstance(data, dict | list) or not data:
        raise DataError(f"{path} has no tags", REMEDY)
    pairs = data.items() if isinstance(data, dict) else (("", entry) for entry in data)
    found, problems = [], []
    for number, (name, entry) in enumerate(pairs, 1):
        try:
            found.append(_tag(name, convert(entry, Tag)))
        except ValueError as error:
            problems.append(f"{name or f'entry {number}'}: {error}")
    refuse(path, problems or list(_contradicting(found)), REMEDY)
    return found


def _tag(identifier: str, tag: Tag) -> Person:
    """Return the person of an entry. Raises `ValueError`."""
    if not (identifier or tag.name):
        raise ValueError("the name is missing")
    gender = tag.gender.strip().lower()
    if gender not in (*GENDERS, ""):
        raise ValueError(f"gender is {tag.gender!r}, expected female, male or an empty text")
    race, geo = (
        tuple(text.strip() for text in ([labels] if isinstance(labels, str) else labels))
        for labels in (tag.race, tag.geo)
    )
    for label in (*race, *geo):
        if BETWEEN in label:
            raise ValueError(f"{label!r} is no label: it has {BETWEEN!r} in it")
    if problems := list(empty_texts([tag.name or identifier, *race, *geo])):
        raise ValueError(problems[0])
    return Person(identifier, tag.name.strip(), gender, race, geo, tag.dead)


def _contradicting(tags: Iterable[Person]) -> Iterator[str]:
    """Say of whom there is more than one entry that says different things."""
    seen: dict[str, Person] = {}
    for tag in tags:
        key = tag.id or tag.name
        if seen.setdefault(key, tag) != tag:
            yield f"{key} has two entries that differ"


def continents_of(facts: Iterable[Fact]) -> dict[str, str]:
    """Return the continents of countries and of cities whose country's is known, the first of each."""
    direct = _first(facts, CONTINENT)
    through = {
        name: direct[land] for name, land in _first(facts, COUNTRY).items() if land in direct
    }
    return through | direct


def categories_of(facts: Iterable[Fact]) -> dict[str, str]:
    """Return what each field of work is a kind of, as far as facts say."""
    return _first(facts, CATEGORY)


def _first(facts: Iterable[Fact], relation: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for fact in facts:
        if fact.relation == relation:
            found.setdefault(fact.subject, fact.object)
    return found
