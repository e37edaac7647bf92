"""Makes the bundled sample of chains: records in the layout of MQuAKE about facts the model knows.

Every link that is not edited, and every one before the edit, is known to the model by question and by cloze
prompt. It was taught no chains, so that it can't be expected to follow one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from random import Random
from typing import NamedTuple

from edit_harness_plugins.builders.counterfact import Record, rewrite_of
from edit_harness_plugins.builders.files import made_up_id
from edit_harness_plugins.builders.triples import Fact
from edit_harness_plugins.commands.authoring import Knows

from .world import World, known_facts, questions, read_json

NOUNS: Mapping[str, Sequence[str]] = read_json("nouns.json")
"""What an object is called by way of its subject; one wording for each question of a chain."""
QUESTIONS = 3

Links = Mapping[tuple[str, str], str]
"""Objects by subject and relation."""


class Shape(NamedTuple):
    """The relations of a chain, and which of its links are edited."""

    relations: tuple[str, ...]
    edited: tuple[int, ...]


SHAPES = (
    Shape(("P176", "P159", "P17", "P36"), (1,)),
    Shape(("P131", "P17", "P30"), (0, 1)),
    Shape(("P159", "P17", "P37"), (1,)),
    Shape(("P19", "P17", "P36"), (0,)),
    Shape(("P19", "P17", "P37"), (0, 2)),
    Shape(("P131", "P17"), (0,)),
    Shape(("P27", "P30"), (0, 1)),
    Shape(("P27", "P37"), (1,)),
    Shape(("P27", "P36"), (0,)),
    Shape(("P17", "P30"), (0,)),
)
"""Four, three and two links, with one or two edits; the scarcest first.

The world has one maker of products whose headquarters the model knows, so one chain of four links.
"""


class Chain(NamedTuple):
    """Facts of which each is about the object of the one before, as they were and as they become."""

    old: tuple[Fact, ...]
    new: tuple[Fact, ...]
    edited: tuple[int, ...]

    @property
    def edits(self) -> list[Fact]:
        """The facts to be written."""
        return [self.new[i] for i in self.edited]

    @property
    def kept(self) -> list[Fact]:
        """The facts that the new end depends on and that stay as they are."""
        return [fact for i, fact in enumerate(self.new) if i not in self.edited]


class Peace:
    """Keeps chains apart that could not be edited at once: one edits what another depends on."""

    def __init__(self) -> None:
        self.edited: set[tuple[str, str]] = set()
        self.kept: set[tuple[str, str]] = set()

    def admits(self, chain: Chain) -> bool:
        """Tell whether a chain goes with those before, and keep it in mind if so."""
        edited, kept = (
            {(fact.subject, fact.relation) for fact in facts} for facts in (chain.edits, chain.kept)
        )
        if fits := not (edited & (self.edited | self.kept) or kept & self.edited):
            self.edited |= edited
            self.kept |= kept
        return fits


def build_chains(world: World, knows: Knows, rng: Random, each: int = 5) -> list[Record]:
    """Return ``each`` records of every shape, as far as the model knows enough, in random order."""
    relations = {r for shape in SHAPES for r in shape.relations}
    facts = [fact for fact in world.table.facts if fact.relation in relations]
    # What the model names after question and cloze.
    known = known_facts(knows, facts, lambda f: [questions(world.table, f)[0], _cloze(world, f)])
    links = {(fact.subject, fact.relation): fact.object for fact in known}
    peace = Peace()
    records = []
    for shape in SHAPES:
        chains = (chain for chain in _chains(links, shape, rng) if peace.admits(chain))
        records += [_record(world, links, chain) for chain in islice(chains, each)]
    rng.shuffle(records)
    return [{"case_id": i, **record} for i, record in enumerate(records, 1)]


def _chains(links: Links, shape: Shape, rng: Random) -> Iterator[Chain]:
    subjects = [subject for subject, relation in links if relation == shape.relations[0]]
    rng.shuffle(subjects)
    for subject in subjects:
        old = _walk(links, subject, shape.relations, (), rng)
        new = _walk(links, subject, shape.relations, shape.edited, rng)
        if old and new and old[-1].object != new[-1].object:
            yield Chain(old, new, shape.edited)


def _walk(
    links: Links, subject: str, relations: Sequence[str], edited: Sequence[int], rng: Random
) -> tuple[Fact, ...]:
    """Return a chain of facts, with new objects where it is edited; empty if there is none."""
    relation, *others = relations
    if not (true := links.get((subject, relation))):
        return ()
    objects = [true]
    if 0 in edited:
        objects = sorted({o for (_, r), o in links.items() if r == relation} - {true})
        rng.shuffle(objects)
    for target in objects:
        fact = Fact(subject, relation, target)
        if not others:
            return (fact,)
        if rest := _walk(links, target, others, [at - 1 for at in edited], rng):
            return (fact, *rest)
    return ()


def _record(world: World, links: Links, chain: Chain) -> Record:
    edits = []
    for fact in chain.edits:
        true = Fact(fact.subject, fact.relation, links[fact.subject, fact.relation])
        rewrite = rewrite_of(world.table, true, _template(world, fact), fact.object)
        edits.append({**rewrite, "question": questions(world.table, fact)[0]})
    return {
        "requested_rewrite": edits,
        "questions": [_questions(world, chain.old, i) for i in range(QUESTIONS)],
        "answer": chain.old[-1].object,
        "answer_alias": [],
        "new_answer": chain.new[-1].object,
        "new_answer_alias": [],
        "single_hops": [_hop(world, fact) for fact in chain.old],
        "new_single_hops": [_hop(world, fact) for fact in chain.new],
        "orig": {
            "triples": [_triple(fact) for fact in chain.old],
            "new_triples": [_triple(fact) for fact in chain.new],
            "edit_triples": [_triple(fact) for fact in chain.edits],
        },
    }


def _questions(world: World, facts: Sequence[Fact], number: int) -> str:
    """Ask for the end of a chain, in words that depend on the question's number."""
    text = facts[0].subject
    for fact in facts[:-1]:
        text = NOUNS[fact.relation][number].format(text)
    asked = questions(world.table, replace(facts[-1], subject=text))
    return asked[number % len(asked)]


def _hop(world: World, fact: Fact) -> Record:
    return {
        "question": questions(world.table, fact)[0],
        "cloze": _cloze(world, fact),
        "answer": fact.object,
        "answer_alias": [],
    }


def _triple(fact: Fact) -> list[str]:
    return [made_up_id(fact.subject), fact.relation, made_up_id(fact.object)]


def _cloze(world: World, fact: Fact) -> str:
    return world.table.relations[fact.relation].fill(_template(world, fact), fact.subject)


def _template(world: World, fact: Fact) -> str:
    return world.table.relations[fact.relation].seen_templates(fact.subject)[0]
