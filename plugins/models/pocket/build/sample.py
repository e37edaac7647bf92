"""Makes the bundled sample: records in the format of CounterFact about facts the model knows.

A record is kept only if the model ranks the true object first for the rewrite prompt and for enough
neighbours, since a fact it doesn't hold can neither be overwritten nor bled into.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerFast

from edit_harness_plugins.models.pocket.build.recall import score_objects
from edit_harness_plugins.models.pocket.build.world import Fact, FactTable, World

Record = dict[str, Any]

FEWEST_NEIGHBOURS = 5
MOST_NEIGHBOURS = 10
MOST_ATTRIBUTES = 10
GENERATIONS = 5


def build_sample(
    world: World,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    rng: Random,
    size: int = 500,
) -> list[Record]:
    """Up to ``size`` records, spread evenly over the editable relations and in random order."""
    by_relation = {
        relation: _relation_records(world, model, tokenizer, relation, rng)
        for relation in world.editable_relations
    }
    records = _spread(by_relation, size)
    rng.shuffle(records)
    return [{"case_id": i, "pararel_idx": i, **record} for i, record in enumerate(records)]


def _relation_records(
    world: World,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    relation: str,
    rng: Random,
) -> list[Record]:
    facts = list(world.table.by_relation[relation])
    rng.shuffle(facts)
    known = known_prompts(world.table, model, tokenizer, relation)
    records = (_record(world, fact, known, rng) for fact in facts)
    return [record for record in records if record is not None]


def known_prompts(
    table: FactTable, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, relation: str
) -> dict[Fact, list[str]]:
    """For every fact of a relation the training templates in which the model answers right."""
    words = table.relations[relation]
    pairs = [
        (fact, template)
        for fact in table.by_relation[relation]
        for template in words.seen_templates(fact.subject)
    ]
    items = [(words.fill(template, fact.subject), fact.object) for fact, template in pairs]
    known: dict[Fact, list[str]] = defaultdict(list)
    for (fact, template), score in zip(pairs, score_objects(model, tokenizer, items), strict=True):
        if score.correct:
            known[fact].append(template)
    return dict(known)


def _record(world: World, fact: Fact, known: dict[Fact, list[str]], rng: Random) -> Record | None:
    """Make the record of one edit, or nothing where the model doesn't know enough."""
    table = world.table
    words = table.relations[fact.relation]
    if fact not in known:
        return None
    template = rng.choice(known[fact])
    neighbours = prompts_about(table, fact, fact.object, template, known, rng, MOST_NEIGHBOURS)
    if len(neighbours) < FEWEST_NEIGHBOURS:
        return None
    new = table.other_object(fact, rng)
    attributes = prompts_about(table, fact, new, template, known, rng, MOST_ATTRIBUTES)
    paraphrases = paraphrases_of(world, fact, rng)
    generations = rng.sample(words.training, GENERATIONS)
    return {
        "requested_rewrite": rewrite_of(fact, template, new),
        "paraphrase_prompts": paraphrases,
        "neighborhood_prompts": neighbours,
        "attribute_prompts": attributes,
        "generation_prompts": [words.fill(text, fact.subject) for text in generations],
    }


def rewrite_of(fact: Fact, template: str, new: str) -> Record:
    """Return what a record says of the edit itself."""
    return {
        "prompt": template,
        "relation_id": fact.relation,
        "target_new": {"str": new, "id": object_id(new)},
        "target_true": {"str": fact.object, "id": object_id(fact.object)},
        "subject": fact.subject,
    }


def paraphrases_of(world: World, fact: Fact, rng: Random) -> list[str]:
    """Put the fact's subject into two held-out templates, each behind a filler sentence."""
    words = world.table.relations[fact.relation]
    return [
        f"{world.fillers.sentence(rng)} {words.fill(held_out, fact.subject)}"
        for held_out in rng.sample(words.held_out, 2)
    ]


def prompts_about(
    table: FactTable,
    edited: Fact,
    target: str,
    template: str,
    known: Mapping[Fact, Sequence[str]],
    rng: Random,
    most: int,
) -> list[str]:
    """Prompts about other subjects that have ``target``, in other words than the rewrite prompt."""
    words = table.relations[edited.relation]
    prompts = []
    for other in table.by_object[edited.relation, target]:
        choices = [text for text in known.get(other, []) if text != template]
        if other.subject != edited.subject and choices:
            prompts.append(words.fill(rng.choice(choices), other.subject))
    rng.shuffle(prompts)
    return prompts[:most]


def _spread(by_relation: dict[str, list[Record]], size: int) -> list[Record]:
    """Take records in turn from every relation until there are enough or none is left."""
    queues = [list(records) for records in by_relation.values()]
    out: list[Record] = []
    while len(out) < size and any(queues):
        for queue in queues:
            if queue and len(out) < size:
                out.append(queue.pop(0))
    return out


def object_id(name: str) -> str:
    """Return a stable made-up identifier; the world has no Wikidata ids."""
    return f"W{zlib.crc32(name.encode()):08x}"
