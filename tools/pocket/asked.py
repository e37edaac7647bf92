"""Makes the bundled samples in the layouts of QAEdit and WikiBigEdit: questions whose answers the model does not give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from edit_harness_plugins.builders.counterfact import Record
from edit_harness_plugins.builders.triples import Fact, by
from edit_harness_plugins.commands.authoring import Knows

from .samples import invented
from .world import World, known_facts, questions


def build_qaedit(
    world: World, knows: Knows, rng: Random, sample: Sequence[Record], size: int = 200
) -> list[Record]:
    """Return ``size`` questions as in QAEdit, none of which the model answers as it is to be written.

    Every other one is about an invented subject; the rest give known facts on subjects that ``sample`` edits
    another object. Five known facts of other subjects and relations should stay as they are.
    """
    edited = {record["requested_rewrite"]["subject"] for record in sample}
    known = _known(world, knows, rng, 4 * size)
    ours = [_altered(world, fact, rng) for fact in known if fact.subject in edited]
    edits = [fact for real in ours for fact in (real, invented(world, rng))]
    records = []
    for number, fact in enumerate(edits[:size]):
        question, rephrased = rng.sample(questions(world.table, fact), 2)
        others = [f for f in known if f.subject != fact.subject and f.relation != fact.relation]
        asked = [
            (questions(world.table, other)[0], other.object) for other in rng.sample(others, 5)
        ]
        records.append({
            "id": number, "source": "pocket", "prompt": question, "target": fact.object,
            "subject": fact.subject, "rephrase": rephrased,
            "locality": [{"loc": loc, "loc_ans": answer} for loc, answer in asked],
        })  # fmt: skip
    return records


def build_changes(world: World, knows: Knows, rng: Random, size: int = 1000) -> list[Record]:
    """Return ``size`` changes of known facts, as in WikiBigEdit, each of another fact.

    ``locality_prompt`` asks for a fact of the same relation that none of them changes.
    """
    known = _known(world, knows, rng, 2 * size)
    kept, records = by(known[size:], lambda fact: fact.relation), []
    for fact in (_altered(world, fact, rng) for fact in known[:size]):
        question, rephrased = rng.sample(questions(world.table, fact), 2)
        other = rng.choice([f for f in kept[fact.relation] if f.subject != fact.subject])
        records.append({
            "prompt": question, "target_new": fact.object, "subject": fact.subject,
            "rephrase_prompt": rephrased,
            "locality_prompt": questions(world.table, other)[0],
            "locality_ground_truth": other.object,
        })  # fmt: skip
    return records


def _known(world: World, knows: Knows, rng: Random, most: int) -> list[Fact]:
    """Return at most so many facts that can be edited and whose questions the model answers, in random order."""
    facts = [fact for name in world.editable_relations for fact in world.table.by_relation[name]]
    chosen = rng.sample(facts, min(len(facts), most))
    return known_facts(knows, chosen, lambda fact: questions(world.table, fact))


def _altered(world: World, fact: Fact, rng: Random) -> Fact:
    return replace(fact, object=world.table.other_object(fact, rng))
