"""The small world the pocket model is taught: facts, sentence templates, rules and filler sentences.

Only reads the JSON files of the world and answers questions about them; it holds no randomness of
its own and knows nothing of tokens or models.
"""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

WORLD_DIR = Path(__file__).resolve().parent.parent / "world"

#: Relations whose objects are shared by too few subjects to have neighbours; they are never edited.
UNSHARED_RELATIONS = frozenset({"P36"})

#: Pseudo relations that carry the geometry rules.
FORMULA, DESCRIPTION = "formula", "description"


@dataclass(frozen=True)
class Fact:
    """One (subject, relation, object) triple."""

    subject: str
    relation: str
    object: str


@dataclass(frozen=True)
class Relation:
    """How a relation is put into words; every template ends where its object begins."""

    id: str
    label: str
    training: tuple[str, ...]
    held_out: tuple[str, ...]
    questions: tuple[str, ...]
    capitalise: bool = False

    def fill(self, template: str, subject: str) -> str:
        """Put the subject into a template of this relation."""
        text = template.replace("{}", subject, 1)
        return text[0].upper() + text[1:] if self.capitalise else text

    def unseen_templates(self, subject: str) -> frozenset[int]:
        """Pick two training templates, fixed per fact, that the corpus never uses for it."""
        count = len(self.training)
        code = zlib.crc32(f"{subject}|{self.id}".encode())
        first = code % count
        second = (first + 1 + (code // 97) % (count - 1)) % count
        return frozenset({first, second})

    def seen_templates(self, subject: str) -> list[str]:
        """List the training templates that the corpus does use with this subject."""
        unseen = self.unseen_templates(subject)
        return [text for index, text in enumerate(self.training) if index not in unseen]


class FactTable:
    """Facts with the look-ups that the corpus and the sample need."""

    def __init__(self, facts: Iterable[Fact], relations: Mapping[str, Relation]) -> None:
        self.facts = tuple(facts)
        self.relations = dict(relations)
        by_relation: dict[str, list[Fact]] = defaultdict(list)
        by_object: dict[tuple[str, str], list[Fact]] = defaultdict(list)
        by_subject: dict[str, list[Fact]] = defaultdict(list)
        for fact in self.facts:
            by_relation[fact.relation].append(fact)
            by_object[fact.relation, fact.object].append(fact)
            by_subject[fact.subject].append(fact)
        self._objects = {(fact.subject, fact.relation): fact.object for fact in self.facts}
        self.by_relation = dict(by_relation)
        self.by_object = dict(by_object)
        self.by_subject = dict(by_subject)
        self.objects = {
            relation: sorted({fact.object for fact in facts})
            for relation, facts in by_relation.items()
        }

    def object_of(self, fact: Fact) -> str:
        """Return the true object of the fact's subject and relation."""
        return self._objects[fact.subject, fact.relation]

    def other_object(self, fact: Fact, rng: Random) -> str:
        """Draw an object of the fact's relation that is not its own."""
        return rng.choice([name for name in self.objects[fact.relation] if name != fact.object])


@dataclass(frozen=True)
class Fillers:
    """Sentence frames and word lists for text that states no fact of the world."""

    frames: tuple[str, ...]
    words: Mapping[str, tuple[str, ...]]
    ranges: Mapping[str, tuple[int, int]]
    flags: tuple[str, ...]
    made_up: Mapping[str, Any]

    def sentence(self, rng: Random) -> str:
        """Fill one frame at random."""
        values: dict[str, str] = {}
        for kind, words in self.words.items():
            values[kind], values[f"{kind}2"] = rng.sample(words, 2)
        for kind, (low, high) in self.ranges.items():
            values[kind] = str(rng.randint(low, high))
        return rng.choice(self.frames).format_map(values)

    def name(self, rng: Random, company: bool = False) -> str:
        """Make up a name of one or two words; a company may get an ending."""
        words = [self._word(rng) for _ in range(rng.choice((1, 2)))]
        if company and rng.random() < 0.5:
            words = [words[0], rng.choice(self.made_up["endings"])]
        return " ".join(words)

    def _word(self, rng: Random) -> str:
        count = rng.choice(self.made_up["syllable_counts"])
        return "".join(rng.choice(self.made_up["syllables"]) for _ in range(count)).capitalize()


@dataclass(frozen=True)
class World:
    """Everything the corpus talks about."""

    table: FactTable
    rules: FactTable
    fillers: Fillers

    @cached_property
    def editable_relations(self) -> tuple[str, ...]:
        """Relations whose facts can be edited and have neighbours, in file order."""
        return tuple(r for r in self.table.relations if r not in UNSHARED_RELATIONS)


def load_world(folder: Path = WORLD_DIR) -> World:
    """Read the world from its JSON files."""
    return World(
        table=_fact_table(_read(folder / "facts.json"), _read(folder / "templates.json")),
        rules=_rule_table(_read(folder / "rules.json")),
        fillers=_fillers(_read(folder / "fillers.json")),
    )


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _relation(name: str, data: Mapping[str, Any], capitalise: bool = False) -> Relation:
    return Relation(
        id=name,
        label=data.get("label", name),
        training=tuple(data["training"]),
        held_out=tuple(data["held_out"]),
        questions=tuple(data["questions"]),
        capitalise=capitalise,
    )


def _fact_table(facts: Mapping[str, Any], templates: Mapping[str, Any]) -> FactTable:
    triples = [Fact(*triple) for triple in facts["facts"]]
    seen: set[tuple[str, str]] = set()
    for fact in triples:
        if (fact.subject, fact.relation) in seen:
            raise ValueError(f"two objects for {fact.subject!r} and {fact.relation}")
        seen.add((fact.subject, fact.relation))
    used = {fact.relation for fact in triples}
    relations = {name: _relation(name, data) for name, data in templates.items() if name in used}
    return FactTable(triples, relations)


def _rule_table(data: Mapping[str, Any]) -> FactTable:
    relations = {
        name: _relation(name, data["templates"][name], capitalise=True)
        for name in (FORMULA, DESCRIPTION)
    }
    facts = [
        Fact(rule["subject"], name, rule[name]) for rule in data["rules"] for name in relations
    ]
    return FactTable(facts, relations)


def _fillers(data: Mapping[str, Any]) -> Fillers:
    return Fillers(
        frames=tuple(data["frames"]),
        words={k: tuple(data[k]) for k in ("adj", "noun", "verb", "who", "month", "name")},
        ranges={k: (data[k][0], data[k][1]) for k in ("day", "year")},
        flags=tuple(data["flags"]),
        made_up=data["made_up"],
    )
