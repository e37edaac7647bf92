"""Makes the lessons that ship with the pocket model: edits for editors that learn from examples.

They are in the format of CounterFact, and about subjects that the bundled sample edits nowhere: what
an editor has learned from them says nothing of the cases that it is then measured on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from transformers import PreTrainedModel, PreTrainedTokenizerFast

from edit_harness_plugins.models.pocket.build.sample import (
    Record,
    known_prompts,
    paraphrases_of,
    prompts_about,
    rewrite_of,
)
from edit_harness_plugins.models.pocket.build.world import Fact, World


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
    records = []
    for relation in world.editable_relations:
        known = known_prompts(world.table, model, tokenizer, relation)
        ours = {fact: texts for fact, texts in known.items() if fact.subject not in edited}
        records += [_lesson(world, fact, ours, rng) for fact in ours]
    lessons = [record for record in records if record["neighborhood_prompts"]]
    rng.shuffle(lessons)
    return lessons[:size]


def _lesson(world: World, fact: Fact, known: Mapping[Fact, Sequence[str]], rng: Random) -> Record:
    """Make the record of one edit, with one neighbour if there is any."""
    template = rng.choice(known[fact])
    return {
        "requested_rewrite": rewrite_of(fact, template, world.table.other_object(fact, rng)),
        "paraphrase_prompts": paraphrases_of(world, fact, rng),
        "neighborhood_prompts": prompts_about(
            world.table, fact, fact.object, template, known, rng, 1
        ),
    }
