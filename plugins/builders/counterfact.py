"""Records in CounterFact's schema (Meng et al., 2022, appendix C) from a user's own facts.

With a model, a record asks only for what it knows. Records are not balanced by hand as CounterFact's were, and
their generation prompts are other prompts of the same relation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice, zip_longest
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from edit_harness import DataError, UsageError
from edit_harness.errors import counted
from edit_harness.registry.settings import Count, Natural
from edit_harness_plugins.commands.authoring import Builder, Knows, Material
from edit_harness_plugins.inputs import file_at

from . import fillers, templates, triples
from .files import listed, made_up_id, rewrite, write
from .fillers import BUILT_IN, Fillers
from .templates import WITHHELD, Relation
from .triples import Fact, FactTable

Record = dict[str, Any]

MOST = 10
"""Neighbours, and attribute prompts, of a record."""
GENERATIONS = 5
PARAPHRASES = 2
LEAST = {"training": 2, "held_out": PARAPHRASES}
"""How many templates a relation needs: a neighbour is asked in other words than the edit."""


@dataclass(frozen=True)
class CounterFact(Builder):
    """Makes a file of records for counterfact and counterfactplus.

    The rewrite prompt is a training template, the new object another one of the relation; two
    paraphrases in held-out templates stand behind a sentence that has nothing to do with them; up to
    ten neighbours share the old object and up to ten subjects of the attribute prompts have the new
    one. A subject with several objects of a relation is neither edited nor asked about, since
    nothing says which of them an edit replaces.
    """

    citation: ClassVar[str] = "Meng et al., 2022 (CounterFact)"
    needs: ClassVar[str] = (
        "objects that subjects share; two training and two held-out templates each"
    )

    size: Natural = 0
    """The most records, as many of each relation as there are; 0 is all."""
    fewest_neighbours: Count = 1
    """A fact with fewer is not edited."""
    fillers: str = ""
    """A file of sentences to stand before paraphrases, instead of those built in."""
    withhold: bool = False
    """Whether two training templates of each fact, picked by a checksum, are not used: those that a
    model was not shown with it."""
    seed: int = 0
    """Seed of what is drawn."""

    def build(self, material: Material, out: Path, report: Callable[[str], None]) -> None:
        """Write the records as JSON; say which facts they leave out."""
        if material.templates is None:
            raise UsageError("records need the relations' words", "add --templates FILE")
        words = templates.read(material.templates)
        least = LEAST | ({"training": LEAST["training"] + WITHHELD} if self.withhold else {})
        table = _table(triples.read(material.triples), words, least, report)
        own = file_at(self.fillers, "name one: fillers=FILE") if self.fillers else BUILT_IN
        sentences = fillers.read(own)
        made = self.records(table, sentences, material.knows, report)
        if not made:
            raise DataError(
                f"no record can be made of {counted(len(table.facts), 'fact')} in {material.triples}",
                "it takes subjects that share an object, and another object to write"
                + (", known to the model" if material.knows else ""),
            )
        write(made, out)
        report(f"made     {counted(len(made), 'record')} of {counted(len(table.facts), 'fact')}")

    def records(
        self,
        table: FactTable,
        sentences: Fillers,
        knows: Knows | None = None,
        report: Callable[[str], None] = lambda line: None,
    ) -> list[Record]:
        """Return records in random order, spread evenly over the relations."""
        rng = Random(self.seed)
        left: Counter[str] = Counter()
        fit = [
            name
            for name in table.relations
            if len(table.objects[name]) > 1 and table.widest(name) > self.fewest_neighbours
        ]
        unfit = [fact for fact in table.facts if fact.relation not in fit]
        left["its relation has one object, or none that so many subjects share"] = len(unfit)
        by_relation = {
            name: self._of_relation(table, sentences, name, knows, rng, left) for name in fit
        }
        records = spread(by_relation, self.size or len(table.facts))
        left[f"size={self.size} takes no more"] = sum(map(len, by_relation.values())) - len(records)
        for reason, number in left.items():
            if number:
                report(f"left out {counted(number, 'fact')}: {reason}")
        rng.shuffle(records)
        return [{"case_id": i, "pararel_idx": i, **record} for i, record in enumerate(records)]

    def _of_relation(
        self,
        table: FactTable,
        sentences: Fillers,
        name: str,
        knows: Knows | None,
        rng: Random,
        left: Counter[str],
    ) -> list[Record]:
        """Return the records of a relation, and count the facts that are left out by reason."""
        facts = list(table.by_relation[name])
        rng.shuffle(facts)
        known = known_prompts(table, name, knows, withhold=self.withhold)
        sure = [fact for fact in facts if fact in known]
        found = [self._record(table, sentences, fact, known, rng) for fact in sure]
        records = [record for record in found if record is not None]
        left["the model does not know them"] += len(facts) - len(sure)
        what = counted(self.fewest_neighbours, "neighbour")
        words = " that the model knows" if knows else ""
        left[f"fewer than {what}{words}"] += len(sure) - len(records)
        return records

    def _record(
        self,
        table: FactTable,
        sentences: Fillers,
        fact: Fact,
        known: Mapping[Fact, Sequence[str]],
        rng: Random,
    ) -> Record | None:
        """Make the record of one edit, or nothing where too few neighbours are known."""
        words = table.relations[fact.relation]
        template = rng.choice(known[fact])
        neighbours = prompts_about(table, fact, fact.object, template, known, rng, MOST)
        if len(neighbours) < self.fewest_neighbours:
            return None
        new = table.other_object(fact, rng)
        attributes = prompts_about(table, fact, new, template, known, rng, MOST)
        paraphrases = paraphrases_of(words, fact, sentences, rng)
        generations = rng.sample(words.training, min(GENERATIONS, len(words.training)))
        return {
            "requested_rewrite": rewrite_of(table, fact, template, new),
            "paraphrase_prompts": paraphrases,
            "neighborhood_prompts": neighbours,
            "attribute_prompts": attributes,
            "generation_prompts": [words.fill(text, fact.subject) for text in generations],
        }


def known_prompts(
    table: FactTable, relation: str, knows: Knows | None, *, withhold: bool
) -> dict[Fact, list[str]]:
    """For every fact of a relation the training templates in which the model answers right.

    A fact without any is not in it; without a model every template is.
    """
    words = table.relations[relation]
    pairs = [
        (fact, template)
        for fact in table.by_relation[relation]
        for template in (words.seen_templates(fact.subject) if withhold else words.training)
    ]
    items = [(words.fill(template, fact.subject), fact.object) for fact, template in pairs]
    verdicts = knows(items) if knows else [True] * len(items)
    right = [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict]
    by_fact = triples.by(right, lambda pair: pair[0])
    return {fact: [template for _, template in own] for fact, own in by_fact.items()}


def rewrite_of(table: FactTable, fact: Fact, template: str, new: str) -> Record:
    """Return what a record says of the edit itself."""
    return rewrite(fact, template, new, partial(object_id, table, fact.relation))


def object_id(table: FactTable, relation: str, name: str) -> str:
    """Return an object's identifier, the facts' own or a made-up one."""
    given = (fact.object_id for fact in table.by_object[relation, name])
    return next(filter(None, given), made_up_id(name))


def paraphrases_of(words: Relation, fact: Fact, sentences: Fillers, rng: Random) -> list[str]:
    """Put the fact's subject into two held-out templates, each behind a filler sentence."""
    return [
        f"{sentences.sentence(rng)} {words.fill(held_out, fact.subject)}"
        for held_out in rng.sample(words.held_out, PARAPHRASES)
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


def spread(by_relation: Mapping[str, Sequence[Record]], size: int) -> list[Record]:
    """Take records in turn from every relation until there are enough or none is left."""
    rounds = chain.from_iterable(zip_longest(*by_relation.values()))
    return list(islice((record for record in rounds if record is not None), size))


def _table(
    facts: Sequence[Fact],
    words: Mapping[str, Relation],
    least: Mapping[str, int],
    report: Callable[[str], None],
) -> FactTable:
    """Return the facts that records can be made of, in the templates' order; say what is left out.

    Raises `DataError` if no fact has words, or if a relation has too few templates.
    """
    used = {fact.relation for fact in facts}
    relations = {name: relation for name, relation in words.items() if name in used}
    if not relations:
        raise DataError(
            f"no fact has one of the relations {listed(list(words))} that have templates",
            f"the facts' relations are {listed(sorted(used))}: write templates for them",
        )
    few = [
        f"{relation.id} has {count} of {kind}, and needs {needed}"
        for relation in relations.values()
        for kind, needed in least.items()
        if (count := len(getattr(relation, kind))) < needed
    ]
    if few:
        raise DataError(f"too few templates: {listed(few)}", "write more of them")
    worded = [fact for fact in facts if fact.relation in relations]
    if silent := sorted(used - relations.keys()):
        unsaid = counted(len(facts) - len(worded), "fact")
        report(
            f"left out the facts of {listed(silent)}: there are no templates for them ({unsaid})"
        )
    ambiguous = triples.several(worded)
    if ambiguous:
        told = [f"{subject} {relation}" for subject, relation in ambiguous]
        lost = counted(sum(map(len, ambiguous.values())), "fact")
        report(
            f"left out {counted(len(told), 'subject')} with several objects of a relation ({lost}): "
            f"{listed(told)}"
        )
    kept = [fact for fact in worded if (fact.subject, fact.relation) not in ambiguous]
    present = {fact.relation for fact in kept}
    return FactTable(kept, {name: words[name] for name in relations if name in present})
