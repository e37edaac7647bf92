"""Makes the bundled sample of questions: records in the layout of zsRE, as MEND's authors have it.

Half of them ask for facts that the model knows, so that writing another answer has something to
overwrite; the other half is about invented subjects, so that even the first answer is news, as
most of zsRE's are to large models. ``loc`` asks for a fact that the model knows and that has
neither subject nor relation in common with the edit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from transformers import PreTrainedModel, PreTrainedTokenizerFast

from edit_harness_plugins.builders.counterfact import Record
from edit_harness_plugins.builders.triples import Fact

from .corpus import lower_first
from .recall import score_objects
from .world import World

ORGANISATIONS = frozenset({"P159"})
"""Relations whose invented subjects have names of companies."""


def build_questions(
    world: World,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    rng: Random,
    sample: Sequence[Record],
    size: int = 200,
) -> list[Record]:
    """Return ``size`` records, known and invented subjects in turn.

    The known ones are about subjects that ``sample`` edits, which no lesson is about.
    """
    edited = {record["requested_rewrite"]["subject"] for record in sample}
    ours = [fact for fact in _editable(world) if fact.subject in edited]
    known = _known(world, model, tokenizer, rng.sample(ours, min(len(ours), 2 * size)))
    edits = [
        fact
        for pair in zip(known, (_invented(world, rng) for _ in known), strict=True)
        for fact in pair
    ]
    return [_record(world, fact, known, rng) for fact in edits[:size]]


def _editable(world: World) -> Iterator[Fact]:
    return (fact for name in world.editable_relations for fact in world.table.by_relation[name])


def _known(
    world: World,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    facts: Sequence[Fact],
) -> list[Fact]:
    """Return the facts that the model answers right, as any question and as ``loc``."""
    asked = [
        (fact, prompt)
        for fact in facts
        for prompt in (*_questions(world, fact), f"{_loc(world, fact)}?")
    ]
    scores = score_objects(model, tokenizer, [(prompt, fact.object) for fact, prompt in asked])
    missed = {fact for (fact, _), score in zip(asked, scores, strict=True) if not score.correct}
    return [fact for fact in facts if fact not in missed]


def _invented(world: World, rng: Random) -> Fact:
    """Give a made-up subject one of the objects that a relation has."""
    relation = rng.choice(world.editable_relations)
    name = world.fillers.name(rng, relation in ORGANISATIONS)
    return Fact(name, relation, rng.choice(world.table.objects[relation]))


def _record(world: World, fact: Fact, known: Sequence[Fact], rng: Random) -> Record:
    question, rephrased = rng.sample(_questions(world, fact), 2)
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


def _questions(world: World, fact: Fact) -> list[str]:
    relation = world.table.relations[fact.relation]
    return [relation.fill(question, fact.subject) for question in relation.questions]


def _loc(world: World, fact: Fact) -> str:
    """Ask for a fact as NaturalQuestions' items are asked; zsRE's files leave out the "?"."""
    question = _questions(world, fact)[0].rstrip("?")
    return f"nq question: {lower_first(question, fact.subject)}"
