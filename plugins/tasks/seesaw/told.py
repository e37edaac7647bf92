"""What the data themselves tell of people, beside a file of tags.

What one set edits was true of a person, whatever another set asks for; and the prompts on others in
a set that edits gender are on people who have the new one. Where files lie, and whose word goes
first, is said by the task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from .._files.records import Record
from .files import EDIT, IDS
from .subjects import Subjects

GENDER = "P21"


@dataclass(frozen=True)
class Told:
    """What is known of people by name, and the gender of others by id."""

    values: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """By name and property."""
    genders: Mapping[str, str] = field(default_factory=dict)

    def contradicting(self, subjects: Subjects) -> Iterator[str]:
        """Say of whom a file of tags knows something else."""
        for (name, prop), values in self.values.items():
            said = subjects.values(name, prop)
            if said and not set(said) & set(values):
                yield _differing(name, prop, said, values)
        for person, gender in self.genders.items():
            said = subjects.has(person, GENDER)
            if said and gender not in said:
                yield _differing(person, GENDER, said, (gender,))


def _differing(who: str, prop: str, said: Iterable[str], told: Iterable[str]) -> str:
    return f"{who}, {prop}: {' and '.join(said)} by the tags, {' and '.join(told)} by the data"


def told_by(records: Iterable[Record]) -> Told:
    """Return what the records of any sets tell; nothing where they tell of two genders."""
    values: dict[tuple[str, str], dict[str, None]] = {}
    genders: dict[str, dict[str, None]] = {}
    for record in records:
        rewrite = record[EDIT]
        edited = rewrite["relation_id"]
        old, new = (rewrite[target]["str"].strip() for target in ("target_true", "target_new"))
        values.setdefault((rewrite["subject"], edited), {})[old] = None
        for person in record.get(IDS, ()) if edited == GENDER else ():
            genders.setdefault(person, {})[new] = None
    return Told(
        {
            (name, prop): tuple(own)
            for (name, prop), own in values.items()
            if prop != GENDER or len(own) == 1
        },
        {person: next(iter(own)) for person, own in genders.items() if len(own) == 1},
    )
