"""Facts as triples, read from a user's file, with the look-ups that records are made by."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from edit_harness import DataError
from edit_harness.errors import counted
from edit_harness_plugins.inputs import Layout, empty_texts, fitted, json_of, refuse, text_of

from .templates import Relation

PARTS = ("subject", "relation", "object")
TRUE, FALSE = ("1", "true", "yes"), ("", "0", "false", "no")
Key = TypeVar("Key")
Thing = TypeVar("Thing")
REMEDY = 'a triple is {"subject": "Ada", "relation": "P27", "object": "France"}'


@dataclass(frozen=True)
class Fact:
    """One (subject, relation, object) triple."""

    subject: str
    relation: str
    object: str
    subject_id: str = ""
    object_id: str = ""
    dead: bool = False
    """Whether the subject is no longer alive."""


class FactTable:
    """Facts with the look-ups that records need; a subject has one object of a relation at most."""

    def __init__(self, facts: Iterable[Fact], relations: Mapping[str, Relation]) -> None:
        self.facts = tuple(facts)
        self.relations = dict(relations)
        self.by_relation = by(self.facts, lambda fact: fact.relation)
        self.by_object = by(self.facts, lambda fact: (fact.relation, fact.object))
        self.by_subject = by(self.facts, lambda fact: fact.subject)
        self._objects = {(fact.subject, fact.relation): fact.object for fact in self.facts}
        self.objects = {
            relation: sorted({fact.object for fact in own})
            for relation, own in self.by_relation.items()
        }

    def object_of(self, fact: Fact) -> str:
        """Return the true object of the fact's subject and relation."""
        return self._objects[fact.subject, fact.relation]

    def other_object(self, fact: Fact, rng: Random) -> str:
        """Draw an object of the fact's relation, which has more than one, that is not its own."""
        return rng.choice([name for name in self.objects[fact.relation] if name != fact.object])

    def widest(self, relation: str) -> int:
        """Return the most subjects that share an object of the relation."""
        return max(len(self.by_object[relation, name]) for name in self.objects[relation])


def by(every: Iterable[Thing], key: Callable[[Thing], Key]) -> dict[Key, list[Thing]]:
    """Return the things of each key, in their order."""
    found: dict[Key, list[Thing]] = {}
    for each in every:
        found.setdefault(key(each), []).append(each)
    return found


def several(facts: Iterable[Fact]) -> dict[tuple[str, str], list[Fact]]:
    """Return the facts of each subject and relation that has more than one object."""
    found = by(facts, lambda fact: (fact.subject, fact.relation))
    return {key: own for key, own in found.items() if len(own) > 1}


def read(path: Path) -> list[Fact]:
    """Return the facts of a .jsonl, .json, .csv or .tsv file; what is said twice is there once.

    Raises `DataError` with file and line for another layout and an empty text, and for a name with
    two ids or an id with two names.
    """
    layout = LAYOUTS.get(path.suffix.lower())
    if layout is None:
        raise DataError(f"{path} is no file of triples", f"they are read from {', '.join(LAYOUTS)}")
    facts: list[Fact] = []
    problems: list[str] = []
    for place, value in layout(path, text_of(path)):
        try:
            facts.append(_fact(value))
        except ValueError as error:
            problems.append(f"{place}: {error}")
    refuse(path, problems or [*_ambiguous(facts)], REMEDY)
    if not facts:
        raise DataError(f"{path} has no triples", REMEDY)
    return merged(facts)


def merged(facts: Iterable[Fact]) -> list[Fact]:
    """Return each triple once, with the ids and the death that any mention of it has."""
    found: dict[tuple[str, str, str], Fact] = {}
    for fact in facts:
        triple = (fact.subject, fact.relation, fact.object)
        one = found.setdefault(triple, fact)
        found[triple] = replace(
            one,
            subject_id=one.subject_id or fact.subject_id,
            object_id=one.object_id or fact.object_id,
            dead=one.dead or fact.dead,
        )
    return list(found.values())


def _ambiguous(facts: Iterable[Fact]) -> Iterator[str]:
    """Say which names have two ids, and which ids are those of two subjects."""
    subjects = {(fact.subject, fact.subject_id) for fact in facts if fact.subject_id}
    objects = {(fact.object, fact.object_id) for fact in facts if fact.object_id}
    counts = Counter(f"{name!r} has more ids than one" for name, _ in subjects | objects)
    counts += Counter(f"{own} is the id of more names than one" for _, own in subjects)
    yield from (said for said, count in counts.items() if count > 1)


class Entry(Layout):
    """What a triple of a file has."""

    subject: str
    relation: str
    object: str
    subject_id: str | None = ""
    object_id: str | None = ""
    dead: bool | str | int | None = ""


def _fact(value: Any) -> Fact:
    if isinstance(value, list) and len(value) == len(PARTS):
        value = dict(zip(PARTS, value, strict=True))
    known = fitted(value, Entry)
    if problems := list(empty_texts({name: known[name] for name in PARTS})):
        raise ValueError(problems[0])
    texts = {name: said.strip() for name, said in known.items() if name != "dead" and said}
    dead = str(known.get("dead") or "").strip().lower()
    if dead not in (*TRUE, *FALSE):
        raise ValueError(f"dead is {dead!r}, expected true or false")
    return Fact(**texts, dead=dead in TRUE)


def _lines(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield f"line {number}", json_of(path, line, number)


def _items(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    data = json_of(path, text)
    found = data.get("facts") if isinstance(data, dict) else data
    if not isinstance(found, list):
        raise DataError(f'{path}: expected a list of triples, or {{"facts": [...]}}', REMEDY)
    for number, value in enumerate(found, 1):
        yield f"triple {number}", value


def _rows(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = [cell.strip() for cell in next(lines, [])]
        if missing := [name for name in PARTS if name not in header]:
            raise DataError(
                f"{path}:1: the header has no column {missing[0]!r}",
                f"write {delimiter.join(PARTS)!r} into the first line",
            )
        for row in filter(None, lines):
            if len(row) != len(header):
                raise DataError(
                    f"{path}:{lines.line_num}: {counted(len(row), 'cell')}, and the "
                    f"header has {len(header)}",
                    "a cell that has the delimiter in it stands in quotes",
                )
            yield f"line {lines.line_num}", dict(zip(header, row, strict=True))
    except csv.Error as error:
        raise DataError(f"{path}:{lines.line_num}: {error}", "correct it there") from None


LAYOUTS = {".jsonl": _lines, ".json": _items, ".csv": _rows, ".tsv": _rows}
