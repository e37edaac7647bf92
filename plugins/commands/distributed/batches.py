"""A plan in batches of whole chunks, of about equal work, for workers to run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from edit_harness.cases import Visit
from edit_harness.run import runner, workload
from edit_harness.run.evaluation import Evaluation
from edit_harness.run.plan import Step

from .worker import Batch

EACH = 8
"""Batches that a worker gets of a whole plan, about: the last ones to end wait for little."""


@dataclass
class Chunk:
    """What is to be made of one chunk, which all editors go through beside each other."""

    steps: Sequence[tuple[int, frozenset[Visit]]]
    """The wanted visits of each editor's steps, with the place of its evaluation."""
    work: float
    """How much there is to do, counted: see `edit_harness.run.workload`."""
    fresh: bool
    """Whether it begins with an unedited model, so that it needs no chunk before it."""


def chunks(done: Mapping[Evaluation, AbstractSet[Visit]], size: int) -> list[Chunk]:
    """Return the chunks of a plan that all evaluations share, with what is not done of each.

    They are the chunks of one process, so that the same texts share a forward pass wherever they are run.
    """
    found = []
    for groups in zip(*(runner.grouped(each.steps, size) for each in done), strict=True):
        steps, work = [], 0.0
        for place, (known, group) in enumerate(zip(done.values(), groups, strict=True)):
            for step in group:
                wanted = frozenset(step.visits) - known
                steps += [(place, wanted)] if wanted else []
                work += _work(step, wanted)
        found.append(Chunk(steps, work, groups[0][0].fresh))
    return found


def _work(step: Step, wanted: AbstractSet[Visit]) -> float:
    """Count what a step takes; one of a sequence is edited also where nothing of it is wanted."""
    if step.fresh and not wanted:
        return 0.0
    asked = (case for case in step.measure if (case.id, step.state) in wanted)
    return workload.of_edit(step) + sum(map(workload.of_answers, asked))


def batches(plan: Sequence[Chunk], workers: int) -> Iterator[list[Chunk]]:
    """Yield chunks in batches of about equal work, in the order of the plan; a sequence stays together.

    Work is counted, never timed: the same plan on as many workers gives the same batches.
    """
    share = sum(chunk.work for chunk in plan) / (workers * EACH) or 1.0
    batch: list[Chunk] = []
    behind, begun = 0.0, 0.0
    for chunk in plan:
        if batch and chunk.fresh and behind // share > begun // share:
            yield batch
            batch, begun = [], behind
        if chunk.steps:  # a worker makes the edits of others where the next go on from them
            batch.append(chunk)
        behind += chunk.work
    if batch:
        yield batch


@dataclass
class Job:
    """Chunks that go to one worker, until all their records are here."""

    chunks: Sequence[Chunk]
    alone: bool = False
    deaths: int = 0
    """Workers that it took down since its last record."""

    def __post_init__(self) -> None:
        self.left: dict[int, set[Visit]] = {}
        for chunk in self.chunks:
            for place, visits in chunk.steps:
                self.left.setdefault(place, set()).update(visits)

    @property
    def over(self) -> bool:
        """Whether all its records are here."""
        return not any(self.left.values())

    def came(self, place: int, visit: Visit) -> bool:
        """Take a record in, and tell whether it was still wanted."""
        if visit not in self.left.get(place, ()):
            return False
        self.left[place].remove(visit)
        self.deaths = 0
        return True

    def batch(self) -> Batch:
        """Return what is left of it."""
        return Batch({place: frozenset(left) for place, left in self.left.items()}, self.alone)

    def apart(self) -> list[Job]:
        """Return what is left: each step of the first chunk alone, then the other chunks."""
        rest = []
        for chunk in self.chunks:
            left = [(place, visits & self.left[place]) for place, visits in chunk.steps]
            if any(visits for _, visits in left):
                rest.append(Chunk([step for step in left if step[1]], chunk.work, chunk.fresh))
        first, *others = rest
        steps = [Job([Chunk([step], first.work, first.fresh)], alone=True) for step in first.steps]
        return [*steps, *([Job(others)] if others else [])]
