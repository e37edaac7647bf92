"""The papers' figures, drawn from runs: as SVG for print and as PNG, the same bytes every time.

Their numbers are those of the tables (`edit_harness_plugins.commands.report.typesetting`). Colours are told apart by the
colour-blind, and hatches on paper. Needs matplotlib, the extra ``figures``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edit_harness.errors import ResourceError, UsageError
from edit_harness.interfaces import Measure
from edit_harness.run.estimates import LEVEL
from edit_harness.run.outcome import Run
from edit_harness.run.report import DIRECTION, HUNDREDTHS
from edit_harness.stats import Estimate

from .layouts import facts
from .papers import COUNTERFACT, KINDS, PRINTED, Printed, named
from .ranking import Number, Row
from .subsets import Subsets
from .typesetting import UNEDITED, Filled, filled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442", "#999999")
"""Of Okabe and Ito, told apart by people with any colour blindness."""
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "||||", "oooo", "----")
MARKERS = "osD^vP*X"
STYLE: Any = {
    "svg.hashsalt": "edit-harness",
    "text.parse_math": False,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "hatch.linewidth": 0.5,
}
BARS: Mapping[str, Any] = {
    "edgecolor": "black",
    "linewidth": 0.5,
    "error_kw": {"elinewidth": 0.8, "capsize": 2},
}
WIDTH = 0.8
"""What the bars of one place take of the room between two places."""
DOTS = 150
"""Dots of the PNG in an inch."""
ALIKE = ("Task", "Version", "Data", "Precision", "Mode", "Seed")
"""What runs have in common that a line may join."""
NOTE = f"{LEVEL:.0%} intervals"


def draw(runs: Sequence[Run], folder: Path) -> tuple[list[Path], list[str]]:
    """Draw what runs have numbers for; return the files, and a line for each figure left out.

    Raises `UsageError` without matplotlib, `ResourceError` if the folder cannot be written.
    """
    check()
    import matplotlib

    every = [Subsets(run) for run in runs]
    paths: list[Path] = []
    missing: list[str] = []
    with matplotlib.rc_context(STYLE):
        for name, figures, wanting in _figures(every):
            found = list(figures)
            paths += [p for each in found for p in _saved(each, folder, name, found.index(each))]
            if not found:
                missing.append(f"figure {name}: {wanting}")
    return paths, missing


def check() -> None:
    """Raise `UsageError` if nothing can be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError("figures need matplotlib", "pip install 'edit-harness[figures]'") from None


def _figures(every: Sequence[Subsets]) -> Iterator[tuple[str, Iterator[Figure], str]]:
    """Yield each figure's name, its pictures, one for each model, and what it needs."""
    beside = [table for table in PRINTED if table.tasks == COUNTERFACT]
    yield "counterfact", _beside(beside, every), f"no run of {' or '.join(COUNTERFACT)}"
    sized = [each for each in every if _size(each)]
    lacking = "" if len(sized) == len(every) else ", and not all runs say how many parameters"
    yield "size", _sizes(sized), f"runs of two models of one task or more are needed{lacking}"
    for kind in KINDS:
        tables = [table for table in PRINTED if table.groups == (kind,)]
        yield f"seesaw-{kind}", _groups(tables, every), f"no run has D by {kind}"


def _saved(figure: Figure, folder: Path, name: str, number: int) -> Iterator[Path]:
    """Write a picture in both formats, and yield the files."""
    stem = f"{name}-{number + 1}" if number else name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for suffix, metadata in (("svg", {"Date": None}), ("png", {"Software": None})):
            path = folder / f"{stem}.{suffix}"
            figure.savefig(path, dpi=DOTS, metadata=metadata)
            yield path
    except OSError as error:
        raise ResourceError(
            f"{folder} cannot be written: {error.strerror}", "name another place: --figures DIR"
        ) from None


def _new(rows: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure as New

    figure = New(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def _legend(figure: Figure, ax: Axes) -> None:
    """Put one legend for all panels below them."""
    handles, labels = ax.get_legend_handles_labels()
    columns = min(len(labels), 6)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


def _beside(tables: Sequence[Printed], every: Sequence[Subsets]) -> Iterator[Figure]:
    """Yield for each model, precision, regime and data CounterFact's measures beside CounterFact+'s."""
    kinds: dict[str, list[Filled]] = {}
    for each in (each for table in tables for each in filled(table, every)):
        kinds.setdefault(each.kind, []).append(each)
    for kind, found in kinds.items():
        for model in dict.fromkeys(row.names[0] for each in found for row in _all(each)):
            panels = [(each, [r for r in _all(each) if r.names[0] == model]) for each in found]
            panels = [(each, rows) for each, rows in panels if any(any(r.numbers) for r in rows)]
            yield _panels(panels, f"{model}: CounterFact beside CounterFact+ ({NOTE})\n{kind}")


def _panels(panels: Sequence[tuple[Filled, Sequence[Row]]], title: str) -> Figure:
    count = max(len(rows) for _, rows in panels)
    figure, axes = _new(1, len(panels), max(2.2, 0.6 * count + 1.2) * len(panels), 3.6)
    for ax, (each, rows) in zip(axes, panels, strict=True):
        _bars(ax, [row.names for row in rows], _by_column(each, rows), each)
    _legend(figure, axes[0])
    figure.suptitle(title, fontsize=10)
    return figure


def _all(found: Filled) -> list[Row]:
    return [row for _, rows in found.blocks for row in rows]


def _by_column(found: Filled, rows: Sequence[Row]) -> dict[str, list[Number | None]]:
    return {column.head: [row.numbers[i] for row in rows] for i, column in enumerate(found.columns)}


def _bars(
    ax: Axes,
    places: Sequence[Sequence[str]],
    series: Mapping[str, Sequence[Number | None]],
    found: Filled,
) -> None:
    """Draw bars side by side for every place, one of each series."""
    measure = next(
        m
        for each in found.some
        for name in found.table.measures.values()
        if (m := each.measure(name))
    )
    width = WIDTH / len(series)
    for i, (name, numbers) in enumerate(series.items()):
        there = [(x, n.estimate) for x, n in enumerate(numbers) if n]
        centres = [x + (i - (len(series) - 1) / 2) * width for x, _ in there]
        heights, errors = _heights([estimate for _, estimate in there], measure)
        ax.bar(centres, heights, width, yerr=errors, label=name, color=COLOURS[i % len(COLOURS)],
               hatch=HATCHES[i % len(HATCHES)], **BARS)  # fmt: skip
    labels = [" ".join(names[1:]) or names[0] for names in places]
    turned = sum(map(len, labels)) > 8 * len(labels) or len(labels) > 5
    ax.set_xticks(range(len(labels)), labels, rotation=45 if turned else 0,
                  ha="right" if turned else "center", rotation_mode="anchor")  # fmt: skip
    # All places have room, those without a bar too: panels stand under each other.
    ax.set_xlim(-0.5, len(labels) - 0.5)
    ax.axhline(0, color="black", linewidth=0.8)
    ax.grid(axis="y", linewidth=0.3)
    name = next(iter(found.table.measures.values()))
    ax.set_ylabel(_axis(name, measure))


def _heights(
    estimates: Sequence[Estimate], measure: Measure
) -> tuple[list[float], list[list[float]]]:
    """Return values in the unit that is shown, with the lengths of their error bars."""
    times = 100 if measure.unit in HUNDREDTHS else 1
    values = [times * each.value for each in estimates]
    ends = [(e.value - e.low, e.high - e.value) for e in estimates]
    low, high = ([max(times * end[i], 0.0) for end in ends] for i in (0, 1))
    return values, [low, high]


def _axis(name: str, measure: Measure) -> str:
    unit = f", {measure.unit}" if measure.unit else ""
    return f"{name} {DIRECTION[measure.better]}".strip() + unit


def _size(each: Subsets) -> int:
    """Return the number of the model's parameters; 0 if the manifest has none."""
    return each.run.manifest.model.parameters


def _sizes(every: Sequence[Subsets]) -> Iterator[Figure]:
    """Yield for each task, data, precision, regime and seed the measures against the models' sizes."""
    kinds: dict[tuple[str, ...], list[Subsets]] = {}
    for each in every:
        own = facts(each.run)
        kinds.setdefault(tuple(own[head] for head in ALIKE), []).append(each)
    for (task, version, data, *others), some in kinds.items():
        if len({_size(each) for each in some}) > 1:
            precision, mode, seed = others
            of = f"{task} {version} (data {data}), {precision}, {mode}, seed {seed}"
            yield _by_size(some, f"After the edit, by model size ({NOTE})\n{of}")


def _by_size(some: Sequence[Subsets], title: str) -> Figure:
    measures = {
        name: measure
        for each in some
        for name, measure in each.run.measures.items()
        if not measure.detail and each.after(name)
    }
    columns = min(4, len(measures))
    rows = math.ceil(len(measures) / columns)
    figure, axes = _new(rows, columns, 2.4 * columns, 2.1 * rows + 0.6)
    for ax, (name, measure) in zip(axes, measures.items(), strict=False):
        _lines(ax, some, name, measure)
    for ax in axes[len(measures) :]:
        ax.set_axis_off()
    _legend(figure, axes[0])
    figure.suptitle(title, fontsize=10)
    return figure


def _lines(ax: Axes, some: Sequence[Subsets], name: str, measure: Measure) -> None:
    """Draw a line for each editor, and a dashed one for the unedited models."""
    edited = [each for each in some if not each.unedited]
    for i, label in enumerate(dict.fromkeys(each.run.label for each in edited)):
        own = [(each, each.after(name)) for each in edited if each.run.label == label]
        _line(ax, own, measure, label, color=COLOURS[i % len(COLOURS)],
              marker=MARKERS[i % len(MARKERS)])  # fmt: skip
    unedited: dict[int, Subsets] = {}
    for each in sorted(some, key=lambda each: len(each.cases)):
        if each.before(name):
            unedited[_size(each)] = each
    own = [(each, each.before(name)) for each in unedited.values()]
    _line(ax, own, measure, UNEDITED, color="black", linestyle="--", marker=".")
    sizes = sorted({_size(each) for each in some})
    ax.set_xscale("log")
    ax.set_xticks(sizes, [_short(size) for size in sizes], rotation=45, ha="right")
    ax.minorticks_off()
    ax.set_xlabel("parameters")
    ax.set_ylabel(_axis(name, measure))
    ax.grid(linewidth=0.3)


def _short(count: int) -> str:
    """Return a number of parameters as people say it, such as ``1.6 B``."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g} {letter}"
    return str(count)


def _line(
    ax: Axes,
    own: Sequence[tuple[Subsets, Estimate | None]],
    measure: Measure,
    label: str,
    **style: Any,
) -> None:
    found = sorted(((_size(each), e) for each, e in own if e), key=lambda pair: pair[0])
    heights, errors = _heights([estimate for _, estimate in found], measure)
    ax.errorbar([size for size, _ in found], heights, yerr=errors, label=label, capsize=2,
                markersize=4, linewidth=1, **style)  # fmt: skip


def _groups(tables: Sequence[Printed], every: Sequence[Subsets]) -> Iterator[Figure]:
    """Yield for each model the change of D by group of people, a panel for each edited property."""
    for found in (each for table in tables for each in filled(table, every)):
        for model in dict.fromkeys(row.names[0] for row in _all(found)):
            blocks = [
                (value, [r for r in rows if r.names[0] == model]) for value, rows in found.blocks
            ]
            blocks = [(value, rows) for value, rows in blocks if any(any(r.numbers) for r in rows)]
            width = max(4.5, 0.32 * len(found.columns) * len(blocks[0][1]) + 1.5)
            figure, axes = _new(len(blocks), 1, width, 1.7 * len(blocks) + 0.8)
            for ax, (value, rows) in zip(axes, blocks, strict=True):
                series = {" ".join(row.names[1:]): row.numbers for row in rows}
                _bars(ax, [("", column.head) for column in found.columns], series, found)
                ax.set_title(f"{named(value)} edited", loc="left", fontsize=9)
                ax.set_ylabel("D_d ↑")
                if ax is not axes[-1]:
                    ax.set_xticklabels([])
            _legend(figure, axes[0])
            figure.suptitle(
                f"{model}: {found.table.shows}\n({NOTE}; a bar without one is of one case)",
                fontsize=10,
            )
            yield figure
