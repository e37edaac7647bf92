"""People by id, with the tags that results are broken down by and the facts that are known of them.

They come from a file of tags, and from the data themselves: what one set edits was true of a person, and the
prompts on others in a set that edits gender are on people who have the new one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from edit_harness_plugins import people
from edit_harness_plugins.people import BETWEEN, Subject

from .._files.records import Record
from .files import EDIT, IDS, objects

FILE = "subjects.json"
GENDER = "P21"
NAMES = {"gender": "gender", "race": "race", "geo": "region"}
"""The tags, and what a reader is told of them."""


@dataclass(frozen=True)
class Subjects:
    """The people of a tag file, and what else is known of their gender."""

    by_id: Mapping[str, Subject] = field(default_factory=dict)
    file: str = ""
    """What the file is called in notes; empty if there is none."""
    genders: Mapping[str, str] = field(default_factory=dict)
    """What the data tell of gender, by id; it counts for those of whom the file says nothing."""

    @cached_property
    def _by_name(self) -> Mapping[str, list[Subject]]:
        found: dict[str, list[Subject]] = {}
        for subject in self.by_id.values():
            found.setdefault(subject.name, []).append(subject)
        return found

    def tags(self, person: str) -> dict[str, str]:
        """Return the known tags of an id; several values of one stand side by side, and each counts."""
        own = self.by_id.get(person, Subject())
        gender = own.gender or ("" if _values(own, GENDER) else self.genders.get(person, ""))
        tags = {"gender": gender, "race": BETWEEN.join(own.race), "geo": BETWEEN.join(own.geo)}
        return {name: value for name, value in tags.items() if value}

    def values(self, name: str, prop: str) -> tuple[str, ...]:
        """Return the values of whoever has a name; none if several have it and are not alike."""
        found = {_values(subject, prop) for subject in self._by_name.get(name, ()) if name}
        return found.pop() if len(found) == 1 else ()

    def tagged(self, asked: Collection[str]) -> dict[str, int]:
        """Return how many of the people have each tag."""
        tags = [self.tags(person) for person in asked]
        return {label: sum(name in each for each in tags) for name, label in NAMES.items()}

    def notes(self, asked: Mapping[str, str]) -> Iterator[str]:
        """Say which tags are lacking of those who are asked for, ``asked``, their names by id."""
        of = f"{len(asked):,} subject{'' if len(asked) == 1 else 's'}"
        missing = {label: len(asked) - count for label, count in self.tagged(asked).items()}
        told = [
            f"{count:,} have no {label}" if count < len(asked) else f"none has a {label}"
            for label, count in missing.items()
            if count
        ]
        if self.file and told:
            yield f"{self.file}: of {of}, {', '.join(told)}"
        elif asked and not self.file:
            known = len(asked) - missing["gender"]
            yield (
                f"no tags are known but the gender of {known:,} of {of}, by the data: "
                "--task-args tags=FILE, or edit-harness prepare --task seesaw-cf --data FOLDER"
            )


def _values(subject: Subject, prop: str) -> tuple[str, ...]:
    """Return the labels of a property's values; the gender is one that is known twice."""
    own = subject.values.get(prop, ())
    return (subject.gender,) if prop == GENDER and subject.gender and not own else own


def read(path: Path, called: str = "") -> Subjects:
    """Return the people of a tag file, which notes call so. Raises `DataError`."""
    return Subjects(dict(people.read(path)), called or path.name)


@dataclass(frozen=True)
class Told:
    """What is known of people by name, and the gender of others by id."""

    values: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """By name and property."""
    genders: Mapping[str, str] = field(default_factory=dict)


def told_by(records: Iterable[Record]) -> Told:
    """Return what the records of any sets tell; nothing where they tell of two genders."""
    values: dict[tuple[str, str], dict[str, None]] = {}
    genders: dict[str, dict[str, None]] = {}
    for record in records:
        rewrite = record[EDIT]
        (edited, old), (_, new) = objects(record)
        values.setdefault((rewrite["subject"], edited), {})[old] = None
        for person in record.get(IDS, ()) if edited == GENDER else ():
            genders.setdefault(person, {})[new] = None
    return Told(
        {
            (name, prop): tuple(own)
            for (name, prop), own in values.items()
            if prop != GENDER or len(own) == 1
        },
        {person: next(iter(own)) for person, own in genders.items() if len(own) == 1},
    )
