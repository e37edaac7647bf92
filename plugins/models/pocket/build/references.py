"""Makes the reference texts of the bundled sample: what the world says of those who have an object.

They are in the layout of CounterFact's attribute_snippets.json. There a text is the beginning of an
article of Wikipedia; here it is all that is known of a subject, a sentence for each fact.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from edit_harness_plugins.builders.counterfact import Record, object_id
from edit_harness_plugins.builders.triples import FactTable

from .world import World

MOST_SUBJECTS = 8


def build_references(world: World, rng: Random, sample: Sequence[Record]) -> list[dict[str, Any]]:
    """Texts on up to ``MOST_SUBJECTS`` subjects for each relation and new object of the sample."""
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
    return [{"name": f.subject, "text": _text(table, f.subject, rng)} for f in chosen]


def _text(table: FactTable, subject: str, rng: Random) -> str:
    """Write a sentence for each fact of a subject, in words that the model has seen it in."""
    sentences = []
    for fact in table.by_subject[subject]:
        words = table.relations[fact.relation]
        template = rng.choice(words.seen_templates(subject))
        sentences.append(f"{words.fill(template, subject)} {fact.object}.")
    return " ".join(sentences)
