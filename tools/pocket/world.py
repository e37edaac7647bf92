"""The small world the pocket model is taught: facts, sentence templates, rules and filler sentences."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

from edit_harness_plugins.builders import fillers, templates, triples
from edit_harness_plugins.builders.triples import Fact, FactTable
from edit_harness_plugins.commands.authoring import Knows
from edit_harness_plugins.models.pocket import FILES

WORLD_DIR = FILES.with_name("world")
FACTS, TEMPLATES, FILLERS = "facts.json", "templates.json", "fillers.json"

UNSHARED_RELATIONS = frozenset({"P36"})
"""Relations whose objects are shared by too few subjects to have neighbours; they are never edited."""
RULES = ("formula", "description")
"""Pseudo relations that carry the geometry rules."""


@dataclass(frozen=True)
class Fillers(fillers.Fillers):
    """Sentence frames and word lists for text that states no fact of the world."""

    flags: tuple[str, ...]
    made_up: Mapping[str, Any]

    def name(self, rng: Random, relation: str) -> str:
        """Make up a relation's subject, of one or two words; a company may get an ending."""
        words = [self._word(rng) for _ in range(rng.choice((1, 2)))]
        if relation == "P159" and rng.random() < 0.5:
            words = [words[0], rng.choice(self.made_up["endings"])]
        return " ".join(words)

    def _word(self, rng: Random) -> str:
        count = rng.choice(self.made_up["syllable_counts"])
        return "".join(rng.choice(self.made_up["syllables"]) for _ in range(count)).capitalize()


@dataclass(frozen=True)
class World:
    """Everything the corpus talks about."""

    table: FactTable
    rules: FactTable
    """What pocket is taught of geometry: facts like others, in words that no task asks in."""
    fillers: Fillers

    @cached_property
    def editable_relations(self) -> tuple[str, ...]:
        """Relations whose facts can be edited and have neighbours, in file order."""
        return tuple(r for r in self.table.relations if r not in UNSHARED_RELATIONS)


def load_world() -> World:
    """Read the world from its JSON files."""
    table = FactTable(triples.read(WORLD_DIR / FACTS), templates.read(WORLD_DIR / TEMPLATES))
    told, rules = read_json(FILLERS), read_json("rules.json")
    known = vars(fillers.read(WORLD_DIR / FILLERS))
    return World(
        table,
        FactTable(
            [Fact(rule["subject"], name, rule[name]) for rule in rules["rules"] for name in RULES],
            {name: templates.of(name, rules["templates"][name], capitalise=True) for name in RULES},
        ),
        Fillers(**known, flags=tuple(told["flags"]), made_up=told["made_up"]),
    )


def read_json(name: str) -> Any:
    """Return what a file of the world says."""
    return json.loads((WORLD_DIR / name).read_text(encoding="utf-8"))


def questions(table: FactTable, fact: Fact) -> list[str]:
    """Return the questions for a fact's object."""
    relation = table.relations[fact.relation]
    return [relation.fill(question, fact.subject) for question in relation.questions]


def known_facts(
    knows: Knows, facts: Sequence[Fact], prompts: Callable[[Fact], Sequence[str]]
) -> list[Fact]:
    """Return the facts whose object the model names after each of their prompts."""
    asked = [(fact, prompt) for fact in facts for prompt in prompts(fact)]
    answers = knows([(prompt, fact.object) for fact, prompt in asked])
    missed = {fact for (fact, _), right in zip(asked, answers, strict=True) if not right}
    return [fact for fact in facts if fact not in missed]
