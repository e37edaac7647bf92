"""People by id, with the tags that results are broken down by and the facts that are known of them.

A tag file is a JSON object: {id: {"name", "gender", "race", "geo", "dead", "values"}}, where all
but the id may be left out. White space around labels is left out, and labels that differ in nothing
but case or white space are one. What the data themselves tell of people stands beside it: what one
set edits was true of a person, whatever another set asks for; and the prompts on others in a set that
edits gender are on people who have the new one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, convert

from edit_harness.files import strict
from edit_harness_plugins.inputs import json_of, refuse, text_of

from .._files.records import Record
from .files import EDIT, IDS, Label

FILE = "subjects.json"
BETWEEN = "|"
"""What stands between the values of one tag."""
GENDER = "P21"
NAMES = {"gender": "gender", "race": "race", "geo": "region"}
"""The tags, and what a reader is told of them."""


class Subject(Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of a person; an empty field is not known."""

    name: str = ""
    gender: Literal["male", "female", ""] = ""
    race: tuple[Label, ...] = ()
    geo: tuple[Label, ...] = ()
    values: dict[str, tuple[Label, ...]] = {}
    """Labels by property, such as {"P101": ("physics",)}."""
    dead: bool = False

    @property
    def tags(self) -> dict[str, str]:
        """The known tags; several values of one stand side by side, and each counts."""
        told = {"gender": self.gender, "race": BETWEEN.join(self.race),
                "geo": BETWEEN.join(self.geo)}  # fmt: skip
        return {name: value for name, value in told.items() if value}

    def has(self, prop: str) -> tuple[str, ...]:
        """Return the labels of a property's values; the gender is one that is known twice."""
        own = self.values.get(prop, ())
        return (self.gender,) if prop == GENDER and self.gender and not own else own


@dataclass(frozen=True)
class Subjects:
    """The people of a tag file, and what else is known of their gender."""

    by_id: Mapping[str, Subject] = field(default_factory=dict)
    file: str = ""
    """What the file is called in notes; empty if there is none."""
    genders: Mapping[str, str] = field(default_factory=dict)
    """The gender of those of whom the file has none, by id."""

    @cached_property
    def by_name(self) -> Mapping[str, tuple[Subject, ...]]:
        """All people of each name."""
        found: dict[str, list[Subject]] = {}
        for subject in self.by_id.values():
            if subject.name:
                found.setdefault(subject.name, []).append(subject)
        return {name: tuple(own) for name, own in found.items()}

    def tags(self, person: str) -> dict[str, str]:
        """Return the tags of an id, none for one that nothing is known of."""
        own = self.by_id.get(person, Subject()).tags
        known = self.genders.get(person, "")
        return {"gender": known, **own} if known else own

    def has(self, person: str, prop: str) -> tuple[str, ...]:
        """Return the values that the file has of an id."""
        return self.by_id.get(person, Subject()).has(prop)

    def values(self, name: str, prop: str) -> tuple[str, ...]:
        """Return the values of whoever has a name; none if several have it and are not alike."""
        found = {subject.has(prop) for subject in self.by_name.get(name, ())}
        return found.pop() if len(found) == 1 else ()

    def notes(self, asked: Mapping[str, str], edited: Collection[str]) -> Iterator[str]:
        """Say what a reader must know of the tags of those who are asked for.

        ``asked`` are their names by id, and ``edited`` are the names of whom the edits are on.
        """
        if self.file:
            yield from self._untagged(asked)
            strange = [
                own.name or person
                for person, own in self.by_id.items()
                if person not in asked and own.name not in edited
            ]
            if strange:
                yield f"{_count(len(strange), 'subject')} of {self.file} {'is' if len(strange) == 1 else 'are'} in no prompt"
            yield from self._doubts(asked)
        elif asked:
            known = sum(person in self.genders for person in asked)
            yield (
                f"no tags are known but the gender of {known:,} of {_count(len(asked), 'subject')}, by "
                "the data: --task-args tags=FILE, or edit-harness prepare --task seesaw-cf --data FOLDER"
            )

    def _untagged(self, asked: Mapping[str, str]) -> Iterator[str]:
        """Count who has no tag of a kind."""
        missing = Counter(
            label
            for person in asked
            for name, label in NAMES.items()
            if name not in self.tags(person)
        )
        told = [
            f"{missing[label]:,} have no {label}" if missing[label] < len(asked)
            else f"none has a {label}"
            for label in NAMES.values() if missing[label]
        ]  # fmt: skip
        if told:
            yield f"{self.file}: of {_count(len(asked), 'subject')}, {', '.join(told)}"

    def _doubts(self, asked: Mapping[str, str]) -> Iterator[str]:
        """Name those whose entries may be of somebody else."""
        other = [
            person
            for person, name in asked.items()
            if (known := self.by_id.get(person, Subject()).name) and known != name
        ]
        if other:
            yield (
                f"{_count(len(other), 'subject')} {'has' if len(other) == 1 else 'have'} another "
                f"name in {self.file} than in the data, such as {other[0]} "
                f"({self.by_id[other[0]].name!r}, not {asked[other[0]]!r})"
            )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def read(path: Path, called: str = "") -> Subjects:
    """Return the people of a tag file. Raises `DataError` that names file and ids.

    ``called`` is what notes call it, if not by the file's name.
    """
    said = json_of(path, text_of(path), parse=strict)
    found: dict[str, Subject] = {}
    problems = [] if isinstance(said, dict) else ["expected an object with an entry for each id"]
    first: dict[str, str] = {}
    for person, entry in said.items() if not problems else ():
        try:
            found[person] = _subject(entry, first)
        except ValueError as error:
            problems.append(f"{person}: {error}")
    refuse(
        path, problems, f"an entry has {', '.join(Subject.__struct_fields__)}; labels have no '|'"
    )
    return Subjects(found, called or path.name)


def _subject(entry: Any, first: dict[str, str]) -> Subject:
    """Return an entry with each label as it was ``first`` spelled. Raises `ValueError`."""
    if isinstance(entry, dict) and isinstance(gender := entry.get("gender"), str):
        entry = entry | {"gender": gender.strip().lower()}
    own = convert(entry, Subject)
    race, geo = (
        dict.fromkeys(first.setdefault(" ".join(t.split()).casefold(), t.strip()) for t in texts)
        for texts in (own.race, own.geo)
    )
    values = {
        prop: tuple(dict.fromkeys(value.strip() for value in texts))
        for prop, texts in own.values.items()
    }
    return Subject(own.name.strip(), own.gender, tuple(race), tuple(geo), values, own.dead)


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
        edited = rewrite["relation_id"]
        old, new = (rewrite[target]["str"].strip() for target in ("target_true", "target_new"))
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
