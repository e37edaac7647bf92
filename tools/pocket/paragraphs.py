"""Makes the bundled sample of paragraphs: records in the layout of UnKEBench, of which nothing is true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from edit_harness_plugins.builders.counterfact import Record
from edit_harness_plugins.builders.triples import Fact

from .samples import told
from .world import World, questions

FEWEST_FACTS = 4
"""Of a subject that a paragraph is about."""


def build_paragraphs(world: World, rng: Random, size: int = 24) -> list[Record]:
    """Return records on so many subjects: of each other objects, a sentence for each.

    The question asks for the first, and so does its rewording; the questions about parts, for each.
    A person's gender is left alone.
    """
    relations = set(world.editable_relations) - {"P21"}
    known = {
        subject: [fact for fact in own if fact.relation in relations]
        for subject, own in world.table.by_subject.items()
    }
    rich = [subject for subject, facts in known.items() if len(facts) >= FEWEST_FACTS]
    return [_paragraph(world, i, known[s], rng) for i, s in enumerate(rng.sample(rich, size))]


def _paragraph(world: World, number: int, facts: Sequence[Fact], rng: Random) -> Record:
    table = world.table
    shuffled = rng.sample(facts, len(facts))
    new = [replace(fact, object=table.other_object(fact, rng)) for fact in shuffled]
    question, reworded = rng.sample(questions(table, new[0]), 2)
    return {
        "id": number,
        "question": question,
        "para_question": reworded,
        "answer": told(table, new, rng),
        "sub_question": [rng.choice(questions(table, fact)) for fact in new],
        "sub_answer": [fact.object for fact in new],
    }
