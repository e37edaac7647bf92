"""What is asked of a record of Seesaw-CF: a record becomes a case.

Which sets and parts are asked for, and where data come from, is said by the task; how the answers
are scored, by the metrics.
"""

from __future__ import annotations

import json
import random
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from edit_harness import Case, Choose, Key, Probe, Request
from edit_harness_plugins.people import BETWEEN

from .._files.published import sampled_text, unusable
from .._files.records import Entry, Record, request_of
from .files import EDIT, GENERATION, IDS, PROMPTS, PROPERTIES, SetFiles, effect_prompt, open_prompts

if TYPE_CHECKING:
    from .task import SeesawCF

PARTS = CROSS_SUBJECT, CROSS_PROPERTY, OPEN = ("cross-subject", "cross-property", "open-ended")
Prompts: TypeAlias = Literal["published", "all"]
Definitions: TypeAlias = Literal["people", "judge"]

FLAWS: Mapping[Definitions, Mapping[str, str]] = json.loads(
    Path(__file__).with_name("flaws.json").read_bytes()
)
"""What each of the seven flaws is, in our own words, by the set of definitions.

The paper gave the people who compared texts one set of definitions and the model that judged another one,
and the two differ: a judge counts mentions where people looked for an attitude.
"""


@dataclass(frozen=True)
class Asking:
    """Makes cases of the records of one set, which is asked for some parts."""

    files: SetFiles
    parts: frozenset[str]
    task: SeesawCF
    """Whose settings count, and what it knows of people."""
    _seen: dict[str, dict[str, str]] = field(default_factory=dict)

    def case(self, entry: Entry) -> Case:
        """Return the case of a record; one of no use says why."""
        record, problem = entry
        name = f"{self.files}-{record['case_id']}"
        if problem:
            return unusable(name, problem)
        request = request_of(record[EDIT])
        probes = tuple(self._probes(name, record, request))
        where = self.task.values.continents.get(self.files.edited, {}).get(request.target_new, "")
        tags = {"set": str(self.files), "edited": self.files.edited, "effect": self.files.effect,
                "continent": where}  # fmt: skip
        return Case(name, (request,), probes, {key: value for key, value in tags.items() if value})

    def gold(self, subject: str) -> str:
        """Return the values of the other property that are right for a subject and can be chosen.

        One whose values are all without a candidate cannot be right, and has none.
        """
        effect = self.files.effect
        offered = self.task.values.candidates.get(effect, ())
        own = (
            self.task.people.values(subject, effect)
            or self.task.facts.values(subject, effect)
            or self.task.told.values.get((subject, effect), ())
        )
        return BETWEEN.join(value for value in own if value in offered)

    def _probes(self, case: str, record: Record, request: Request) -> Iterator[Probe]:
        objects = (request.target_new, request.target_true)
        yield Probe("efficacy", Choose(request.text, objects))
        if CROSS_SUBJECT in self.parts:
            yield from self._others(case, record, objects)
        if CROSS_PROPERTY in self.parts and (prompt := effect_prompt(record)):
            candidates = tuple(self.task.values.candidates[self.files.effect])
            gold = self.gold(request.subject)
            tags = {"gold": gold} if gold else {}
            yield Probe("cross-property", Choose(prompt, candidates), tags)
        if OPEN in self.parts:
            yield from self._descriptions(case, record, request)

    def _others(self, case: str, record: Record, objects: tuple[str, str]) -> Iterator[Probe]:
        prompts = record.get(PROMPTS, ())
        tags = [self._tags_of(person) for person in record.get(IDS, ())]
        groups = [tuple(own.get(name, "") for name in ("gender", "race", "geo")) for own in tags]
        for i in stratified(groups, self.task.max_prompts, f"{self.task.seed}/{case}"):
            yield Probe("cross-subject", Choose(prompts[i], objects), tags[i])

    def _tags_of(self, person: str) -> dict[str, str]:
        """Return the tags of a person; prompts on one share them, of which there may be many."""
        if person not in self._seen:
            self._seen[person] = {"subject": person, **self.task.people.tags(person)}
        return self._seen[person]

    def _descriptions(self, case: str, record: Record, request: Request) -> Iterator[Probe]:
        about = {
            "subject": request.subject,
            "property": PROPERTIES[self.files.edited],
            "old": request.target_true,
            "new": request.target_new,
            "aspects": FLAWS[self.task.definitions],
            "definitions": self.task.definitions,
            "reflected": True,
        }
        key = Key("compare", about=about)
        for i, prompt in enumerate(told_prompts(self.files, record, self.task.prompts)):
            for sample in range(self.task.samples):
                query = sampled_text(prompt, f"{self.task.seed}/{case}/{i}/{sample}")
                yield Probe("description", query, key=key)


def told_prompts(name: SetFiles, record: Record, prompts: Prompts) -> Sequence[str]:
    """Return the different prompts of a record that texts are sampled for.

    The published ones of a pair are those on no property, and all of a single property's.
    """
    every = tuple(dict.fromkeys(record.get(GENERATION, ())))
    if prompts == "all" or not name.effect:
        return every
    return tuple(prompt for prompt in every if prompt in open_prompts(record))


def stratified(groups: Sequence[Hashable], size: int, words: str) -> list[int]:
    """Return the places of ``size`` items, in order; all of them if there are no more, or for 0.

    ``groups`` has the group of every item; ``words`` seed the draw.
    """
    if not 0 < size < len(groups):
        return list(range(len(groups)))
    places: dict[Hashable, list[int]] = {}
    for place, group in enumerate(groups):
        places.setdefault(group, []).append(place)
    seats = shares({group: len(own) for group, own in places.items()}, size)
    rng = random.Random(words)
    return sorted(place for group, own in places.items() for place in rng.sample(own, seats[group]))


def shares(counts: Mapping[Hashable, int], size: int) -> dict[Hashable, int]:
    """Return how many of each group's items are taken, ``size`` of more than that in all.

    Each group has one, the larger ones first if there are more groups than seats; then seats go one
    by one to the group that is furthest below its share, the larger one of two.
    """
    total = sum(counts.values())
    ranked = sorted(counts, key=counts.__getitem__, reverse=True)
    seats = {group: int(i < size) for i, group in enumerate(ranked)}
    over = {group: total - size * counts[group] for group in ranked}  # in parts of a seat: exact
    for _ in range(size - sum(seats.values())):
        group = min((g for g in ranked if seats[g] < counts[g]), key=over.__getitem__)
        seats[group] += 1
        over[group] += total
    return seats
