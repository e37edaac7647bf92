"""People by id, with the tags that results are broken down by and the facts that are known of them.

A tag file is a JSON object: {id: {"name", "gender", "race", "geo", "dead", "values"}}, where all
but the id may be left out. It is read and checked here: white space around labels is left out, and
labels that differ in nothing but case or white space are one. How a file is made stands in
`edit_harness_plugins.tasks.seesaw.gather`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from edit_harness import DataError

from .._files.records import kind_of

FILE = "subjects.json"
SHOWN = 5
BETWEEN = "|"
"""What stands between the values of one tag."""
GENDERS = ("male", "female", "")
KEYS = ("name", "gender", "race", "geo", "dead", "values")
"""What an entry may have."""
NAMES = {"gender": "gender", "race": "race", "geo": "region"}
"""The tags, and what a reader is told of them."""


@dataclass(frozen=True)
class Subject:
    """What is known of a person; an empty field is not known."""

    name: str = ""
    gender: str = ""
    race: tuple[str, ...] = ()
    geo: tuple[str, ...] = ()
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Labels by property, such as {"P101": ("physics",)}."""

    @property
    def tags(self) -> dict[str, str]:
        """The known tags; several values of one stand side by side, and each counts."""
        told = {"gender": self.gender, "race": BETWEEN.join(self.race),
                "geo": BETWEEN.join(self.geo)}  # fmt: skip
        return {name: value for name, value in told.items() if value}

    def has(self, prop: str) -> tuple[str, ...]:
        """Return the labels of a property's values; the gender is one that is known twice."""
        own = self.values.get(prop, ())
        return (self.gender,) if prop == "P21" and self.gender and not own else own


@dataclass(frozen=True)
class Subjects:
    """The people of a tag file, and what else is known of their gender."""

    by_id: Mapping[str, Subject] = field(default_factory=dict)
    file: str = ""
    """What the file is called in notes; empty if there is none."""
    spellings: Mapping[str, str] = field(default_factory=dict)
    """Labels of the file that are spelled in another way than the first of the kind, and that one."""
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
        if not self.file:
            if asked:
                known = sum(person in self.genders for person in asked)
                but = (
                    f" but the gender of {known:,} of {_count(len(asked), 'subject')}, by the data"
                )
                yield (
                    f"no tags are known{but if known else ''}, so {'other ' if known else ''}groups "
                    "are not told apart: --task-args tags=FILE, or edit-harness prepare --task "
                    "seesaw-cf --data FOLDER"
                )
            return
        if self.spellings:
            told = ", ".join(f"{one!r} as {other!r}" for one, other in self.spellings.items())
            yield f"{self.file}: labels that differ in case or white space are one: {told}"
        yield from self._untagged(asked)
        if strange := sum(
            person not in asked and subject.name not in edited
            for person, subject in self.by_id.items()
        ):
            yield f"{_count(strange, 'subject')} of {self.file} {_is(strange)} in no prompt"
        yield from self._doubts(asked)

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
        mixed = [
            name
            for name, own in self.by_name.items()
            if len({subject.gender for subject in own if subject.gender}) > 1
        ]
        if mixed:
            yield (
                f"{_count(len(mixed), 'name')} in {self.file} {_is(len(mixed))} of people of both "
                f"genders, such as {mixed[0]!r}"
            )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def read(path: Path, called: str = "") -> Subjects:
    """Return the people of a tag file. Raises `DataError` that names file and ids.

    ``called`` is what notes call it, if not by the file's name.
    """
    try:
        said = json.loads(path.read_bytes(), object_pairs_hook=_Object)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {error}", "the file is damaged or cut off") from None
    if not isinstance(said, _Object):
        raise DataError(f"{path} is {kind_of(said)}, expected an object with an entry for each id")
    wrong = [problem for person, entry in said.items() for problem in _wrong(person, entry)]
    if wrong := [*_twice(said), *wrong]:
        more = f"; these are the first {SHOWN}" if len(wrong) > SHOWN else ""
        raise DataError(
            f"{path}: {'; '.join(wrong[:SHOWN])}",
            f"{_count(len(wrong), 'problem')} in {path}{more}",
        )
    labels = _Labels()
    found = {person: _subject(entry, labels) for person, entry in said.items()}
    return Subjects(found, called or path.name, labels.others)


class _Labels:
    """Labels as they were first spelled, and the other spellings that came up."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        self.others: dict[str, str] = {}

    def of(self, text: str) -> str:
        """Return a label's first spelling."""
        label = text.strip()
        first = self._first.setdefault(" ".join(label.split()).casefold(), label)
        if label != first:
            self.others[label] = first
        return first


class _Object(dict[str, Any]):
    """An object of JSON that knows which names it has twice; the parser's own keeps the last."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(name for name, _ in pairs)
        self.twice = [name for name, count in counts.items() if count > 1]


def _twice(said: Any, where: str = "") -> Iterator[str]:
    """Say which names an object has twice, since the two may contradict each other."""
    for name in said.twice if isinstance(said, _Object) else ():
        yield f"{where}{name!r} is there twice"


def _wrong(person: str, entry: Any) -> Iterator[str]:
    """Say what is wrong with the entry of an id."""
    if not isinstance(entry, dict):
        yield f"{person}: {kind_of(entry)}, expected an object"
        return
    yield from _twice(entry, f"{person}: ")
    for key in sorted(entry.keys() - {*KEYS}):
        meant = key.strip().lower()
        hint = f"; did you mean {meant!r}?" if meant in KEYS else ""
        yield f"{person}: has {key!r}{hint}; known: {', '.join(KEYS)}"
    if not isinstance(entry.get("name", ""), str):
        yield f"{person}: name is {kind_of(entry['name'])}, expected a text"
    if _gender(entry) not in GENDERS:
        yield f"{person}: gender is {entry['gender']!r}, expected 'male', 'female' or ''"
    if not isinstance(entry.get("dead", False), bool):
        yield f"{person}: dead is {kind_of(entry['dead'])}, expected a truth value"
    for name in ("race", "geo"):
        yield from _wrong_list(f"{person}: {name}", entry.get(name, []))
    values = entry.get("values", {})
    if not isinstance(values, dict):
        yield f"{person}: values is {kind_of(values)}, expected an object"
        return
    yield from _twice(values, f"{person}: values: ")
    for prop, own in values.items():
        yield from _wrong_list(f"{person}: values.{prop}", own)


def _wrong_list(field: str, value: Any) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{field} is {kind_of(value)}, expected a list of texts"
        return
    for item in value:
        if not isinstance(item, str) or not item.strip() or BETWEEN in item:
            yield f"{field} has {item!r}, expected a text without {BETWEEN!r}"


def _gender(entry: Mapping[str, Any]) -> Any:
    """Return the gender of an entry, whatever its letters."""
    said = entry.get("gender", "")
    return said.strip().lower() if isinstance(said, str) else said


def _subject(entry: Mapping[str, Any], labels: _Labels) -> Subject:
    race, geo = (
        tuple(dict.fromkeys(map(labels.of, entry.get(name, ())))) for name in ("race", "geo")
    )
    values = {
        prop: tuple(dict.fromkeys(value.strip() for value in own))
        for prop, own in entry.get("values", {}).items()
    }
    return Subject(entry.get("name", "").strip(), _gender(entry), race, geo, values)
