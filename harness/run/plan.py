"""The plan: the order of edits and measurements, fixed before the first.

A plan is a list of steps, carried out in chunks. Single edits are batches of one on a fresh model; mass
editing has larger batches; lifelong editing keeps the edits of the steps before.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..data import Case, Examined, Request, Visit
from ..interfaces import Regime

if TYPE_CHECKING:
    from ..model.model import Model

CHUNKS = ((20_000_000, 64), (200_000_000, 16))
"""Edits that share forward passes, for models below so many parameters; an interruption loses no more."""
LARGE_CHUNK, GPU_CHUNK = 4, 16
"""The same for larger models, on a CPU and elsewhere."""


@dataclass(frozen=True)
class Step:
    """Write some requests, then measure some cases."""

    edit: tuple[Case, ...]
    """The cases whose requests these are."""
    requests: tuple[Request, ...]
    measure: tuple[Case, ...]
    fresh: bool
    """Whether the edit starts from the unedited model."""
    state: int = 0
    """Which edited model is measured: 0 for single edits, the number of the batch from 1 on, or the
    number of cases that a sequence has come to. Of a single edit that is made for controls, the
    number of its case from 1 on."""
    again: bool = False
    """Whether the edit is repeated for controls; its case is measured elsewhere in the plan."""

    @property
    def visits(self) -> list[Visit]:
        """The visits of the step."""
        return [(case.id, self.state) for case in self.measure]


def steps(
    cases: Sequence[Case], regime: Regime, controls: Sequence[Case] = (), again: Sequence[int] = ()
) -> Iterator[Step]:
    """Yield the steps of a regime over the cases; controls are asked wherever cases are.

    Single edits of the numbers ``again`` are repeated at the end for the controls, so that the steps before
    stay the same without controls.
    """
    single = regime.mode == "single"
    yield from _measuring(cases, regime, () if single else controls)
    for number in again if single and controls else ():
        for step in _measuring([cases[number - 1]], regime, ()):
            yield replace(
                step, measure=tuple(controls) if step.measure else (), state=number, again=True
            )


def conflicts(cases: Iterable[Case]) -> dict[str, str]:
    """Return the cases that conflict with an earlier one, with that one's id.

    Both write different objects to one subject and relation: the case's tag, or else the prompt.
    """
    known: dict[tuple[str, str], tuple[str, str]] = {}
    found: dict[str, str] = {}
    for case in cases:
        relation = case.tags.get("relation", "")
        said = {(r.subject, relation or r.prompt): (r.target_new, case.id) for r in case.requests}
        for key, own in said.items():
            if (other := known.get(key, own))[0] != own[0]:
                found[case.id] = other[1]
        if case.id not in found:
            known.update((key, own) for key, own in said.items() if key not in known)
    return found


def conflicting(cases: Sequence[Case], regime: Regime) -> dict[str, str]:
    """Return the conflicts among cases whose edits share a model."""
    groups = [members for *_, members in _groups(cases, regime)]
    together = groups if regime.mode != "sequential" else [cases]
    return {name: other for group in together for name, other in conflicts(group).items()}


def sample(cases: int, size: int, seed: int) -> list[int]:
    """Return the rising numbers, from 1 on, of the single edits that controls are asked about."""
    return sorted(random.Random(seed).sample(range(1, cases + 1), min(size, cases)))


def _measuring(cases: Sequence[Case], regime: Regime, controls: Sequence[Case]) -> Iterator[Step]:
    sequence, by_id = regime.mode == "sequential", {case.id: case for case in cases}
    for number, (start, done, group) in enumerate(_groups(cases, regime), 1):
        measured = group if regime.immediate or not sequence else ()
        if sequence and _due(start, done, len(cases), regime):
            names = (*drawn([*by_id], done, regime), *(case.id for case in measured))
            measured = tuple(by_id[name] for name in dict.fromkeys(names))
        asked = (*measured, *controls) if measured else measured
        state = {"single": 0, "batch": number, "sequential": done}[regime.mode]
        turns = _turns(group, in_turn=regime.in_turn)
        for i, requests in enumerate(turns, 1):
            fresh = i == 1 and (start == 0 or not sequence)
            yield Step(group, requests, asked if i == len(turns) else (), fresh, state)


def drawn(names: Sequence[str], done: int, regime: Regime) -> Sequence[str]:
    """Return the cases that a checkpoint measures: all so far, or a sample of them; all at the end."""
    if not regime.sample or done == len(names):
        return names[:done]
    # By a rank of their own: the same come again, unless later ones take their places.
    return sorted(names[:done], key=lambda name: random.Random(name).random())[: regime.sample]


def _groups(cases: Sequence[Case], regime: Regime) -> Iterator[tuple[int, int, tuple[Case, ...]]]:
    """Yield the cases of each edit, with the numbers of the first and behind the last."""
    kept: dict[str, list[Case]] = {}
    for case in cases:
        kept.setdefault(case.tags.get(regime.apart, ""), []).append(case)
    before = 0
    for members in kept.values():
        for start, done in _spans(len(members), regime):
            yield before + start, before + done, tuple(members[start:done])
        before += len(members)


def checkpoints(count: int, regime: Regime) -> list[int]:
    """Return the states of a sequence of so many cases at which all cases so far are measured."""
    spans = _spans(count, regime) if regime.mode == "sequential" else ()
    return [done for start, done in spans if _due(start, done, count, regime)]


def _spans(count: int, regime: Regime) -> Iterator[tuple[int, int]]:
    """Yield first and last (exclusive) number of the cases of each edit."""
    size = regime.size or max(count, 1)
    return ((start, min(start + size, count)) for start in range(0, count, size))


def _due(start: int, done: int, count: int, regime: Regime) -> bool:
    return done == count or any(start < point <= done for point in regime.checkpoints)


def _turns(group: Sequence[Case], *, in_turn: bool) -> list[tuple[Request, ...]]:
    """Return the requests of each edit: all, or the first of each case, the second..."""
    if not in_turn:
        return [tuple(request for case in group for request in case.requests)]
    most = max(len(case.requests) for case in group)
    return [tuple(c.requests[i] for c in group if i < len(c.requests)) for i in range(most)]


@dataclass(frozen=True)
class Chunk:
    """Cases that are asked together; the edits of their group of steps are found together."""

    steps: Sequence[Step]
    """The group; several chunks may share it."""
    todo: Sequence[tuple[Case, int]]
    """Each case with the number of its step in the group."""
    missing: Sequence[int]
    """The places in ``todo`` whose rows are wanted; the rest is asked to keep batches equal."""
    number: int
    """Its number in the plan, the same for all editors."""
    edits: bool
    """Whether to find the group's edits before this chunk."""

    @property
    def visits(self) -> list[tuple[Case, int]]:
        """The cases whose rows are wanted, with their states."""
        wanted = (self.todo[n] for n in self.missing)
        return [(case, self.steps[i].state) for case, i in wanted]


def chunk_size(model: Model, device: str = "") -> int:
    """Return how many edits share forward passes, on the model's device or another type of device."""
    large = LARGE_CHUNK if (device or model.device.type) == "cpu" else GPU_CHUNK
    return next((size for most, size in CHUNKS if model.size < most), large)


def grouped(steps: Iterable[Step], size: int) -> Iterator[list[Step]]:
    """Yield groups of steps to edit together, of so many cases or just above; the last may have fewer."""
    group: list[Step] = []
    for step in steps:
        if group and step.again != group[-1].again:
            yield group
            group = []
        group.append(step)
        if sum(len(step.edit) for step in group) >= size:
            yield group
            group = []
    if group:
        yield group


def chunks(steps: Iterable[Step], size: int, done: Collection[Visit] = ()) -> Iterator[Chunk]:
    """Yield the chunks of a plan whose rows are wanted, or whose edits later ones build on.

    They follow from the whole plan, so that a resumed run computes the same batches.
    """
    groups, number = list(grouped(steps, size)), 0
    for group, needed in zip(groups, _needed(groups, done), strict=True):
        todo = [(case, i) for i, step in enumerate(group) for case in step.measure]
        asked = [each for each in todo if not isinstance(each[0], Examined)]
        parts = [asked[start : start + size] for start in range(0, len(asked), size)]
        # A control with its own code comes alone.
        parts += [[each] for each in todo if isinstance(each[0], Examined)]
        missing = [
            [n for n, (case, i) in enumerate(part) if (case.id, group[i].state) not in done]
            for part in parts
        ]
        edits = needed
        for part, own in zip(parts or [[]], missing or [[]], strict=True):
            if edits or own:
                yield Chunk(group, part, own, number, edits)
            edits = False
            number += bool(part)


def _needed(groups: Sequence[Sequence[Step]], done: Collection[Visit]) -> list[bool]:
    """Return for each group whether its edits are needed: for its rows, or by later steps of a sequence."""
    needed: list[bool] = []
    later = False
    for i, group in reversed(list(enumerate(groups))):
        goes_on = i + 1 < len(groups) and not groups[i + 1][0].fresh
        wanted = any(visit not in done for step in group for visit in step.visits)
        later = wanted or (goes_on and later)
        needed.append(later)
    return needed[::-1]
