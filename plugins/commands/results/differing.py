"""The command ``diff``: why two runs are different ones, and which cases came out otherwise.

Settings are compared as they stand in the manifests, answers as they stand in the records: no
metric is asked and no plugin loaded, so that runs of what is not installed can be looked at too.
Whether a difference is more than chance says `edit_harness_plugins.commands.results.comparing`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from edit_harness.encoding import finite
from edit_harness.folder.folder import RunFolder
from edit_harness.folder.manifest import Change, as_json, changes, environment_of, identities, short
from edit_harness.folder.record import Record
from edit_harness.run.outcome import Run

from ..report.formats import Cell, Grid, Row, labelled, rich
from ..run import console

SHOWN = 10
"""Cases that are listed, the worst first."""


@dataclass(frozen=True)
class CaseChange:
    """A case that came out otherwise, or after other edits."""

    case: str
    state: int
    """How many cases the first run's model held, in the end; 0 of an edit of its own."""
    other: int
    """The same of the second run."""
    first: str
    second: str
    """The statuses."""
    flipped: int
    """Answers after the edit whose likelier candidate, or text, is another one."""
    distance: float
    """The largest difference of a log-probability after the edit, in nats."""

    @property
    def rank(self) -> tuple[bool, int, float]:
        """What worse cases have more of."""
        return self.first != self.second, self.flipped, self.distance


@dataclass(eq=False)
class Difference:
    """Two runs, and what is not the same in them."""

    first: Run
    second: Run

    @cached_property
    def identity(self) -> list[Change]:
        """What makes them two runs: the parts of the fingerprint."""
        return identities(*(run.manifest.identity for run in self._runs))

    @cached_property
    def environment(self) -> list[Change]:
        """What is recorded besides, and is no part of the fingerprint."""
        one, two = (
            {
                "judged_by": said.judged_by and as_json(said.judged_by),
                "environment": environment_of(said.segments),
            }
            for said in (run.manifest for run in self._runs)
        )
        counts = [len(run.manifest.cases) for run in self._runs]
        found = list(changes(one, two))
        return found + ([Change("cases", *counts)] if counts[0] != counts[1] else [])

    @cached_property
    def shared(self) -> list[tuple[Record, Record]]:
        """The final records of the cases that both have, with the same content."""
        others = {record.case: record for record in self.second.records}
        return [
            (record, others[record.case])
            for record in self.first.records
            if record.case in others and self._same_content(record.case)
        ]

    def _same_content(self, case: str) -> bool:
        one, two = (run.by_id.get(case) for run in self._runs)
        return one is not None and one == two

    @cached_property
    def cases(self) -> list[CaseChange]:
        """What came out otherwise of the cases that both have, the worst first."""
        found = [_compared(*pair) for pair in self.shared]
        return sorted((c for c in found if c.rank > (False, 0, 0.0)), key=lambda c: c.rank)[::-1]

    @property
    def apart(self) -> int:
        """How many cases are in one run alone, or have another content."""
        cases = {record.case for run in self._runs for record in run.records}
        return len(cases) - len(self.shared)

    @property
    def same(self) -> bool:
        """Whether they are one run: equal fingerprints and equal rows, but for seconds."""
        rows = [{r.visit: _timeless(r) for r in run.everything} for run in self._runs]
        return not self.identity and rows[0] == rows[1]

    @property
    def _runs(self) -> tuple[Run, Run]:
        return self.first, self.second


def diff(first: str, second: str, as_json: bool) -> int:
    """Print why two runs are different ones, and return the exit code."""
    runs = [Run.read(RunFolder.at(name), {}) for name in (first, second)]
    found = Difference(*runs)
    if as_json:
        console.out.out(json.dumps(finite(_as_data(found)), indent=1))
        return 0
    if found.same:
        console.out.print("the same run: equal fingerprints and equal rows", markup=False)
    for grid in _grids(found):
        for part in rich([grid], console.out.width):
            console.out.print(part)
    for label, text in _remarks(found):
        console.out.print(labelled(label, text, console.out.width))
    return 0


def _compared(one: Record, two: Record) -> CaseChange:
    pairs = list(zip(one.after, two.after, strict=False))
    distances = [_distance(a, b) for a, b in pairs]
    flipped = sum(_decision(a) != _decision(b) for a, b in pairs)
    states = one.state, two.state
    largest = max(distances, default=0.0)
    return CaseChange(one.case, *states, one.status, two.status, flipped, largest)


def _decision(answer: Any) -> Any:
    """Return what an answer comes to: its likeliest candidate by the mean over tokens, or its text."""
    if not isinstance(answer, Mapping):
        return None
    if rows := answer.get("logprobs"):
        means = [_mean(row) for row in rows]
        return means.index(max(means)) if len(means) > 1 else answer.get("argmax")
    verdict = answer.get("verdict") or {}
    return answer.get("text"), verdict.get("status"), verdict.get("score")


def _mean(row: Sequence[float | None]) -> float:
    numbers = [value for value in row if value is not None]
    return math.fsum(numbers) / len(numbers) if numbers and len(numbers) == len(row) else -math.inf


def _distance(one: Any, two: Any) -> float:
    """Return the largest difference of a log-probability; of a divergence, of that."""
    flat = [list(_numbers(each)) for each in (one, two)]
    pairs = zip(*flat, strict=False)
    return max((abs(a - b) for a, b in pairs if a is not None and b is not None), default=0.0)


def _numbers(answer: Any) -> Iterator[float | None]:
    if isinstance(answer, Mapping):
        for row in answer.get("logprobs") or ():
            yield from row
        yield from (answer[name] for name in ("forward", "reverse") if name in answer)


def _timeless(record: Record) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name != "seconds"}


def _grids(found: Difference) -> Iterator[Grid]:
    for title, some in (
        ("what makes them different runs", found.identity),
        ("recorded, and no part of the fingerprint", found.environment),
    ):
        if some:
            fields: list[Row] = [([c.field, short(c.first), short(c.second)], []) for c in some]
            yield Grid(title, ["Field", "A", "B"], [], fields)
    if found.cases:
        rows = [
            (
                [_named_case(c), _statuses(c)],
                [Cell(str(c.flipped)), Cell(f"{c.distance:.3g}")],
            )
            for c in found.cases[:SHOWN]
        ]
        title = (
            f"cases that came out otherwise: {len(found.cases)} of {len(found.shared)}, worst first"
        )
        yield Grid(title, ["Case (state)", "Status"], ["Decisions flipped", "Largest change"], rows)


def _named_case(change: CaseChange) -> str:
    states = dict.fromkeys(str(state) for state in (change.state, change.other) if state)
    return f"{change.case} ({', '.join(states)})" if states else change.case


def _statuses(change: CaseChange) -> str:
    same = change.first == change.second
    return change.first if same else f"{change.first} → {change.second}"


def _remarks(found: Difference) -> Iterator[tuple[str, str]]:
    if found.same:
        return
    if not found.identity:
        yield "note", "equal fingerprints: one kind of run, made twice"
    if found.apart:
        yield (
            "note",
            f"{found.apart} cases are in one run alone, or ask something else in the other",
        )
    if found.cases:
        yield "changes", "log-probabilities after the edit, in nats"
        yield "next", "whether it is more than chance: edit-harness compare A B"
    elif found.shared:
        yield "note", f"all {len(found.shared)} cases that both have have the same answers"


def _as_data(found: Difference) -> dict[str, Any]:
    return {
        "same": found.same,
        "A": str(found.first.folder.path),
        "B": str(found.second.folder.path),
        "identity": [asdict(change) for change in found.identity],
        "environment": [asdict(change) for change in found.environment],
        "shared": len(found.shared),
        "apart": found.apart,
        "cases": [asdict(change) for change in found.cases],
    }
