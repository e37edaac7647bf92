"""Tables of several runs: a row for each, a column for each measure, and what is best.

What was measured by another protocol does not come into one table: other cases, another precision,
another way of sharing the model, another judge.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

from edit_harness.folder.record import INVALID, OK
from edit_harness.interfaces import Measure
from edit_harness.run import report
from edit_harness.run.outcome import Run
from edit_harness.run.report import DIRECTION, Line
from edit_harness.stats import Estimate

from .facts import statuses

BADGES = ("recomputed", "replayed", "reproduced")
"""How a leaderboard came by a row's numbers, by rising trust."""
EFFICACY = ("efficacy",)
SPECIFICITY = ("neighborhood-plus", "neighborhood", "relation-specificity", "attribute")
"""Roles of probes of what an edit is to change and what it is not, the hardest first."""


@dataclass(frozen=True)
class Protocol:
    """What numbers must share to stand in one table."""

    task: str
    version: str
    data: str
    regime: str
    precision: str
    judge: str

    @classmethod
    def of(cls, run: Run) -> Protocol:
        """Return that of a run."""
        identity, judge = run.manifest.identity, run.judge
        task = identity.task
        return cls(
            task.name,
            task.version,
            task.data[:12],
            str(run.regime),
            identity.model.dtype,
            ", ".join([f"{judge.name} {judge.version}", *run.served]) if judge else "",
        )

    @property
    def conditions(self) -> list[str]:
        """What it says besides the task, for a line below the heading."""
        judged = [f"judged by {self.judge}"] if self.judge else []
        return [self.regime, self.precision, f"data {self.data}", *judged]


@dataclass(frozen=True)
class Entrant:
    """A run with its place in a leaderboard, or on a page of several runs."""

    run: Run
    href: str
    """Where its own page is; a fragment on the same page."""
    badge: str = ""
    rival: str = ""
    """What is said beside its name if another run claims to be the same, and is not."""

    @property
    def rank(self) -> int:
        """The badge's place in `BADGES`; the lowest if it is none of them."""
        word = self.badge.partition(" ")[0]
        return BADGES.index(word) if word in BADGES else 0

    @property
    def trusted(self) -> bool:
        """Whether it may be best: not if nobody has run any of its cases again."""
        return not self.badge or self.rank > 0


@dataclass(frozen=True)
class Cell:
    """One number of a row."""

    text: str
    interval: str
    value: float
    best: bool


@dataclass(frozen=True)
class Row:
    """One run in a table; a cell is None where it has no number."""

    entrant: Entrant
    model: str
    cells: Sequence[Cell | None]
    n: int
    failed: int
    invalid: int


@dataclass(frozen=True)
class Board:
    """The runs of one protocol."""

    protocol: Protocol
    columns: Sequence[tuple[str, Measure]]
    rows: Sequence[Row]
    entrants: Sequence[Entrant] = field(repr=False)


def boards(entrants: Sequence[Entrant]) -> list[Board]:
    """Return the tables of runs, in the order of their protocols' names."""
    found: dict[Protocol, list[Entrant]] = {}
    for entrant in entrants:
        found.setdefault(Protocol.of(entrant.run), []).append(entrant)
    return [_board(protocol, found[protocol]) for protocol in sorted(found, key=_heading)]


def _heading(protocol: Protocol) -> tuple[Any, ...]:
    """Return what tables are in order of; single edits come first."""
    return protocol.task, protocol.version, protocol.regime != "single", astuple(protocol)


def model_of(run: Run) -> str:
    """Return the model's name and, where it is known, its revision."""
    model = run.manifest.model
    return f"{model.name}@{model.revision[:12]}" if model.revision else model.name


def weights_of(run: Run) -> str:
    """Return what tells models apart, whatever they are called: the digest of the weights."""
    return run.manifest.identity.model.digest


def _board(protocol: Protocol, entrants: Sequence[Entrant]) -> Board:
    by_run = [
        {line.name: line for line in e.run.lines if not line.measure.detail} for e in entrants
    ]
    columns = {name: line.measure for lines in by_run for name, line in lines.items()}
    best = _best(entrants, by_run, columns)
    order = sorted(range(len(entrants)), key=lambda i: _place(entrants[i]))
    rows = [_row(entrants[i], by_run[i], columns, best) for i in order]
    return Board(protocol, list(columns.items()), rows, [entrants[i] for i in order])


def _place(entrant: Entrant) -> tuple[str, str, bool, str, str]:
    """Return what rows are sorted by at first: model, the unedited one first, editor."""
    run = entrant.run
    name, mark = model_of(run), run.manifest.fingerprint
    return name, weights_of(run), not run.unedited, run.label, mark


def _best(
    entrants: Sequence[Entrant],
    by_run: Sequence[Mapping[str, Line]],
    columns: Mapping[str, Measure],
) -> dict[tuple[str, str], str]:
    """Return the best number, as it is shown, by model and measure, where several runs compete."""
    found: dict[tuple[str, str], list[tuple[float, str]]] = {}
    for entrant, lines in zip(entrants, by_run, strict=True):
        for name, line in lines.items() if _competes(entrant) else ():
            better = columns[name].better
            if better and line.after is not None and not math.isnan(line.after.value):
                value = line.after.value if better == "higher" else -line.after.value
                said = value, report.show(line.after, line)
                found.setdefault((weights_of(entrant.run), name), []).append(said)
    return {key: max(several)[1] for key, several in found.items() if len(several) > 1}


def _competes(entrant: Entrant) -> bool:
    return entrant.trusted and not entrant.run.unedited


def _row(
    entrant: Entrant,
    lines: Mapping[str, Line],
    columns: Mapping[str, Measure],
    best: Mapping[tuple[str, str], str],
) -> Row:
    model = model_of(entrant.run)
    counts = {status.name: status.count for status in statuses(entrant.run)}
    invalid = counts.get(INVALID, 0)
    cells = [
        _cell(
            lines.get(name),
            best.get((weights_of(entrant.run), name)) if _competes(entrant) else None,
        )
        for name in columns
    ]
    n = len(entrant.run.records)
    return Row(entrant, model, cells, n, n - counts.get(OK, 0) - invalid, invalid)


def _cell(line: Line | None, best: str | None) -> Cell | None:
    if line is None or line.after is None or math.isnan(line.after.value):
        return None
    text = report.show(line.after, line)
    return Cell(text, report.interval(line.after, line), line.after.value, text == best)


@dataclass(frozen=True)
class Point:
    """A run in the plane of efficacy and specificity, in the measures' own units."""

    entrant: Entrant
    model: str
    x: Estimate
    y: Estimate
    before: tuple[Estimate, Estimate] | None
    """The unedited model's place; None if it was not measured, or of other cases."""
    front: bool
    """Whether no other run of the model is at least as good in both and better in one."""


@dataclass(frozen=True)
class Plane:
    """Runs of one protocol by what they change that they should, and leave what they should."""

    x: tuple[str, Measure]
    y: tuple[str, Measure]
    points: Sequence[Point]


def plane(board: Board) -> Plane | None:
    """Return a board's runs by efficacy and specificity; None if there are no such measures."""
    axes = _axis(board, EFFICACY), _axis(board, SPECIFICITY)
    if axes[0] is None or axes[1] is None:
        return None
    placed = [
        (entrant, found[f"post_{axes[0][0]}"], found[f"post_{axes[1][0]}"])
        for entrant in board.entrants
        if (found := entrant.run.estimates).keys() >= {f"post_{axis[0]}" for axis in axes if axis}
    ]
    placed = [place for place in placed if math.isfinite(place[1].value + place[2].value)]
    good = [place for place in placed if _competes(place[0])]
    signs = [-1 if axis[1].better == "lower" else 1 for axis in axes if axis]
    names = [f"pre_{axis[0]}" for axis in axes if axis]
    points = [
        Point(e, model_of(e.run), x, y, _both(e.run, names), _undominated((e, x, y), good, signs))
        for e, x, y in placed
    ]
    return Plane(axes[0], axes[1], points)


def _both(run: Run, names: Sequence[str]) -> tuple[Estimate, Estimate] | None:
    x, y = (run.estimates.get(name) for name in names)
    if not (x and y and math.isfinite(x.value + y.value)):
        return None
    same = (x.n, y.n) == tuple(run[name.removeprefix("pre_")].n for name in names)
    return (x, y) if same else None


def _axis(board: Board, roles: Sequence[str]) -> tuple[str, Measure] | None:
    """Return the first measure that is of probes of one of the roles alone."""
    found = ((n, m) for role in roles for n, m in board.columns if m.better and m.probes == (role,))
    return next(found, None)


Placed = tuple[Entrant, Estimate, Estimate]


def _undominated(one: Placed, others: Sequence[Placed], signs: Sequence[int]) -> bool:
    if not any(one[0] is other[0] for other in others):
        return False
    mine = [sign * estimate.value for sign, estimate in zip(signs, one[1:], strict=True)]
    for entrant, *estimates in others:
        theirs = [sign * estimate.value for sign, estimate in zip(signs, estimates, strict=True)]
        as_good = all(t >= m for t, m in zip(theirs, mine, strict=True))
        if weights_of(entrant.run) == weights_of(one[0].run) and as_good and theirs != mine:
            return False
    return True


def headings(board: Board) -> Iterator[tuple[str, str, str, str]]:
    """Yield each column's name, arrow, unit and formula."""
    for name, measure in board.columns:
        yield name, DIRECTION[measure.better], measure.unit, measure.formula
