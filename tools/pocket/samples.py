"""Makes the bundled samples in the layouts of CounterFact, Seesaw-CF and zsRE, and what goes with them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from edit_harness_plugins.builders.counterfact import (
    Record,
    known_prompts,
    object_id,
    paraphrases_of,
    prompts_about,
    rewrite_of,
)
from edit_harness_plugins.builders.seesaw import Seesaw
from edit_harness_plugins.builders.triples import Fact, FactTable
from edit_harness_plugins.commands.authoring import Knows, Material

from .corpus import lower_first
from .world import FACTS, TEMPLATES, WORLD_DIR, World, known_facts, questions

MOST_SUBJECTS = 8
"""On whom there are reference texts, of each relation and object."""


def write_people(folder: Path, knows: Knows, seed: int) -> None:
    """Make the folder of Seesaw-CF about the world's people anew, tagged by gender and region."""
    shutil.rmtree(folder, ignore_errors=True)
    tags, places = (str(WORLD_DIR / name) for name in ("people.json", "places.json"))
    builder = Seesaw(cases=24, people=12, phrasings=1, tags=tags, places=places, seed=seed)
    builder.build(Material(WORLD_DIR / FACTS, WORLD_DIR / TEMPLATES, knows), folder, print)


def build_lessons(
    world: World, knows: Knows, rng: Random, sample: Sequence[Record], size: int = 1250
) -> list[Record]:
    """Return up to ``size`` records for editors that learn from examples, in random order.

    They are of known facts on subjects that the sample edits nowhere: what an editor has learned from
    them says nothing of the cases that it is then measured on.
    """
    edited = {record["requested_rewrite"]["subject"] for record in sample}
    lessons = []
    for relation in world.editable_relations:
        known = known_prompts(world.table, relation, knows, withhold=True)
        ours = {fact: texts for fact, texts in known.items() if fact.subject not in edited}
        records = [_lesson(world, fact, ours, rng) for fact in ours]
        lessons += [record for record in records if record["neighborhood_prompts"]]
    rng.shuffle(lessons)
    return lessons[:size]


def _lesson(world: World, fact: Fact, known: Mapping[Fact, Sequence[str]], rng: Random) -> Record:
    table = world.table
    template = rng.choice(known[fact])
    words = table.relations[fact.relation]
    return {
        "requested_rewrite": rewrite_of(table, fact, template, table.other_object(fact, rng)),
        "paraphrase_prompts": paraphrases_of(words, fact, world.fillers, rng),
        "neighborhood_prompts": prompts_about(table, fact, fact.object, template, known, rng, 1),
    }


def build_references(world: World, rng: Random, sample: Sequence[Record]) -> list[Record]:
    """Return texts on some subjects for each relation and new object of the sample.

    In CounterFact's attribute_snippets.json a text is the beginning of an article of Wikipedia; here it
    is all that is known of a subject, a sentence for each fact.
    """
    rewrites = [record["requested_rewrite"] for record in sample]
    pairs = sorted({(r["relation_id"], r["target_new"]["str"]) for r in rewrites})
    return [
        {
            "relation_id": relation,
            "target_id": object_id(world.table, relation, target),
            "samples": _samples(world.table, relation, target, rng),
        }
        for relation, target in pairs
    ]


def _samples(table: FactTable, relation: str, target: str, rng: Random) -> list[dict[str, str]]:
    facts = table.by_object[relation, target]
    chosen = rng.sample(facts, min(MOST_SUBJECTS, len(facts)))
    return [
        {"name": f.subject, "text": told(table, table.by_subject[f.subject], rng)} for f in chosen
    ]


def told(table: FactTable, facts: Sequence[Fact], rng: Random) -> str:
    """Write a sentence for each fact, in words that the model has seen its subject and relation in."""
    sentences = []
    for fact in facts:
        words = table.relations[fact.relation]
        template = rng.choice(words.seen_templates(fact.subject))
        sentences.append(f"{words.fill(template, fact.subject)} {fact.object}.")
    return " ".join(sentences)


def build_questions(
    world: World, knows: Knows, rng: Random, sample: Sequence[Record], size: int = 200
) -> list[Record]:
    """Return ``size`` questions as in zsRE, on known and on invented subjects in turn.

    Half of them ask for facts that the model knows, so that writing another answer has something to
    overwrite; they are about subjects that ``sample`` edits, which no lesson is about. The other half
    is about invented subjects, so that even the first answer is news, as most of zsRE's are to large
    models. ``loc`` asks for a fact that the model knows and that has neither subject nor relation in
    common with the edit.
    """
    edited = {record["requested_rewrite"]["subject"] for record in sample}
    editable = (f for name in world.editable_relations for f in world.table.by_relation[name])
    ours = [fact for fact in editable if fact.subject in edited]
    chosen = rng.sample(ours, min(len(ours), 2 * size))
    known = known_facts(knows, chosen, lambda f: [*questions(world.table, f), f"{_loc(world, f)}?"])
    edits = [fact for real in known for fact in (real, invented(world, rng))]
    return [_question(world, fact, known, rng) for fact in edits[:size]]


def invented(world: World, rng: Random) -> Fact:
    """Return a fact about a subject that nobody knows."""
    relation = rng.choice(world.editable_relations)
    name = world.fillers.name(rng, relation)
    return Fact(name, relation, rng.choice(world.table.objects[relation]))


def _question(world: World, fact: Fact, known: Sequence[Fact], rng: Random) -> Record:
    question, rephrased = rng.sample(questions(world.table, fact), 2)
    other = rng.choice(
        [f for f in known if f.subject != fact.subject and f.relation != fact.relation]
    )
    return {
        "subject": fact.subject,
        "src": question,
        "rephrase": rephrased,
        "answers": [fact.object],
        "alt": world.table.other_object(fact, rng),
        "loc": _loc(world, other),
        "loc_ans": other.object,
    }


def _loc(world: World, fact: Fact) -> str:
    """Ask for a fact as NaturalQuestions' items are asked; zsRE's files leave out the "?"."""
    question = questions(world.table, fact)[0].rstrip("?")
    return f"nq question: {lower_first(question, fact.subject)}"
