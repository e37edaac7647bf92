"""One page of one or several runs: what was run, tables and what is best there, and every case to look into."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from edit_harness.data import Answer, Case, Choose, Divergence, Probe, Scores, Text
from edit_harness.folder.encoding import decode_answer
from edit_harness.folder.record import INVALID, OK, Record
from edit_harness.interfaces import Measure
from edit_harness.run import report
from edit_harness.run.estimates import LEVEL
from edit_harness.run.report import MeasureRow
from edit_harness.run.results import Results
from edit_harness_plugins.controls.effects import side_effects
from edit_harness_plugins.pairing import Pairing

from . import facts, layouts
from .facts import grouped
from .layouts import HARMONIC, MAIN
from .papers import unedited
from .templates import SCRIPTS, STYLE, asset, embedded, inlined, page

BADGES = ("recomputed", "replayed", "reproduced")
"""How a leaderboard came by a row's numbers, by rising trust."""
BUDGET = 950_000
"""Bytes of a page's tables and of the answers to its cases; all cases are listed, whatever that takes."""
TABLES = 50_000
"""Bytes that are set aside for a run's tables; the rest is for answers."""
RELATIONS = "relations.json"
"""Labels of Wikidata's properties by their ids: of CounterFact's, which its data does not have."""
ROW = ("Editor", "Model", "Task", "Version", "Data", "Mode", "Precision", "Judge")
"""What a row of a page of several runs says, or the heading above it."""
VERDICT = ("status", "score", "reverted", "note", "raw", "served")
Table = Mapping[str, tuple[np.ndarray, np.ndarray]]
"""What each case has of a measure, before and after, by the measure's name."""


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
    def of(cls, run: Results) -> Protocol:
        """Return that of a run."""
        own, judge = facts.facts(run), run.manifest.judge
        judged = ", ".join([f"{judge.name} {judge.version}", *run.served]) if judge else ""
        told = (own["Task"], own["Version"], own["Data"], own["Mode"], own["Precision"])
        return cls(*told, judge=judged)

    @property
    def conditions(self) -> list[str]:
        """What it says besides the task, for a line below the heading."""
        judged = [f"judged by {self.judge}"] if self.judge else []
        return [self.regime, self.precision, f"data {self.data}", *judged]


@dataclass(frozen=True, eq=False)
class Entrant:
    """A run as a row of a leaderboard, or of a page of several runs."""

    run: Results
    href: str
    """Where its own page is; a fragment on the same page."""
    badge: str = ""
    """How its numbers were checked; empty on no leaderboard."""
    told: str = ""
    """What tells it apart from others of the same editor, such as its settings."""
    rival: str = ""
    """What is said beside its name if another run claims to be the same, and is not."""

    @property
    def rank(self) -> int:
        """The badge's place in `BADGES`."""
        return BADGES.index(self.badge.partition(" ")[0]) if self.badge else 0

    @cached_property
    def lines(self) -> Mapping[str, MeasureRow]:
        """Its measures that have a number after the edit, by name."""
        return {
            line.name: line
            for line in self.run.lines
            if not line.measure.detail and line.after and not math.isnan(line.after.value)
        }

    @property
    def model(self) -> str:
        """The model's name and, where it is known, its revision."""
        model = self.run.manifest.model
        return f"{model.name}@{model.revision[:12]}" if model.revision else model.name

    @property
    def weights(self) -> str:
        """What tells models apart, whatever they are called."""
        return self.run.manifest.identity.model.digest

    @cached_property
    def competes(self) -> bool:
        """Whether its numbers may be the best: somebody has run some cases again, or it is on no leaderboard."""
        return (not self.badge or self.rank > 0) and not unedited(self.run)

    @property
    def invalid(self) -> int:
        """How many cases could not be used."""
        return self.run.records.statuses.count(INVALID)


@dataclass(frozen=True)
class Board:
    """The runs of one protocol: the unedited model first, then the others by their score."""

    protocol: Protocol
    entrants: Sequence[Entrant]
    _differing: dict[tuple[Entrant, Entrant], set[str]] = field(default_factory=dict, init=False)

    @cached_property
    def columns(self) -> Mapping[str, Measure]:
        """The measures that any run has."""
        return {name: line.measure for row in self.entrants for name, line in row.lines.items()}

    @cached_property
    def main(self) -> Sequence[str]:
        """The columns that are shown at first."""
        return [name for name in self.columns if name in MAIN] or list(self.columns)[: len(MAIN)]

    @cached_property
    def score(self) -> str:
        """The measure that rows are sorted by: `HARMONIC`, or the first that has a better direction."""
        names = [name for name, measure in self.columns.items() if measure.better]
        return HARMONIC if HARMONIC in names else next(iter(names), "")

    @cached_property
    def rows(self) -> Sequence[Entrant]:
        """The runs in their order."""

        def order(row: Entrant) -> tuple[Any, ...]:
            names = row.model, row.run.label, row.run.manifest.fingerprint
            return not unedited(row.run), -self._merit(row, self.score), *names

        return sorted(self.entrants, key=order)

    def _merit(self, row: Entrant, name: str) -> float:
        if name not in row.lines:
            return -math.inf
        value = row.run.estimates[f"post_{name}"].value
        return -value if self.columns[name].better == "lower" else value

    def is_best(self, row: Entrant, name: str) -> bool:
        """Tell whether no other run of a row's model is significantly better, and one is significantly worse."""
        rivals = [
            r for r in self.entrants if r.competes and name in r.lines and r.weights == row.weights
        ]
        if row not in rivals or not self.columns[name].better:
            return False
        best = max(rivals, key=lambda rival: self._merit(rival, name))
        worse = [rival for rival in rivals if rival is not best and self._differ(best, rival, name)]
        return bool(worse) and row not in worse

    def _differ(self, one: Entrant, other: Entrant, name: str) -> bool:
        """Tell whether `compare` finds that two runs differ in a measure."""
        if (one, other) not in self._differing:
            found = Pairing(one.run, other.run).contrasts
            self._differing[one, other] = {each.name for each in found if each.differs}
        return name in self._differing[one, other]


def boards_of(entrants: Sequence[Entrant]) -> list[Board]:
    """Return the tables of runs, in the order of their protocols; single edits come first."""

    def order(board: Board) -> tuple[Any, ...]:
        of = board.protocol
        return of.task, of.version, of.regime != "single", astuple(of)

    groups = grouped(entrants, lambda each: Protocol.of(each.run))
    return sorted((Board(Protocol.of(own[0].run), own) for own in groups), key=order)


def explore(runs: Sequence[Results], title: str) -> str:
    """Return one HTML page of runs that opens anywhere and asks nothing of the network."""
    _, names = facts.labels(runs, ROW)
    entrants = [
        Entrant(run, f"#run-{i}", told="  ".join(filter(None, own[len(ROW) :])))
        for i, (run, own) in enumerate(zip(runs, names, strict=True))
    ]
    inner = inlined(asset(STYLE), "\n".join(map(asset, SCRIPTS)))
    several = boards_of(entrants) if len(runs) > 1 else []
    return page("run.jinja", title=title, **inner, boards=several, **contents(runs))


def contents(runs: Sequence[Results]) -> dict[str, Any]:
    """Return what the template shows of runs, and the data of its script."""
    data = [explored(run, BUDGET // len(runs) - TABLES) for run in runs]
    return {
        "level": f"{LEVEL:.0%}",
        "runs": [_told(run, found["cases"]) for run, found in zip(runs, data, strict=True)],
        "data": embedded({"runs": data}),
        "facts": facts,
        "besides_heads": layouts.BESIDES,
        "besides_cells": layouts.besides_cells,
    }


def _told(run: Results, cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    main = run.shown()
    return {
        "run": run,
        "effects": side_effects(run).effects,
        "model": Entrant(run, "").model,
        "task": run.manifest.identity.task,
        "embedded": sum("probes" in case for case in cases),
        "lines": main,
        "details": [line for line in run.lines if line not in main],
        "followed": any(line.immediate for line in run.lines),
    }


def explored(run: Results, budget: int) -> dict[str, Any]:
    """Return the explorer's data of a run; its cases take ``budget`` bytes of JSON, or one case."""
    table = measured(run)
    measures = [
        {
            "name": name, "better": measure.better, "unit": measure.unit,
            "times": 100 if measure.unit in report.HUNDREDTHS else 1, "detail": measure.detail,
        }
        for name, measure in run.measures.items()
        if name in table
    ]  # fmt: skip
    return {"label": run.label, "measures": measures, "cases": list(_within(run, table, budget))}


def measured(run: Results) -> Table:
    """Return the measures of cases; one that only a summary has, as a harmonic mean, is not there."""
    found = {}
    for metric, made in run.metrics.items():
        columns = run.records.columns(metric)
        for name in made.measures:
            if (after := columns.get(f"post_{name}")) is not None:
                found[name] = columns.get(f"pre_{name}", np.full_like(after, np.nan)), after
    return found


def _within(run: Results, table: Table, budget: int) -> Iterator[dict[str, Any]]:
    """Yield all cases, those that failed first; of the first and until the budget is spent with their probes."""
    spent, statuses = 0, run.records.statuses
    order = sorted(range(len(statuses)), key=lambda i: statuses[i] == OK)
    for place, i in enumerate(order):
        values = [[_short(column[i]) for column in pair] for pair in table.values()]
        record = run.records[i]
        case = run.by_id[record.case]
        data = _case(case, record) | {"place": place, "values": values}
        if spent <= budget:
            whole = data | {"probes": _probes(case, record)}
            spent += len(embedded(whole)) + 1
        yield whole if spent <= budget or not place else data


def _case(case: Case, record: Record) -> dict[str, Any]:
    return {
        "id": case.id,
        "status": record.status,
        "noop": record.noop,
        "message": record.message,
        "tags": {name: _labelled(value) for name, value in case.tags.items()},
        "requests": [[r.text, r.subject, r.target_new, r.target_true] for r in case.requests],
    }


def _labelled(tag: str) -> str:
    """Return a tag with what Wikidata calls the property that it is the id of."""
    label = json.loads(asset(RELATIONS)).get(tag)
    return f"{label} ({tag})" if label else tag


def _probes(case: Case, record: Record) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, dict[str, dict[str, Any]]] = {}
    # A case that failed has no answer that counts after its edit, whatever is stored there.
    sides = record.before, record.after if record.status == OK else ()
    answers = [list(map(decode_answer, side)) for side in sides]
    for i, probe in enumerate(case.probes):
        pair = [side[i] if i < len(side) else None for side in answers]
        about = {"prompt": probe.query.prompt, "tags": dict(probe.tags)}
        same = json.dumps(about, sort_keys=True)
        entry = found.setdefault(probe.role, {}).setdefault(same, about)
        for kind, said in _answered(probe, *pair):
            entry.setdefault(kind, []).append(said)
    return {role: list(probes.values()) for role, probes in found.items()}


def _answered(
    probe: Probe, before: Answer | None, after: Answer | None
) -> Iterator[tuple[str, list[Any]]]:
    if isinstance(probe.query, Choose):
        for i, candidate in enumerate(probe.query.candidates):
            yield "choices", [candidate, _choice(before, i), _choice(after, i)]
    elif isinstance(after, Divergence):
        yield "moved", [_short(after.forward), _short(after.reverse)]
    elif isinstance(before, Text) or isinstance(after, Text):
        yield "texts", [_text(before), _text(after)]


def _choice(answer: Answer | None, candidate: int) -> list[Any] | None:
    """Return a candidate's probability per token, and whether it is the likeliest of all tokens."""
    if not isinstance(answer, Scores):
        return None
    try:
        return [_short(answer.prob(candidate)), int(answer.exact(candidate))]
    except (TypeError, OverflowError):  # what is not finite is stored as None
        return None


def _text(answer: Answer | None) -> dict[str, Any] | None:
    if not isinstance(answer, Text):
        return None
    verdict = answer.verdict
    said = {name: getattr(verdict, name) for name in VERDICT} if verdict else None
    return {"text": answer.text, "verdict": said}


def _short(value: float | None) -> float | None:
    """Return a number with the digits that a page shows; None if it is not finite."""
    return float(f"{value:.4g}") if value is not None and math.isfinite(value) else None
