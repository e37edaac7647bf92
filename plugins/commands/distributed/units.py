"""A plan in units of whole chunks, of about equal work, for workers to run.

Chunks stay what they are in one process, so that the same texts share a forward pass wherever they
are run. Work is counted, never timed: the same plan on as many workers gives the same units. They go
out in the order of the plan, in which rows are read best; being of equal work, but for the last, they
would end no sooner in another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from edit_harness.cases import Visit
from edit_harness.run import plan, shares
from edit_harness.run.evaluation import Evaluation
from edit_harness.run.plan import Step

EACH = 8
"""Units that a worker gets of a whole plan, about: the last ones to end wait for little."""
Wanted = Mapping[str, frozenset[Visit]]


@dataclass(frozen=True)
class Chunk:
    """What of one chunk is to be made."""

    steps: Sequence[Wanted]
    """Its steps that are wanted, one of one editor each."""
    work: float
    fresh: bool
    """Whether it begins with an unedited model, so that it needs no chunk before it."""
    apart: bool
    """Whether its cases can run alone: they are none of a sequence."""

    @property
    def visits(self) -> Wanted:
        """What is to be made, by the evaluation's key."""
        return joined(self.steps)

    def without(self, left: Mapping[str, AbstractSet[Visit]]) -> Chunk:
        """Return it with those visits only that are left."""
        steps = [
            {key: rest}
            for step in self.steps
            for key, visits in step.items()
            if (rest := visits & left.get(key, frozenset()))
        ]
        return replace(self, steps=steps)

    def alone(self) -> list[Chunk]:
        """Return a chunk for each step."""
        return [
            replace(self, steps=[step], work=self.work / len(self.steps)) for step in self.steps
        ]


def joined(parts: Sequence[Wanted]) -> Wanted:
    """Return all that some parts want."""
    keys = {key: None for part in parts for key in part}
    return {key: frozenset().union(*(p.get(key, ()) for p in parts)) for key in keys}


def chunks(done: Mapping[Evaluation, AbstractSet[Visit]], size: int) -> list[Chunk]:
    """Return the chunks of a plan that all evaluations share, with what is not done of each."""
    plans = [
        [_part(str(key), each, group, done[each]) for group in plan.grouped(each.steps, size)]
        for key, each in enumerate(done)
    ]
    return [_beside(parts) for parts in zip(*plans, strict=True)]


def _part(key: str, of: Evaluation, group: Sequence[Step], done: AbstractSet[Visit]) -> Chunk:
    """Return one editor's part of a chunk."""
    wanted = [(step, frozenset(step.visits) - done) for step in group]
    steps = [{key: visits} for _, visits in wanted if visits]
    work = sum(_work(step, visits) for step, visits in wanted)
    return Chunk(steps, work, group[0].fresh, of.regime.mode != "sequential")


def _beside(parts: Sequence[Chunk]) -> Chunk:
    """Return what editors that run beside each other want of one chunk, whose clean pass they share."""
    steps = [step for part in parts for step in part.steps]
    work = sum(part.work for part in parts)
    return replace(parts[0], steps=steps, work=work)


def _work(step: Step, wanted: AbstractSet[Visit]) -> float:
    """Count what a step takes: characters that are read to find its edit, and to ask its cases.

    A step of a sequence is edited also where nothing of it is wanted.
    """
    if step.fresh and not wanted:
        return 0.0
    asked = (case for case in step.measure if (case.id, step.state) in wanted)
    return shares.work_of_edit(step) + sum(map(shares.work_of_answers, asked))


def units(plan: Sequence[Chunk], workers: int) -> Iterator[list[Chunk]]:
    """Yield the chunks of each unit: as many as are about a worker's share; a sequence stays together.

    A chunk of which nothing is wanted is in none; a worker makes its edits where others go on from them.
    """
    share = sum(chunk.work for chunk in plan) / (workers * EACH) or 1.0
    unit: list[Chunk] = []
    behind, begun = 0.0, 0.0
    for chunk in plan:
        if unit and chunk.fresh and behind // share > begun // share:
            yield unit
            unit, begun = [], behind
        if chunk.steps:
            unit.append(chunk)
        behind += chunk.work
    if unit:
        yield unit
