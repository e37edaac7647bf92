"""The cases of a run as data for the explorer: the worst ones, as many as a page has room for.

Answers become what a reader looks at: probabilities of candidates, divergences, texts. What they
were computed from, log-probabilities of tokens, stays in the run folder.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from edit_harness import stats
from edit_harness.cases import Answer, Case, Choose, Divergence, Probe, Scores, Text
from edit_harness.encoding import decode_answer
from edit_harness.folder.record import INVALID, OK, Record
from edit_harness.folder.table import RunTable
from edit_harness.interfaces import Measure
from edit_harness.run.outcome import Run
from edit_harness.run.report import HUNDREDTHS

from .text import embedded

DIGITS = 4
VERDICT = ("status", "score", "reverted", "note", "raw", "served")


Stored = Mapping[str, stats.Columns]
"""The values of a run's records by metric, as columns."""
Table = Mapping[str, tuple[np.ndarray, np.ndarray]]
"""What each case has of a measure, before and after, by the measure's name."""


def stored(run: Run) -> Stored:
    """Return the values of the final records, which all that a page says of cases is made of."""
    return {name: RunTable.of(run.records).columns(name) for name in run.metrics}


def explored(run: Run, columns: Stored, budget: int) -> dict[str, Any]:
    """Return the explorer's data of a run; its cases take ``budget`` bytes of JSON, or one case."""
    table = measured(run, columns)
    picked = list(_within(run, table, budget))
    return {
        "measures": [_measure(name, run.measures[name]) for name in table],
        "summaries": [_measure(n, m) for n, m in run.measures.items() if n not in table],
        "total": len(run.records),
        "sequence": run.regime.mode == "sequential",
        "cases": picked,
    }


def measured(run: Run, columns: Stored) -> Table:
    """Return the measures of cases; one that only a summary has, as a harmonic mean, is not there."""
    found = {}
    for metric, made in run.metrics.items():
        for name in made.measures:
            if (after := columns[metric].get(f"post_{name}")) is not None:
                before = columns[metric].get(f"pre_{name}", np.full_like(after, np.nan))
                found[name] = before, after
    return found


def worst_first(run: Run, table: Table) -> list[list[int]]:
    """Return orders of the records by number, worst first: the overall one, and one by each measure.

    The overall order is by the mean share of cases that are better, over all measures of the
    tables; failures come first, and what could not be used last.
    """
    sides = {n: _badness(after, run.measures[n]) for n, (_, after) in table.items()}
    main = [sides[n] for n in sides if not run.measures[n].detail and run.measures[n].better]
    overall = _mean(main, len(run.records))
    for i, record in enumerate(run.records):
        if record.status != OK:
            overall[i] = -np.inf if record.status == INVALID else np.inf
    orders = [overall, *(side for n, side in sides.items() if run.measures[n].better)]
    return [np.argsort(-np.nan_to_num(o, nan=-1.0), kind="stable").tolist() for o in orders]


def _badness(values: np.ndarray, measure: Measure) -> np.ndarray:
    """Return the share of cases that are better, ties counted half; NaN where there is no value."""
    rank = np.full(len(values), np.nan)
    there = ~np.isnan(values)
    towards = -values[there] if measure.better == "higher" else values[there]
    _, which, counts = np.unique(towards, return_inverse=True, return_counts=True)
    rank[there] = (np.cumsum(counts) - counts / 2)[which] / max(there.sum(), 1)
    return rank


def _mean(sides: Sequence[np.ndarray], count: int) -> np.ndarray:
    """Return the mean of what is there for each case, 0 where nothing is."""
    stacked = np.array(sides).reshape(len(sides), count)
    present = (~np.isnan(stacked)).sum(axis=0)
    return np.asarray(np.nansum(stacked, axis=0) / np.maximum(present, 1))


def _within(run: Run, table: Table, budget: int) -> Iterator[dict[str, Any]]:
    """Yield the worst cases of each order in turn, until the budget is spent; at least one."""
    orders = worst_first(run, table)
    place = {i: at for at, i in enumerate(orders[0])}
    wanted = dict.fromkeys(i for row in zip(*orders, strict=True) for i in row)
    spent = 0
    for i in wanted:
        values = [[_short(column[i]) for column in pair] for pair in table.values()]
        record = run.records[i]
        data = _case(run.by_id[record.case], record) | {"place": place[i], "values": values}
        size = len(embedded(data)) + 1
        if spent and spent + size > budget:
            return
        spent += size
        yield data


def _case(case: Case, record: Record) -> dict[str, Any]:
    """Return a case with its record; what is empty is left out."""
    data = {
        "id": case.id,
        "status": record.status,
        "noop": record.noop,
        "message": record.message,
        "tags": dict(case.tags),
        "requests": [[r.text, r.subject, r.target_new, r.target_true] for r in case.requests],
        "probes": _probes(case, record),
    }
    return {key: value for key, value in data.items() if value or key in ("id", "status")}


def _probes(case: Case, record: Record) -> dict[str, list[dict[str, Any]]]:
    """Return what was asked by role, once for each prompt, with all that was answered to it."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    # A case that failed has no answer that counts after its edit, whatever is stored there.
    sides = record.before, record.after if record.status == OK else ()
    before, after = (_decoded(side, len(case.probes)) for side in sides)
    for probe, *pair in zip(case.probes, before, after, strict=True):
        tags = dict(probe.tags)
        about = {"prompt": probe.query.prompt, **({"tags": tags} if tags else {})}
        same = json.dumps(about, sort_keys=True)
        entry = found.setdefault(probe.role, {}).setdefault(same, about)
        for kind, said in _answered(probe, *pair):
            entry.setdefault(kind, []).append(said)
    return {role: list(probes.values()) for role, probes in found.items()}


def _decoded(stored: Sequence[Any], count: int) -> list[Answer | None]:
    """Return one side's answers; None for each that a failed case has not."""
    answers = [decode_answer(answer) for answer in stored]
    return [*answers, *[None] * (count - len(answers))][:count]


def _answered(
    probe: Probe, before: Answer | None, after: Answer | None
) -> Iterator[tuple[str, list[Any]]]:
    """Yield what a probe's answers are, as lists that the explorer draws."""
    if isinstance(probe.query, Choose):
        for i, candidate in enumerate(probe.query.candidates):
            yield "choices", [candidate, *(_choice(side, i) for side in (before, after))]
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
    said = {name: getattr(answer.verdict, name) for name in VERDICT} if answer.verdict else {}
    kept = {k: v for k, v in said.items() if v not in ("", None) and v is not False}
    return {"text": answer.text, **({"verdict": kept} if kept else {})}


def _measure(name: str, measure: Measure) -> dict[str, Any]:
    return {
        "name": name,
        "better": measure.better,
        "unit": measure.unit,
        "times": 100 if measure.unit in HUNDREDTHS else 1,
        "detail": measure.detail,
    }


def _short(value: float | None) -> float | None:
    """Return a number with the digits that a page shows; None if it is not finite."""
    return float(f"{value:.{DIGITS}g}") if value is not None and math.isfinite(value) else None
