"""What may be edited and asked of people: in which prompts, about whom, and to which values.

The prompts are those of Seesaw-CF (Halevy et al., 2024, appendix A), with ParaRel's and CounterFact's
patterns for work and language, unless the user has templates.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct, convert
from msgspec.structs import replace

from .people import (
    BIRTH,
    CATEGORY,
    CITIZENSHIP,
    LANGUAGE,
    PROPERTIES,
    WORK,
    Person,
    continents_of,
    first,
)
from .templates import Relation
from .triples import Fact

Item = tuple[str, str]
"""A prompt and the value that is right after it."""

PHRASES = Path(__file__).with_name("phrases.json")
"""The paper's prompts, and ParaRel's and CounterFact's; CounterFact's generation prompts, too."""
OPEN = "{} is"
PAST = {"is": "was", "works": "worked", "specializes": "specialized"}


class Phrases(Struct, frozen=True):
    """The templates of a property."""

    edit: tuple[str, ...]
    ask: tuple[str, ...]
    """For other people who have the new value."""
    effect: str
    """For the person themselves, when another property was edited."""
    open: tuple[str, ...]
    """For texts about the person, when this property alone was edited."""


class Asked(NamedTuple):
    """Someone who has a value, and the prompts that ask for it."""

    person: Person
    prompts: Sequence[str]


@dataclass(frozen=True)
class Source:
    """People and the words to ask about them."""

    people: Sequence[Person]
    facts: Sequence[Fact]
    phrases: Mapping[str, Phrases]
    """By property."""
    known: frozenset[Item] | None = None
    """What the model knows; None if there is no model, and all may be asked."""

    def items(self, name: str) -> Iterator[Item]:
        """Yield every prompt of a property that a case may have, with each value that is right."""
        words = self.phrases[name]
        for person in self.people:
            own = [fill(template, person) for template in (*words.edit, words.effect)]
            for value in person.values.get(name, ()):
                yield from ((prompt, value) for prompt in (*own, *self._asks(person, name)))

    def _asks(self, person: Person, name: str) -> list[str]:
        templates = self.phrases[name].ask
        return [fill(past(text) if person.dead else text, person) for text in templates]

    def _holds(self, prompt: str, value: str) -> bool:
        return self.known is None or (prompt, value) in self.known

    @cached_property
    def pool(self) -> Mapping[str, Mapping[str, Sequence[Asked]]]:
        """Who can be asked about, by property and value."""
        return {name: self._pool(name) for name in PROPERTIES}

    def _pool(self, name: str) -> Mapping[str, Sequence[Asked]]:
        found: dict[str, list[Asked]] = defaultdict(list)
        for person in self.people:
            for value in person.values.get(name, ()):
                prompts = [text for text in self._asks(person, name) if self._holds(text, value)]
                if prompts:
                    found[value].append(Asked(person, prompts))
        return dict(found)

    def edits(self, person: Person, name: str) -> list[Item]:
        """Return the templates that a value of the person can be edited in, each with the value."""
        return [
            (template, value)
            for value in person.values.get(name, ())
            for template in self.phrases[name].edit
            if self._holds(fill(template, person), value)
        ]

    def has_effect(self, person: Person, name: str) -> bool:
        """Tell whether a value of the person can be asked for when another property was edited."""
        prompt = fill(self.phrases[name].effect, person)
        return any(self._holds(prompt, value) for value in person.values.get(name, ()))

    def new_values(self, person: Person, name: str) -> list[str]:
        """Return the values that others have and that are of another group than the person's own.

        A group is a place's continent or a field's category; where the person's is not known, any
        other value will do.
        """
        groups = self._groups.get(name, {})
        own = set(person.values.get(name, ()))
        avoided = {groups[value] for value in own if value in groups}
        others = (value for value in sorted(self.pool[name]) if value not in own)
        if not avoided:
            return list(others)
        return [value for value in others if groups.get(value, "") not in (*avoided, "")]

    @cached_property
    def _groups(self) -> Mapping[str, Mapping[str, str]]:
        places = continents_of(self.facts)
        return {BIRTH: places, CITIZENSHIP: places, WORK: first(self.facts, CATEGORY)}

    @cached_property
    def ids(self) -> Mapping[str, str]:
        """The identifiers of objects that have one."""
        return {fact.object: fact.object_id for fact in self.facts if fact.object_id}

    @property
    def candidates(self) -> dict[str, Any]:
        """The values of each property, and under ``continents`` where the places among them are."""
        found = {
            name: sorted({value for person in self.people for value in person.values.get(name, ())})
            for name in PROPERTIES
        }
        continents = self._groups[BIRTH]
        places = sorted({*found[BIRTH], *found[CITIZENSHIP]} & continents.keys())
        listed: dict[str, Any] = {name: values for name, values in found.items() if values}
        return listed | {"continents": {name: continents[name] for name in places}}


def fill(template: str, person: Person) -> str:
    """Put a person's name into a template."""
    return template.replace("{}", person.name, 1)


def phrases_of(words: Mapping[str, Relation]) -> dict[str, Phrases]:
    """Return the templates of each property, with a user's own for work and language."""
    found = convert(json.loads(PHRASES.read_bytes()), dict[str, Phrases])
    for name in words.keys() & {WORK, LANGUAGE}:
        own = words[name].training
        found[name] = replace(found[name], edit=own, ask=own, open=own)
    return found


def past(template: str) -> str:
    """Return a template for someone who has died.

    It takes whole words of the template alone: the published files have been replaced " works" and the
    like in the finished prompt, and so in names that contain them.
    """
    return re.sub(r"\b(is|works|specializes)\b", lambda found: PAST[found[0]], template)
