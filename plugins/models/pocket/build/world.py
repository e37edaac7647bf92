"""The small world the pocket model is taught: facts, sentence templates, rules and filler sentences."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from edit_harness_plugins.builders import fillers, templates, triples
from edit_harness_plugins.builders.templates import Relation
from edit_harness_plugins.builders.triples import Fact, FactTable

WORLD_DIR = Path(__file__).resolve().parent.parent / "world"
FACTS, TEMPLATES, FILLERS = "facts.json", "templates.json", "fillers.json"

#: Relations whose objects are shared by too few subjects to have neighbours; they are never edited.
UNSHARED_RELATIONS = frozenset({"P36"})

#: Pseudo relations that carry the geometry rules.
FORMULA, DESCRIPTION = "formula", "description"


@dataclass(frozen=True)
class Fillers(fillers.Fillers):
    """Sentence frames and word lists for text that states no fact of the world."""

    flags: tuple[str, ...]
    made_up: Mapping[str, Any]

    def name(self, rng: Random, company: bool = False) -> str:
        """Make up a name of one or two words; a company may get an ending."""
        words = [self._word(rng) for _ in range(rng.choice((1, 2)))]
        if company and rng.random() < 0.5:
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
    fillers: Fillers

    @cached_property
    def editable_relations(self) -> tuple[str, ...]:
        """Relations whose facts can be edited and have neighbours, in file order."""
        return tuple(r for r in self.table.relations if r not in UNSHARED_RELATIONS)


def load_world(folder: Path = WORLD_DIR) -> World:
    """Read the world from its JSON files."""
    return World(
        table=_fact_table(triples.read(folder / FACTS), templates.read(folder / TEMPLATES)),
        rules=_rule_table(read_json(folder / "rules.json")),
        fillers=_fillers(folder / FILLERS),
    )


def read_json(path: Path) -> Any:
    """Return what a file of the world says."""
    return json.loads(path.read_text(encoding="utf-8"))


def _fact_table(facts: Sequence[Fact], words: Mapping[str, Relation]) -> FactTable:
    if twice := triples.several(facts):
        raise ValueError(f"two objects for {next(iter(twice))}")
    used = {fact.relation for fact in facts}
    return FactTable(facts, {name: words[name] for name in words if name in used})


def _rule_table(data: Mapping[str, Any]) -> FactTable:
    relations = {
        name: templates.of(name, data["templates"][name], capitalise=True)
        for name in (FORMULA, DESCRIPTION)
    }
    facts = [
        Fact(rule["subject"], name, rule[name]) for rule in data["rules"] for name in relations
    ]
    return FactTable(facts, relations)


def _fillers(path: Path) -> Fillers:
    data, known = read_json(path), fillers.read(path)
    return Fillers(
        known.frames,
        known.words,
        known.ranges,
        flags=tuple(data["flags"]),
        made_up=data["made_up"],
    )
