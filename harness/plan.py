"""The order of edits and measurements, fixed before the first of them.

A plan is a list of steps. Single edits are batches of one on a fresh model; mass editing is a
larger batch; lifelong editing keeps the edits of the steps before. Editors and tasks don't know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from edit_harness.cases import Case, Request


@dataclass(frozen=True)
class Regime:
    """How edits share a model."""

    mode: Literal["single", "batch", "sequential"] = "single"
    size: int = 1
    """Cases edited at once."""
    measure_every: int = 0
    """In a sequence: measure all cases so far each time that many more are edited; 0: at the end."""


@dataclass(frozen=True)
class Step:
    """Edit some cases, then measure some."""

    edit: tuple[Case, ...]
    measure: tuple[Case, ...]
    fresh: bool
    """Whether the edit starts from the unedited model."""
    done: int
    """Cases that the model holds once this step is done."""

    @property
    def requests(self) -> list[Request]:
        """All requests of the step's cases."""
        return [request for case in self.edit for request in case.requests]


def steps(cases: Sequence[Case], regime: Regime) -> Iterator[Step]:
    """Yield the steps of a regime over the cases."""
    if regime.mode == "sequential":
        yield from _sequence(cases, regime)
        return
    for group in _groups(cases, regime.size):
        yield Step(group, group, fresh=True, done=len(group))


def _sequence(cases: Sequence[Case], regime: Regime) -> Iterator[Step]:
    done = 0
    for group in _groups(cases, regime.size):
        before, done = done, done + len(group)
        every = regime.measure_every
        due = done == len(cases) or (every > 0 and done // every > before // every)
        measured = tuple(cases[:done]) if due else ()
        yield Step(group, measured, fresh=before == 0, done=done)


def _groups(cases: Sequence[Case], size: int) -> Iterator[tuple[Case, ...]]:
    for start in range(0, len(cases), size):
        yield tuple(cases[start : start + size])
