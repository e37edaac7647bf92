"""A shard of a run as its folder has it, and whether several are the whole of one run.

What they make together stands in `edit_harness_plugins.commands.distributed.joining`; which part of a plan a shard makes, in
`edit_harness.run.shares`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import cast

import numpy as np

from edit_harness.cases import Visit
from edit_harness.errors import RunFolderError, UsageError
from edit_harness.folder.folder import RunFolder
from edit_harness.folder.manifest import Identity, ShardInfo, identities, short
from edit_harness.folder.table import RunTable
from edit_harness.registry.plugins import Plugins
from edit_harness.run.outcome import Run
from edit_harness.run.rereading import own_metrics
from edit_harness.run.shares import Share, Span
from edit_harness.wording import counted

OTHER = "name shards of one run: edit-harness ls runs lists what there is"
ALIKE = "run all shards with the same --limit and --samples; the same folders go on"


@dataclass(eq=False)
class Shard:
    """A part of a run, as its folder has it."""

    run: Run
    share: Share
    cases: Sequence[str]
    """The ids of all cases of the plan, in their order."""
    digest: str
    """What identifies the cases of the plan: see `edit_harness.folder.table.cases_digest`."""
    planned: int
    """How many visits the plan has."""
    spans: Sequence[Span]
    """Which of them are the shard's."""
    visits: Sequence[Visit]
    """What these are called, in the order of the plan."""

    @classmethod
    def read(cls, plugins: Plugins, name: str) -> Shard:
        """Return the shard that lies in a folder.

        Raises `UsageError` for a folder of none, and `RunFolderError` for a damaged one.
        """
        folder = RunFolder.at(name)
        run = Run.read(folder, own_metrics(plugins, folder))
        if (share := run.shard) is None:
            raise UsageError(f"{name} is no shard of a run, but a run", OTHER)
        said = cast(ShardInfo, run.manifest.shard)
        return cls(run, share, said.cases, said.cases_digest, said.planned, said.spans, said.visits)

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self.run.folder.path

    @property
    def identity(self) -> Identity:
        """What its numbers depend on."""
        return self.run.manifest.identity

    @cached_property
    def rows(self) -> RunTable:
        """Its records in the order of the plan. Raises `RunFolderError` if one is missing."""
        table = RunTable.of(self.run.everything)
        there = zip(table.cases, table.states.tolist(), strict=True)
        places = {visit: place for place, visit in enumerate(there)}
        if missing := sum(visit not in places for visit in self.visits):
            raise RunFolderError(
                f"{self.path} is not finished: {counted(missing, 'record')} of "
                f"{len(self.visits):,} missing",
                f"the command that began it goes on, with {self.share.flag}",
            )
        return table.taken(np.array([places[visit] for visit in self.visits], dtype=np.int64))

    @property
    def parts(self) -> Iterator[tuple[Span, slice]]:
        """Yield the spans, and where their visits stand among the shard's own."""
        starts = accumulate((stop - start for start, stop in self.spans), initial=0)
        for (start, stop), first in zip(self.spans, starts, strict=False):
            yield (start, stop), slice(first, first + stop - start)


def check(shards: Sequence[Shard]) -> None:
    """Raise `RunFolderError` for shards that are not all of one run, `UsageError` for one twice."""
    if not shards:
        raise UsageError("there is nothing to merge", OTHER)
    for shard in shards[1:]:
        _check_together(shards[0], shard)
    _check_numbers(shards)


def _check_together(one: Shard, two: Shard) -> None:
    """Raise `RunFolderError` for shards of different runs, or of a run that was shared otherwise."""
    both = f"{one.path} and {two.path}"
    if found := identities(one.identity, two.identity):
        change, *more = found
        values = " and ".join(short(value) for value in (change.first, change.second))
        rest = f", and {counted(len(more), 'other difference')}" if more else ""
        raise RunFolderError(
            f"{both} are of different runs: {change.field} is {values}{rest}",
            f"edit-harness diff {one.path} {two.path} says all of it",
        )
    if one.share.of != two.share.of:
        raise RunFolderError(
            f"{both} are of a run that was shared twice: shard {one.share}, and shard {two.share}",
            f"name those of one sharing: --shard I/{one.share.of}, or I/{two.share.of}",
        )
    if one.cases != two.cases or one.digest != two.digest:
        counts = " and ".join(f"{len(each.cases):,}" for each in (one, two))
        raise RunFolderError(f"{both} are of other cases, {counts} in all", ALIKE)


def _check_numbers(shards: Sequence[Shard]) -> None:
    """Raise an error if a shard is there twice, or missing."""
    known: dict[int, Shard] = {}
    for shard in shards:
        if other := known.get(shard.share.number):
            raise UsageError(
                f"shard {shard.share} is there twice: {other.path} and {shard.path}",
                "name one of them",
            )
        known[shard.share.number] = shard
    of = shards[0].share.of
    if missing := [Share(n, of) for n in range(1, of + 1) if n not in known]:
        raise RunFolderError(
            f"{counted(len(missing), 'shard')} of {of} missing, the first of them {missing[0]}",
            f"name its folder; if there is none, run it: the same command with {missing[0].flag}",
        )
