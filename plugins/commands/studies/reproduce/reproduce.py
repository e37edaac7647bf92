"""The command ``reproduce``: makes a printed table again, cell by cell, and compares it with the print.

What is missing is run as by ``run``, into ordinary run folders, so that an interrupted reproduction
goes on.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

from edit_harness.errors import DataError, PluginError, UsageError, counted
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import build_component
from edit_harness.run.estimates import LEVEL
from edit_harness.run.results import Results
from edit_harness.run.spec import ModelRef, RunSpec, Selection
from edit_harness.stats import Estimate
from edit_harness_plugins.commands import results
from edit_harness_plugins.commands.report.facts import sound
from edit_harness_plugins.commands.report.formats import Cell, Grid
from edit_harness_plugins.commands.report.papers import named
from edit_harness_plugins.commands.run import console, running
from edit_harness_plugins.commands.run.flags import Options, RegimeFlags
from edit_harness_plugins.intervals import KINDS
from edit_harness_plugins.loading.load import checked_source
from edit_harness_plugins.reading import check_writable

from ..studies import ReproduceFlags
from . import listing, packs
from .packs import Contents, Expected, Leg, Method
from .verdicts import APART, OUTSIDE, UNTOLD, WITHIN, Compared, Reproduction

FAILED = 6


def reproduce(plugins: Plugins, flags: ReproduceFlags) -> int:
    """Run what a pack lacks, print which numbers came out again, and return the exit code."""
    if flags.listed:
        data, grids = listing.listed(plugins)
        results.show(data, *grids, as_json=flags.as_json)
        return console.DONE
    if not flags.pack:
        remedy = "edit-harness reproduce PACK; see: edit-harness reproduce --list"
        raise UsageError("which table?", remedy)
    contents = packs.read(plugins, flags.pack)
    where = _chosen(contents, flags)
    contents = structs.replace(contents, models={each: contents.models[each] for each in where})
    check_writable(Path(flags.output))
    codes = [console.DONE]
    runs: dict[tuple[str, str], list[Results]] = {}
    for label, name in where.items():
        for leg in contents.legs:
            methods = contents.edited(leg, label)
            with console.tolerated(codes, len(where) > 1 or len(contents.legs) > 1):
                _check_model(plugins, label, name, flags.model_options)
                for editor, run in _made(plugins, leg, methods, name, flags, codes):
                    runs.setdefault((label, editor), []).append(run)
    if not all(sound(run) for own in runs.values() for run in own):
        codes.append(console.SOME_FAILED)
    if not runs:
        return max(codes)
    report = Reproduction(contents, runs, flags.limit)
    found = report.compared()
    tables = [
        table(contents, model, [each for each in found if each.cell.model == model])
        for model in contents.models
    ]
    lines = remarks(report, found)
    results.show(as_data(report, found), *tables, *lines, as_json=flags.as_json)
    verdicts = {each.verdict for each in found}
    if OUTSIDE in verdicts:
        codes.append(FAILED)
    elif WITHIN not in verdicts:
        why = UNTOLD if UNTOLD in verdicts else APART
        console.err.print(f"nothing is told of {contents.name}: {why}")
        codes.append(console.SOME_FAILED)
    return max(codes)


def _chosen(contents: Contents, flags: ReproduceFlags) -> dict[str, str]:
    """Return where each model that is asked for is, by what the table calls it. Raises `UsageError`."""
    names = {label: wanted.name for label, wanted in contents.models.items()}
    found: dict[str, str] = {}
    for given in flags.model or names:
        label, copied, name = given.rpartition("=")
        label = label or next((each for each in names if name in (each, names[each])), "")
        if label not in names:
            raise UsageError(
                f"{given} is no model of {contents.name}",
                f"its models: {', '.join(names.values())}; of a copy say which it is: "
                f"-m '{next(iter(names))}=FOLDER'",
            )
        found[label] = name if copied else names[label]
    return found


def _check_model(plugins: Plugins, label: str, name: str, options: Mapping[str, Any]) -> None:
    """Raise `DataError`, which says how to name a copy, for a model that is missing or cannot be edited."""
    try:
        checked_source(plugins, name, options.get("revision"), options["trust_remote_code"])
    except DataError as error:
        raise DataError(error.cause, f"{error.remedy}; a copy: -m '{label}=FOLDER'") from error


def _made(
    plugins: Plugins,
    leg: Leg,
    methods: Mapping[str, Method],
    model: str,
    flags: ReproduceFlags,
    codes: list[int],
) -> Iterator[tuple[str, Results]]:
    """Run editors side by side on a leg's task, and yield the runs by what the table calls the editor."""
    ref, loading = ModelRef.split(model, flags.model_options)
    labels: dict[str, str] = {}
    runs = []
    for label, method in methods.items():
        editor = plugins.find("editor", method.editor)
        if editor.name in labels:  # by which a run is known again
            raise PluginError(
                f"{labels[editor.name]} and {label} of the pack are both editor {editor.name}",
                "its author has to put them in runs of their own: runs, editors",
            )
        labels[editor.name] = label
        spec = RunSpec(
            editor=editor.qualified,
            editor_args=_texts(method.args),
            task=plugins.find("task", leg.task).qualified,
            task_args=_texts(leg.args),
            model=ref,
            metrics=leg.metrics,
            judge=leg.judge,
            judge_args=_texts(leg.judge_args),
            seed=flags.seed,
        )
        runs.append(spec)
    todo = running.Todo(
        runs,
        Selection(limit=min((n for n in (leg.limit, flags.limit) if n), default=None)),
        Options(output=flags.output, quiet=flags.quiet, as_json=True),
        build_component(plugins.find("executor", flags.executor), flags.executor_args),
        loading,
        RegimeFlags(edit_mode=leg.mode, edit_batch_size=leg.batch),
    )
    for run in running.run_model(plugins, todo, runs, codes):
        label = labels[run.manifest.identity.editor.name]
        yield label, replace(run, estimated_by=KINDS[flags.interval])


def _texts(args: Mapping[str, Any]) -> dict[str, str]:
    return {k: value if isinstance(value, str) else json.dumps(value) for k, value in args.items()}


SHORT = {WITHIN: "within", OUTSIDE: "OUTSIDE", UNTOLD: "too few", APART: "–"}
ORDERS = {WITHIN: "kept", OUTSIDE: "REVERSED", UNTOLD: "too few", APART: "–"}
MEANING = {
    "values": f"our {LEVEL:.0%} interval and the printed one, as of independent samples, and rounding",
    "orderings": f"tests of the difference over cases, p < {1 - LEVEL:.2g}, not corrected",
    "figures": "a fixed tolerance around figures of the same cases",
}


def table(contents: Contents, model: str, found: Sequence[Compared]) -> Grid:
    """Return what came of a model's numbers: each beside what was printed, or counts of orders."""
    title = f"{contents.table.name}, {model}"
    split = contents.table.split
    heads = [{"task": "Task"}.get(split, "Edited"), "Column"] if split else ["Column"]

    def place(cell: Expected) -> tuple[str, ...]:
        row = contents.table.tasks.get(cell.row, named(cell.row))
        return (row, cell.column) if split else (cell.column,)

    if contents.compares != "orderings":
        rows = [([e.cell.editor, *place(e.cell)], _cells(e, contents.compares)) for e in found]
        return Grid(title, ["Editor", *heads], ["printed", "ours", "n", ""], rows)
    counts: dict[tuple[str, ...], Counter[str]] = {}
    for each in found:
        counts.setdefault(place(each.cell), Counter())[each.verdict] += 1
    orders = [(names, [Cell(str(own[v])) for v in ORDERS]) for names, own in counts.items()]
    return Grid(f"{title}: which editor is above which", heads, list(ORDERS.values()), orders)


def _cells(each: Compared, compares: str) -> list[Cell]:
    cell, ours, short = each.cell, each.ours, Cell(SHORT[each.verdict])
    printed = Cell(_printed(cell), _ends(cell.low, cell.high, cell.places))
    if ours is None:
        return [printed, Cell("–"), Cell(""), short]
    ends = _ends(ours.low, ours.high, cell.places) if compares == "values" else ""
    return [printed, Cell(_number(ours.value, cell.places), ends), Cell(f"{ours.n:,}"), short]


def _printed(cell: Expected) -> str:
    return f"{cell.value:.2g}" if cell.places > 5 else f"{cell.value:.{cell.places}f}"


def _number(value: float | None, places: int) -> str:
    """Return a number with the digits that were printed and one more; very small ones with three."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.3g}" if places > 5 else f"{value:.{places + 1}f}"


def _ends(low: float | None, high: float | None, places: int) -> str:
    if low is None or high is None or math.isnan(low):
        return ""
    return f"{_number(low, places)} – {_number(high, places)}"


def remarks(report: Reproduction, found: Sequence[Compared]) -> Iterator[tuple[str, str]]:
    """Yield what came out in words, as labels and lines: what is outside, and what qualifies it all."""
    contents = report.contents
    yield from (("outside", _how(each)) for each in found if each.verdict == OUTSIDE)
    words = ORDERS if contents.compares == "orderings" else SHORT
    counts = Counter(each.verdict for each in found)
    text = ", ".join(f"{counts[v]} {words[v].lower()}" for v in (WITHIN, OUTSIDE))
    yield "in all", f"{text}, {counts[UNTOLD]} {UNTOLD}, {counts[APART]} {APART}"
    yield "by", MEANING[contents.compares]
    for reason, many in Counter(e.ruling.why for e in found if e.verdict == APART).items():
        yield "–", f"{many} not comparable: {reason}"
    for doubt, many in Counter(doubt for each in found for doubt in each.cell.doubts).items():
        yield "doubt", f"{counted(many, 'number')}: {doubt}"
    for i, line in enumerate(contents.differs):
        yield "" if i else "differs", line


def _how(each: Compared) -> str:
    cell = each.cell
    row = f", {named(cell.row)}" if cell.row else ""
    place = f"{cell.editor} on {cell.model}{row}, {cell.column}"
    ours, below = (
        _number(e.value if e else None, cell.places) for e in (each.ours, each.below_ours)
    )
    if each.below:
        over = f"{place}: printed above {each.below.editor}"
        return (
            f"{over} ({cell.value:g} and {each.below.value:g}), and is below ({ours} and {below})"
        )
    return f"{place}: printed {_printed(cell)}, ours {ours}, and ± {each.ruling.tolerance:.2g} is allowed"


def as_data(report: Reproduction, found: Sequence[Compared]) -> dict[str, Any]:
    """Return what came out, JSON-ready."""
    contents = report.contents
    return {
        "pack": contents.name,
        "table": contents.table.name,
        "paper": contents.paper,
        "compares": contents.compares,
        "verdicts": dict(Counter(each.verdict for each in found)),
        "limit": report.limit,
        "numbers": [_row(each) for each in found],
        "differs": list(contents.differs),
        "runs": sorted(str(run.folder.path) for runs in report.runs.values() for run in runs),
    }


def _row(each: Compared) -> dict[str, Any]:
    cell, below = each.cell, each.below
    told: dict[str, Any] = {"model": cell.model, "editor": cell.editor, "row": cell.row}
    told |= {"column": cell.column, "printed": cell.value, "doubts": list(cell.doubts)}
    if below:
        theirs = {"editor": below.editor, "printed": below.value, **_ours(each.below_ours)}
        told |= {**_ours(each.ours), "below": theirs}
    else:
        told |= {"printed_low": cell.low, "printed_high": cell.high, "printed_n": cell.n or None}
        told |= {**_ours(each.ours), "tolerance": each.ruling.tolerance}
    return told | {"verdict": each.verdict, "why": each.ruling.why}


def _ours(ours: Estimate | None) -> dict[str, float | None]:
    if ours is None:
        return dict.fromkeys(("ours", "low", "high", "n"))
    return {"ours": ours.value, "low": ours.low, "high": ours.high, "n": ours.n}
