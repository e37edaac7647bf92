"""Shards: which part of a plan one of several processes makes, without a word between them.

A part is whole units, and a unit is whole chunks, so that a shard runs the batches of the whole run. Work is
counted in characters that a model reads, never timed, so that a plan is shared out alike everywhere. How
shards become one run is the affair of `edit_harness_plugins.commands.distributed`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from ..cases import Case, Choose, Examined, Generate, Query
from ..errors import UsageError
from ..wording import counted

if TYPE_CHECKING:
    from .plan import Step

Span = tuple[int, int]
"""First and last (exclusive) place in a plan's visits."""
EDIT = 25
"""What finding an edit counts, in passes over its request: a search has about as many steps."""
TOKEN = 4
"""Characters of a token, for texts that are yet to be generated."""
EXAMINED = 20_000
"""What a control with code of its own counts: some hundred short questions, as nobody has read them."""
FORM = re.compile(r"([1-9]\d{0,5})/([1-9]\d{0,5})")


@dataclass(frozen=True)
class Share:
    """One of so many parts of a plan, numbered from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Share:
        """Return the share of a text such as ``2/4``. Raises `UsageError`."""
        found = FORM.fullmatch(text)
        if not found or int(found[1]) > int(found[2]):
            raise UsageError(
                f"{text!r} is no shard: it takes I/N, with I from 1 to N",
                "the second of four: --shard 2/4",
            )
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.number} of {self.of}"

    @property
    def flag(self) -> str:
        """What makes it: ``--shard 2/4``."""
        return f"--shard {self.number}/{self.of}"

    @property
    def slug(self) -> str:
        """What it is called in the name of a folder."""
        return f"shard-{self.number}-of-{self.of}"

    def spans(self, units: Sequence[Sequence[Step]], unusable: int) -> list[Span]:
        """Return where its visits stand in a plan, whose first are of cases that nobody can use.

        Those are the first shard's. Raises `UsageError` if a plan has fewer units than shards.
        """
        if self.of > max(len(units), 1):
            most = f"make {len(units)} shards at most" if len(units) > 1 else "leave --shard out"
            raise UsageError(
                f"there would be shards without a case: what is run together makes "
                f"{counted(len(units), 'part')}, too few for {self.of} shards",
                most,
            )
        sizes = [sum(len(step.measure) for step in unit) for unit in units]
        ends = accumulate([0, unusable, *sizes])
        dealt = [0, *deal([sum(map(work_of_step, unit)) for unit in units], self.of)]
        own = [s for s, to in zip(pairwise(ends), dealt, strict=True) if to == self.number - 1]
        return _merged([span for span in own if span[0] < span[1]])


def _merged(spans: Sequence[Span]) -> list[Span]:
    """Return rising spans, those that touch as one."""
    found: list[Span] = []
    for start, stop in spans:
        if found and found[-1][1] == start:
            start = found.pop()[0]
        found.append((start, stop))
    return found


def units(groupings: Sequence[Sequence[Sequence[Step]]]) -> list[list[Step]]:
    """Return steps in the smallest units that no grouping splits and no edit goes on behind.

    The groupings are of the same steps, which different devices run in different chunks.
    """
    steps = [step for group in groupings[0] for step in group]
    ends = [set(accumulate(map(len, groups))) for groups in groupings]
    cuts = [n for n in sorted(set.intersection(*ends)) if n == len(steps) or steps[n].fresh]
    return [steps[start:stop] for start, stop in pairwise([0, *cuts])]


def deal(works: Sequence[int], count: int) -> list[int]:
    """Return who of so many gets each piece of work, from 0 on.

    In each round everybody gets one, and who has least so far the largest: so all have their pieces
    everywhere, and no two differ by more than the largest piece.
    """
    given: list[int] = []
    loads = [0] * count
    for start in range(0, len(works), count):
        pieces = works[start : start + count]
        largest = sorted(range(len(pieces)), key=lambda n: -pieces[n])
        least = sorted(range(count), key=lambda who: loads[who])
        to = dict(zip(largest, least, strict=False))
        for n, piece in enumerate(pieces):
            loads[to[n]] += piece
            given.append(to[n])
    return given


def work_of_edit(step: Step) -> int:
    """Return what it takes to find the edit of a step."""
    return EDIT * sum(len(r.text) + len(r.target_new) for r in step.requests)


def work_of_answers(case: Case) -> int:
    """Return what it takes to ask a case before and after the edit."""
    if isinstance(case, Examined):
        return EXAMINED
    return 2 * sum(_read(probe.query) for probe in case.probes)


def work_of_step(step: Step) -> int:
    """Return what a whole step takes."""
    return work_of_edit(step) + sum(map(work_of_answers, step.measure))


def _read(query: Query) -> int:
    if isinstance(query, Choose):
        return sum(len(query.prompt) + len(candidate) for candidate in query.candidates)
    generated = TOKEN * query.max_new_tokens if isinstance(query, Generate) else 0
    return len(query.prompt) + generated
