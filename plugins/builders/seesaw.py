"""A data folder in Seesaw-CF's schema (Halevy et al., 2024) from facts about people.

Beside the authors' files it has ``subjects.json``, what is known of everyone, and ``candidates.json``, the values
to choose from. Nobody's race or region is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, permutations
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Literal

from edit_harness import DataError, UsageError
from edit_harness.errors import counted
from edit_harness.registry.settings import Count, Natural
from edit_harness_plugins.commands.authoring import Builder, Knows, Material
from edit_harness_plugins.inputs import file_at, refuse
from edit_harness_plugins.people import BETWEEN, read

from . import files, templates, triples
from .asking import OPEN, Asked, Source, fill, past, phrases_of
from .people import GENDERS, PROPERTIES, Person, people_of, spelled
from .triples import Fact

Record = dict[str, Any]

SETS = (
    "P101", "P103", "P21_P101", "P27_P101", "P19_P101",
    "P19_P21", "P27_P21", "P27_P19", "P101_P21", "P101_P27",
)  # fmt: skip
"""The published sets: the edited property, and the one that it may have an effect on."""
SAMPLES = 5
"""How often each open prompt is in a record."""
OPEN_TEMPLATES = 3
"""Open prompts of a property on its own; of a pair there are two."""


@dataclass(frozen=True)
class Seesaw(Builder):
    """Makes a folder of data for seesaw-cf, with the Wikidata properties P21, P27, P19, P101, P103.

    An edit gives someone another value; the attribute prompts are about women and men who truly have
    it. A new citizenship or birthplace is on another continent as far as facts on P30 (and P17, of
    cities) tell, a new field of work of another kind as far as facts on P279 do. Prompts about those
    who have died are in the past tense: ``dead`` in the facts or in the tags, or a fact on P570. With
    a model, everyone is asked only what it knows. Templates for P101 and P103 take the place of
    ParaRel's and CounterFact's; the other prompts are the paper's.
    """

    citation: ClassVar[str] = "Halevy et al., 2024 (Flex Tape Can't Fix That)"
    needs: ClassVar[str] = "facts about people; templates only for P101 and P103, if at all"
    makes: ClassVar[Literal["file", "folder"]] = "folder"

    sets: tuple[str, ...] = SETS
    """Edited properties, each alone or as EDITED_EFFECT."""
    cases: Count = 300
    """The most edits of a set."""
    people: Count = 100
    """The most women, and the most men, that are asked about for an edit."""
    phrasings: Natural = 0
    """In how many templates each of them is asked; 0 is all."""
    tags: str = ""
    """A file of tags: race and region, gender, and who has died."""
    places: str = ""
    """A file of triples on P17 and P30, for places that the others do not locate."""
    seed: int = 0
    """Seed of what is drawn."""

    def build(self, material: Material, out: Path, report: Callable[[str], None]) -> None:
        """Write the folder; say how many cases each set has."""
        known = {*PROPERTIES, *map("_".join, permutations(PROPERTIES, 2))}
        unknown = [n for i, n in enumerate(self.sets) if n not in known - {*self.sets[:i]}]
        if unknown or not self.sets:
            raise UsageError(
                f"there is no set {unknown[0] if unknown else ''!r}, or it is named twice",
                f"write EDITED or EDITED_EFFECT, of {', '.join(PROPERTIES)}",
            )
        source = self._source(material)
        if material.knows:
            source = self._limited(source, material.knows, report)
        ids = count()
        made = {name: list(self._records(source, name, ids)) for name in self.sets}
        for name, records in made.items():
            prompts = sum(len(record["attribute_prompts"]) for record in records)
            cases = counted(len(records), "case")
            report(f"{name:9}{cases}, {counted(prompts, 'attribute prompt')}")
        if not any(made.values()):
            raise DataError(
                "no case can be made of the facts about "
                f"{counted(len(source.people), 'person', 'people')}",
                "it takes others who have the new value"
                + (", and a model that knows it" if material.knows else ""),
            )
        out.mkdir()
        for name, records in made.items():
            if records:
                files.write(records, out / f"seesaw_cf_{name}.json")
                files.write([*map(_efficacy, records)], out / f"seesaw_cf_{name}_eff.json")
        files.write({person.id: person.tags for person in source.people}, out / "subjects.json")
        files.write(source.candidates, out / "candidates.json")

    def _source(self, material: Material) -> Source:
        facts = spelled(triples.read(material.triples))
        barred = [
            f"{fact.subject} {fact.relation}: the object {fact.object!r} has {BETWEEN!r} in it"
            for fact in facts
            if fact.relation in PROPERTIES and BETWEEN in fact.object
        ]
        refuse(material.triples, barred, "write a triple for each value")
        words = templates.read(material.templates) if material.templates else {}
        tags = read(file_at(self.tags, "name one: tags=FILE"), lists=True) if self.tags else []
        people = people_of(facts, tags)
        if not people:
            raise DataError(
                f"no fact in {material.triples} is about a person",
                f"name the relations as Wikidata does: {', '.join(PROPERTIES)}",
            )
        more = triples.read(file_at(self.places, "name one: places=FILE")) if self.places else []
        return Source(people, [*facts, *more], phrases_of(words))

    def _limited(self, source: Source, knows: Knows, report: Callable[[str], None]) -> Source:
        named = {part for name in self.sets for part in name.split("_")}
        asked = [item for name in PROPERTIES if name in named for item in source.items(name)]
        asked = list(dict.fromkeys(asked))
        answers = dict(zip(asked, knows(asked), strict=True))
        known = frozenset(item for item, right in answers.items() if right)
        report(f"known    {len(known):,} of {len(answers):,} answers to what could be asked")
        return replace(source, known=known)

    def _records(self, source: Source, name: str, ids: Iterator[int]) -> Iterator[Record]:
        rng = Random(f"{self.seed} {name}")
        edited, _, effect = name.partition("_")
        made = 0
        for person in rng.sample(source.people, len(source.people)):
            if made < self.cases and (record := self._record(source, person, edited, effect, rng)):
                made += 1
                yield {"case_id": next(ids), **record}

    def _record(
        self, source: Source, person: Person, edited: str, effect: str, rng: Random
    ) -> Record | None:
        edits, values = source.edits(person, edited), source.new_values(person, edited)
        if not edits or not values or (effect and not source.has_effect(person, effect)):
            return None
        template, true = rng.choice(edits)
        new, fact = rng.choice(values), Fact(person.name, edited, true)
        # Of whoever has both values the old one is no wrong answer.
        pool = source.pool[edited][new]
        others = [each for each in pool if true not in each.person.values.get(edited, ())]
        if not others:
            return None
        asked = []
        for other, prompts in self._drawn(others, rng):
            few = 0 < self.phrasings < len(prompts)
            some = rng.sample(prompts, self.phrasings) if few else prompts
            asked += [(other, prompt) for prompt in some]
        if effect:  # those of a pair are in the present, as published
            told = [source.phrases[effect].effect, OPEN]
        else:
            own = source.phrases[edited].open
            chosen = rng.sample(own, min(OPEN_TEMPLATES, len(own)))
            told = [past(text) if person.dead else text for text in chosen]
        return {
            "requested_rewrite": files.rewrite(fact, template, new, source.ids.get),
            "generation_prompts": [fill(text, person) for text in told for _ in range(SAMPLES)],
            "attribute_prompts": [prompt for _, prompt in asked],
            "attribute_aux_info": [other.id for other, _ in asked],
            "attribute_aux_ent": [other.name for other, _ in asked],
        }

    def _drawn(self, pool: Sequence[Asked], rng: Random) -> Iterator[Asked]:
        """Draw as many women and men; or as many people in all, if nobody's gender is known."""
        groups = [[asked for asked in pool if asked.person.gender == g] for g in GENDERS]
        if not any(groups):
            yield from rng.sample(pool, min(2 * self.people, len(pool)))
        for group in groups:
            yield from rng.sample(group, min(self.people, len(group)))


def _efficacy(record: Record) -> Record:
    rewrite = record["requested_rewrite"]
    prompt = rewrite["prompt"].replace("{}", rewrite["subject"], 1)
    return {
        "case_id": record["case_id"],
        "requested_rewrite": rewrite,
        "attribute_prompts": [prompt],
    }
