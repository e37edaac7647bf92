"""Runs as tables, whatever the format: one table of each kind of run, and what its numbers carry.

The papers' tables are `edit_harness_plugins.commands.report.typesetting`. Numbers of different precisions never stand in one
table.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edit_harness.folder.records import OK
from edit_harness.run import remarks as about
from edit_harness.run import report
from edit_harness.run.estimates import LEVEL
from edit_harness.run.outcome import Run
from edit_harness.run.report import DIRECTION, Line
from edit_harness.stats import Estimate

from .formats import Cell, Grid, Row

SHORT = 8
"""Characters of a digest that tables show."""
TELLING = (
    "Task", "Model", "Mode", "Judge", "Preset", "Fields", "Weights", "Tokenizer", "Seed", "Data",
    "Shard",
)  # fmt: skip
"""What may tell runs of one editor apart, in the order in which it is tried."""


def facts(run: Run) -> dict[str, str]:
    """Return what a run's numbers depend on, as texts, by the heads that tables give them."""
    manifest, identity = run.manifest, run.manifest.identity
    model, judge = identity.model, run.judge
    return {
        "Editor": run.label,
        "Preset": manifest.preset.partition(" ")[0] or "none",
        "Fields": _settings(identity.editor.fields),
        "Task": identity.task.name,
        "Version": identity.task.version,
        "Data": identity.task.data[:SHORT],
        "Model": manifest.model.name,
        "Weights": model.digest[:SHORT],
        "Tokenizer": model.tokenizer[:SHORT],
        "Precision": model.dtype,
        "Mode": str(run.regime),
        "Judge": ", ".join([judge.name, *run.served]) if judge else "none",
        "Seed": str(identity.seed),
        "Shard": str(run.shard or "all"),
        "Run": manifest.fingerprint[:SHORT],
    }


def _settings(fields: Mapping[str, Any]) -> str:
    shown = {name: value for name, value in fields.items() if value not in ("", [], None)}
    return " ".join(f"{name}={_plain(value)}" for name, value in shown.items())


def _plain(value: Any) -> str:
    return "/".join(map(str, value)) if isinstance(value, list) else str(value)


def labels(
    runs: Sequence[Run], always: Sequence[str] = ("Editor",)
) -> tuple[list[str], list[list[str]]]:
    """Return the heads that tell runs apart, and what each run has there.

    ``always`` are there in any case; the others where two runs differ that are equal in all those.
    Of fields only those are shown in which runs of one editor differ.
    """
    told = [facts(run) for run in runs]
    for one, own in zip(runs, told, strict=True):
        own["Fields"] = _differing(one, [run for run in runs if run.label == one.label])
    heads = list(always)
    for head in TELLING:
        if head not in heads and _tells(told, heads, head):
            heads.append(head)
    if len({tuple(own[head] for head in heads) for own in told}) < len(told):
        heads.append("Run")
    return heads, [[own[head] for head in heads] for own in told]


def _tells(told: Sequence[Mapping[str, str]], heads: Sequence[str], head: str) -> bool:
    """Tell whether runs that are equal in some heads differ in another."""
    found: dict[tuple[str, ...], set[str]] = {}
    for own in told:
        found.setdefault(tuple(own[each] for each in heads), set()).add(own[head])
    return any(len(values) > 1 for values in found.values())


def _differing(run: Run, others: Sequence[Run]) -> str:
    fields = [other.manifest.identity.editor.fields for other in others]
    own = run.manifest.identity.editor.fields
    return _settings({k: v for k, v in own.items() if any(f.get(k) != v for f in fields)})


def together(runs: Sequence[Run]) -> list[list[Run]]:
    """Return runs in the groups that may share a table: of one precision, with the same metrics."""
    found: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        kind = (run.manifest.identity.model.dtype, *sorted(run.metrics))
        found.setdefault(kind, []).append(run)
    return list(found.values())


def of_runs(runs: Sequence[Run], *, verbose: bool = False) -> Iterator[Grid]:
    """Yield the tables of runs: those that share measures in one, runs as its rows."""
    for group in together(runs):
        yield _alone(group[0], verbose) if len(group) == 1 else _beside(group, verbose)


def shown(run: Run, verbose: bool) -> list[Line]:
    """Return the lines of a run's table, details left out unless asked for."""
    return [line for line in run.lines if verbose or not line.measure.detail] or run.lines


def _alone(run: Run, verbose: bool) -> Grid:
    rows = [
        (
            [f"{line.name} {DIRECTION[line.measure.better]}".strip()],
            [
                Cell(report.show(line.before, line)),
                Cell(report.show(line.after, line)),
                Cell(bounds(line.after, line)),
                Cell(report.count(line)),
            ],
        )
        for line in shown(run, verbose)
    ]
    heads = ["Before", "After", f"{LEVEL:.0%} CI", "n"]
    return Grid(
        f"{run.label}: {caption([run])}", ["Metric"], heads, rows, remarks([run]), list(data(run))
    )


def _beside(runs: Sequence[Run], verbose: bool) -> Grid:
    heads, names = labels(runs)
    lines = [{line.name: line for line in shown(run, verbose)} for run in runs]
    measures = {name: line.measure for each in lines for name, line in each.items()}
    directed = [f"{name} {DIRECTION[own.better]}".strip() for name, own in measures.items()]
    rows = [
        (label, [*(_estimated(found.get(m)) for m in measures), Cell(_counts(found))])
        for label, found in zip(names, lines, strict=True)
    ]
    every = [row for run in runs for row in data(run)]
    return Grid(
        f"After the edit: {caption(runs)}", heads, [*directed, "n"], rows, remarks(runs), every
    )


def besides(runs: Sequence[Run]) -> Iterator[Grid]:
    """Yield the table of what controls came to, if any run has some."""
    shown = [run for run in runs if run.effects]
    if not shown:
        return
    heads, names = labels(shown) if len(runs) > 1 else ([], [[]])
    rows = [
        (
            [*label, f"{each.control} {each.name} {DIRECTION[each.better]}".strip()],
            [Cell(text) for text in report.besides_cells(each)],
        )
        for label, run in zip(names, shown, strict=True)
        for each in run.effects
    ]
    every = [row for run in shown for row in _side_data(run)]
    title = f"Controls, before and after: {caption(shown)}"
    yield Grid(title, [*heads, "Control"], report.besides_heads(LEVEL), rows, data=every)


def _side_data(run: Run) -> Iterator[dict[str, Any]]:
    """Yield what controls came to in full, with all that it carries."""
    own = carried(run)
    for each in run.effects:
        change, nothing = each.change, float("nan")
        for when, value, low, high in (
            ("before", each.before, nothing, nothing),
            ("after", each.after, nothing, nothing),
            ("change", change.value, change.low, change.high),
        ):
            yield {
                "measure": f"{each.control} {each.name}",
                "when": when,
                "estimate": value,
                "low": low,
                "high": high,
                "level": LEVEL,
                "n": each.models if each.over == "models" else each.documents,
                "unit": "",
                "better": each.better,
                **own,
            }


def _estimated(line: Line | None) -> Cell:
    return shown_estimate(line.after, line) if line else Cell("–")


def shown_estimate(estimate: Estimate | None, line: Line) -> Cell:
    """Return a number with its interval."""
    return Cell(report.show(estimate, line), bounds(estimate, line) if estimate else "")


def bounds(estimate: Estimate | None, line: Line) -> str:
    """Return an interval in brackets; nothing where there is none, as of one case."""
    if estimate is None or math.isnan(estimate.low):
        return ""
    return f"[{report.number(estimate.low, line)}, {report.number(estimate.high, line)}]"


def _counts(found: Mapping[str, Line]) -> str:
    return spread([line.after.n for line in found.values() if line.after])


def spread(numbers: Sequence[int]) -> str:
    """Return numbers of cases as a text: the number, or the least and the greatest."""
    ends = sorted({*numbers})
    return "–".join(map(str, ends[:1] + ends[1:][-1:]))


def caption(runs: Sequence[Run], *, data: bool = False) -> str:
    """Say what all numbers of a table are of, where that is the same for all; with their data, if asked."""
    told = [facts(run) for run in runs]
    tasks = (
        f"{own['Task']} {own['Version']}" + (f" (data {own['Data']})" if data else "")
        for own in told
    )
    parts = [
        ("task", _common(tasks)),
        ("model", _common(f"{own['Model']} ({own['Weights']})" for own in told)),
        ("", _common(own["Precision"] for own in told)),
        ("", _common(own["Mode"] for own in told)),
        ("", _common(map(_part, runs)) if any(run.shard for run in runs) else ""),
    ]
    texts = (f"{name} {text}".strip() for name, text in parts if text)
    kinds = {run.interval for run in runs} - {"student"}
    return ", ".join([*texts, " ".join([f"{LEVEL:.0%}", *kinds, "intervals"])])


def _part(run: Run) -> str:
    return f"shard {run.shard}" if run.shard else "whole run"


def _common(texts: Iterator[str]) -> str:
    return " and ".join(dict.fromkeys(texts))


def remarks(runs: Sequence[Run]) -> list[str]:
    """Return what readers of a table must know of its numbers; what is so of all runs stands once."""
    said: dict[str, list[str]] = {}
    for run in runs:
        qualified = (text for _, text in about.remarks(run))
        for text in (failed(run), run.manifest.model.note, *qualified):
            if text:
                said.setdefault(str(text), []).append(run.label)
    return [
        text if len(whose) == len(runs) else f"{', '.join(dict.fromkeys(whose))}: {text}"
        for text, whose in said.items()
    ]


def failed(run: Run) -> str:
    """Say how many cases have no valid answer, by status; empty if all have one."""
    found = Counter(record.status for record in run.failures)
    invalid = found.pop("invalid_case", 0)
    said = ", ".join(f"{count} {status}" for status, count in sorted(found.items()))
    count = (
        "count as failures" if found.total() < len(run.records) else "nothing was measured after"
    )
    parts = [f"{found.total()} of {len(run.records)} cases failed and {count}: {said}"]
    parts = parts if found else []
    if invalid:
        parts.append(f"{invalid} of {len(run.records)} cases could not be used and count nowhere")
    return "; ".join(parts)


def carried(run: Run) -> dict[str, Any]:
    """Return what every number of a run carries, as cells."""
    own = {head.lower(): text for head, text in facts(run).items()}
    return {**own, "cases": len(run.records), "failed": sum(r.status != OK for r in run.records)}


def data(run: Run) -> Iterator[dict[str, Any]]:
    """Yield every number of a run in full, with all that it carries."""
    own = carried(run)
    for line in run.lines:
        for when, estimate in (("before", line.before), ("after", line.after)):
            if estimate:
                yield {
                    "measure": line.name,
                    "when": when,
                    **numbers(estimate, line),
                    **own,
                }


def numbers(estimate: Estimate, line: Line) -> dict[str, Any]:
    """Return an estimate as cells: unrounded, in the unit that is stored."""
    return {
        "estimate": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "level": LEVEL,
        "n": estimate.n,
        "unit": {"%": "share", "0.01 bits": "bits"}.get(line.measure.unit, line.measure.unit),
        "better": line.measure.better,
    }


def sources(runs: Sequence[Run]) -> Grid:
    """Return the table of the runs themselves, with their settings below it."""
    rows: list[Row] = []
    settings: dict[str, list[str]] = {}
    origins: dict[str, None] = {}
    for run in runs:
        own = facts(run)
        task = f"{own['Task']} {own['Version']}"
        bad = sum(record.status != OK for record in run.records)
        noop = sum(record.noop for record in run.records)
        cells = [Cell(str(n)) for n in (len(run.records), bad, noop)]
        names = [own["Run"], run.label, own["Task"], f"{own['Model']} {own['Precision']}"]
        rows.append((names, cells))
        settings.setdefault(_told(run), []).append(own["Run"])
        origin = run.manifest.task.origin
        origins[f"{task}: data {own['Data']}{f', {origin}' if origin else ''}"] = None
    notes = [f"{text} ({', '.join(names)})" for text, names in settings.items()]
    heads = ["Run", "Editor", "Task", "Model"]
    return Grid("Runs", heads, ["Cases", "Failed", "No-op"], rows, [*notes, *origins])


def _told(run: Run) -> str:
    """Return in one line how a run was made, but of its data."""
    own = facts(run)
    version = run.manifest.identity.editor.version
    told = [f"{version}, preset {run.manifest.preset or 'none'}", own["Fields"], own["Mode"]]
    told += [f"seed {own['Seed']}", f"judge {own['Judge']}", f"weights {own['Weights']}"]
    return f"{run.label}: {'; '.join(filter(None, told))}"


def protocols(runs: Sequence[Run], names: Sequence[str]) -> Grid:
    """Return the table of what measures are: their formulas, units and directions."""
    known = {name: measure for run in runs for name, measure in run.measures.items()}
    rows: list[Row] = [
        ([name, known[name].formula, known[name].unit or "1", known[name].better or "–"], [])
        for name in dict.fromkeys(names)
        if name in known
    ]
    return Grid("Measures", ["Measure", "Is", "Unit", "Better"], [], rows)
