"""Makes the lessons that ship with the pocket model: edits for editors that learn from examples.

They are in the format of CounterFact, and about subjects that the bundled sample edits nowhere: what
an editor has learned from them says nothing of the cases that it is then measured on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from transformers import PreTrainedModel, PreTrainedTokenizerFast

from edit_harness_plugins.builders.counterfact import (
    Record,
    known_prompts,
    paraphrases_of,
    prompts_about,
    rewrite_of,
)
from edit_harness_plugins.builders.triples import Fact

from .recall import knowing
from .world import World


def build_lessons(
    world: World,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    rng: Random,
    sample: Sequence[Record],
    size: int = 1250,
) -> list[Record]:
    """Up to ``size`` records of known facts whose subject is not of the sample, in random order."""
    edited = {record["requested_rewrite"]["subject"] for record in sample}
    knows = knowing(model, tokenizer)
    records = []
    for relation in world.editable_relations:
        known = known_prompts(world.table, relation, knows, withhold=True)
        ours = {fact: texts for fact, texts in known.items() if fact.subject not in edited}
        records += [_lesson(world, fact, ours, rng) for fact in ours]
    lessons = [record for record in records if record["neighborhood_prompts"]]
    rng.shuffle(lessons)
    return lessons[:size]


def _lesson(world: World, fact: Fact, known: Mapping[Fact, Sequence[str]], rng: Random) -> Record:
    """Make the record of one edit, with one neighbour if there is any."""
    table = world.table
    template = rng.choice(known[fact])
    words = table.relations[fact.relation]
    return {
        "requested_rewrite": rewrite_of(table, fact, template, table.other_object(fact, rng)),
        "paraphrase_prompts": paraphrases_of(words, fact, world.fillers, rng),
        "neighborhood_prompts": prompts_about(table, fact, fact.object, template, known, rng, 1),
    }
