"""Shards: parts of a plan for processes that do not talk to each other.

A shard is made of whole chunks, dealt in turn, so that it computes the same batches as the whole run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from edit_harness.errors import UsageError, counted
from edit_harness.folder.manifest import Manifest, ShardInfo
from edit_harness.folder.table import cases_digest
from edit_harness.run import plan
from edit_harness.run.plan import Step

if TYPE_CHECKING:
    from edit_harness.run.evaluation import Evaluation, Span

FORM = re.compile(r"([1-9]\d{0,5})/([1-9]\d{0,5})")


@dataclass(frozen=True)
class Share:
    """One of ``of`` parts of a plan, numbered from 1."""

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
        """The flag that asks for it: ``--shard 2/4``."""
        return f"--shard {self.number}/{self.of}"

    @property
    def slug(self) -> str:
        """Its part of a run folder's name."""
        return f"shard-{self.number}-of-{self.of}"

    def spans(self, evaluation: Evaluation) -> list[Span]:
        """Return the places of its visits in a run's plan. Raises `UsageError` if it has too few parts."""
        if evaluation.regime.mode == "sequential":
            raise UsageError(
                "a sequence has no shards: each of its edits builds on those before",
                "leave --shard out; other editors, tasks and seeds can run elsewhere",
            )
        sizes = [plan.chunk_size(evaluation.model, device) for device in ("cpu", "cuda")]
        parts = units([list(plan.grouped(evaluation.steps, size)) for size in sizes])
        return self.among(parts, sum(bool(case.problem) for case in evaluation.cases))

    def info(self, evaluation: Evaluation, before: Manifest | None) -> ShardInfo:
        """Return its place in the run's plan, or in the larger plan that its folder was made for."""
        known = before.shard if before else None
        if known and {*known.cases} > {case.id for case in evaluation.cases}:
            return known
        return ShardInfo(
            number=self.number,
            of=self.of,
            cases=[case.id for case in evaluation.cases],
            cases_digest=cases_digest(evaluation.cases),
            planned=len(evaluation.planned),
            spans=evaluation.spans,
            visits=evaluation.visits,
        )

    def among(self, units: Sequence[Sequence[Step]], unusable: int) -> list[Span]:
        """Return the places of its visits in units of a plan that begins with so many ``unusable`` cases.

        Those go to the first shard. Raises `UsageError` if there are fewer units than shards.
        """
        if self.of > max(len(units), 1):
            most = f"make {len(units)} shards at most" if len(units) > 1 else "leave --shard out"
            raise UsageError(
                f"there would be shards without a case: what is run together makes "
                f"{counted(len(units), 'part')}, too few for {self.of} shards",
                most,
            )
        sizes = [sum(len(step.measure) for step in unit) for unit in units]
        first, *parts = pairwise(accumulate([0, unusable, *sizes]))
        own = [*([first] if self.number == 1 else []), *parts[self.number - 1 :: self.of]]
        return merged([span for span in own if span[0] < span[1]])


def units(groupings: Sequence[Sequence[Sequence[Step]]]) -> list[list[Step]]:
    """Return steps in the smallest units that no grouping splits and no later edit builds on.

    The groupings are of the same steps: devices differ in the size of chunks.
    """
    steps = [step for group in groupings[0] for step in group]
    ends = [set(accumulate(map(len, groups))) for groups in groupings]
    cuts = [n for n in sorted(set.intersection(*ends)) if n == len(steps) or steps[n].fresh]
    return [steps[start:stop] for start, stop in pairwise([0, *cuts])]


def merged(spans: Sequence[Span]) -> list[Span]:
    """Return rising spans, joined where they touch."""
    found: list[Span] = []
    for start, stop in spans:
        if found and found[-1][1] == start:
            start = found.pop()[0]
        found.append((start, stop))
    return found
