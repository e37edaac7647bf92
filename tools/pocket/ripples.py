"""Makes the bundled sample of ripples: records in the layout of RippleEdits about facts of the world.

Facts that conditions ask for are known to the model. What it was not taught, chains and negations, it can't
be expected to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from random import Random
from typing import NamedTuple

from edit_harness_plugins.builders.counterfact import Record
from edit_harness_plugins.builders.files import made_up_id
from edit_harness_plugins.builders.triples import Fact
from edit_harness_plugins.commands.authoring import Knows

from .world import World, known_facts, read_json


class Wording(NamedTuple):
    """The name of a relation, its one template, and how its object is called in a chain."""

    name: str
    template: str
    noun: str = ""


WORDINGS = {name: Wording(*own) for name, own in read_json("wordings.json").items()}
EDITED = ("P27", "P17", "P36", "P19")
PEOPLE = frozenset({"P19", "P27"})
"""Relations of people, who are known by their surnames too, and may have more than one country."""
EACH_AXIS = 2
"""Tests of one axis at most."""
FEWEST = 3
"""Tests of an edit in all."""


def build_ripples(world: World, knows: Knows, rng: Random, each: int = 6) -> list[Record]:
    """Return ``each`` records of every edited relation, in random order."""
    facts = [fact for fact in world.table.facts if fact.relation in WORDINGS]
    known = known_facts(knows, facts, lambda f: [_prompt(f.relation, f.subject)])
    records: list[Record] = []
    for relation in EDITED:
        ours = [fact for fact in known if fact.relation == relation]
        rng.shuffle(ours)
        made = (Ripples(world, known, fact, rng).record() for fact in ours)
        records += islice((record for record in made if _count(record) >= FEWEST), each)
    rng.shuffle(records)
    return records


class Ripples:
    """The tests of one edit."""

    def __init__(self, world: World, known: list[Fact], fact: Fact, rng: Random) -> None:
        self.known, self.fact, self.rng = known, fact, rng
        self.new = replace(fact, object=world.table.other_object(fact, rng))

    def record(self) -> Record:
        """Return the edit with its tests."""
        edit = _stated(self.new)
        return {
            "example_type": "popular",
            "edit": {**edit, "original_fact": _stated(self.fact)},
            "Relation_Specificity": self._some(self._others()),
            "Logical_Generalization": self._some(self._logic()),
            "Subject_Aliasing": self._some(self._aliases()),
            "Compositionality_I": self._some(self._onwards()),
            "Compositionality_II": self._some(self._towards()),
            "Forgetfulness": self._some(self._kept()),
        }

    def _some(self, tests: Iterable[Record]) -> list[Record]:
        found = list(tests)
        return self.rng.sample(found, min(EACH_AXIS, len(found)))

    def _others(self) -> Iterator[Record]:
        for other in self._about(self.fact.subject):
            if other.relation != self.fact.relation:
                yield _test(_query(other), _query(other))

    def _logic(self) -> Iterator[Record]:
        if self.fact.relation == "P36":
            yield _test(_query(Fact(self.new.object, "P17", self.new.subject)))

    def _aliases(self) -> Iterator[Record]:
        """Ask for the new object by a surname; the model must know the old one by it."""
        surname = self.fact.subject.split()[-1]
        if self.fact.relation in PEOPLE and surname != self.fact.subject:
            phrase = _prompt(self.fact.relation, surname)
            yield _test(_query(self.new, phrase), _query(self.fact, phrase))

    def _onwards(self) -> Iterator[Record]:
        """Ask for what is known of the new object, by way of the subject."""
        for other in self._about(self.new.object):
            noun = WORDINGS[self.fact.relation].noun.format(self.fact.subject)
            yield _test(_chained(self.new, other, noun), _query(other))

    def _towards(self) -> Iterator[Record]:
        """Ask for the new object by way of something that has the subject as its object."""
        for other in self.known:
            wording = WORDINGS[other.relation]
            if other.object == self.fact.subject and wording.noun:
                noun = wording.noun.format(other.subject)
                yield _test(_chained(other, self.new, noun), _query(other))

    def _kept(self) -> Iterator[Record]:
        """Ask for the old country of a person, who may have another one too."""
        if self.fact.relation == "P27":
            subject = f"{self.fact.subject}, which is not {self.new.object},"
            query = _query(self.fact, _prompt("P27", subject))
            yield _test(query, query)

    def _about(self, subject: str) -> list[Fact]:
        return [fact for fact in self.known if fact.subject == subject]


def _count(record: Record) -> int:
    return sum(len(tests) for tests in record.values() if isinstance(tests, list))


def _test(question: Record, *conditions: Record) -> Record:
    return {
        "test_queries": [question],
        "test_condition": "OR",
        "condition_queries": list(conditions),
    }


def _stated(fact: Fact) -> Record:
    return {
        "prompt": f"{_prompt(fact.relation, fact.subject)} {fact.object}.",
        "subject_id": made_up_id(fact.subject),
        "relation": WORDINGS[fact.relation].name,
        "target_id": made_up_id(fact.object),
    }


def _query(fact: Fact, phrase: str = "") -> Record:
    """Ask for the object of a fact, in its relation's wording or another one."""
    return {
        "prompt": phrase or _prompt(fact.relation, fact.subject),
        "answers": [{"value": fact.object, "aliases": []}],
        "query_type": "regular",
        "subject_id": made_up_id(fact.subject),
        "relation": WORDINGS[fact.relation].name,
        "target_ids": [made_up_id(fact.object)],
        "phrase": phrase or None,
    }


def _chained(first: Fact, second: Fact, noun: str) -> Record:
    phrase = _prompt(second.relation, noun)
    return {
        **_query(first, phrase),
        "answers": [{"value": second.object, "aliases": []}],
        "query_type": "two_hop",
        "second_relation": WORDINGS[second.relation].name,
        "second_hop_target_ids": [made_up_id(second.object)],
    }


def _prompt(relation: str, subject: str) -> str:
    return WORDINGS[relation].template.format(subject)
