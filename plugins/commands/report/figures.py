"""The papers' figures, with the numbers of `typesetting`: SVG and PNG, the same bytes every time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edit_harness.errors import UsageError
from edit_harness.run.estimates import LEVEL
from edit_harness.run.report import HUNDREDTHS
from edit_harness.run.results import Results

from . import written
from .facts import grouped
from .layouts import directed
from .papers import COUNTERFACT, KINDS, PRINTED, Printed, named
from .subsets import Subsets
from .typesetting import Filled, Number, Row, filled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442", "#999999")
"""Of Okabe and Ito: people with any colour blindness tell them apart."""
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "||||", "oooo", "----")
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
NOTE = f"{LEVEL:.0%} intervals"
INSTALL = "pip install 'edit-harness[figures]'"


def check() -> None:
    """Raise `UsageError` if nothing can be drawn."""
    if find_spec("matplotlib") is None:
        raise UsageError("figures need matplotlib", INSTALL)


def draw(runs: Sequence[Results], folder: Path) -> tuple[list[Path], list[str]]:
    """Draw what runs have numbers for; return the files, and a line for each figure left out.

    Raises `UsageError` without matplotlib, `ResourceError` if the folder cannot be written.
    """
    check()
    import matplotlib

    every = [Subsets(run) for run in runs]
    beside = [table for table in PRINTED if table.tasks == COUNTERFACT]
    wanted = {"counterfact": (_beside(beside, every), f"no run of {' or '.join(COUNTERFACT)}")}
    for kind in KINDS:
        tables = [table for table in PRINTED if table.groups == (kind,)]
        wanted[f"seesaw-{kind}"] = _groups(tables, every), f"no run has D by {kind}"
    paths: list[Path] = []
    missing: list[str] = []
    with matplotlib.rc_context(STYLE):
        for name, (figures, wanting) in wanted.items():
            drawn = list(figures)
            for i, figure in enumerate(drawn):
                paths += _saved(figure, folder, f"{name}-{i + 1}" if i else name)
            if not drawn:
                missing.append(f"figure {name}: {wanting}")
    return paths, missing


def _saved(figure: Figure, folder: Path, stem: str) -> Iterator[Path]:
    """Write a picture in both formats, and yield the files."""
    with written(folder, "name another place: --figures DIR"):
        folder.mkdir(parents=True, exist_ok=True)
        for suffix, metadata in (("svg", {"Date": None}), ("png", {"Software": None})):
            path = folder / f"{stem}.{suffix}"
            figure.savefig(path, dpi=DOTS, metadata=metadata)
            yield path


def _new(
    rows: int, columns: int, width: float, height: float, title: str
) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure as New

    figure = New(figsize=(width, height), layout="constrained")
    figure.suptitle(title, fontsize=10)
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def _legend(figure: Figure, ax: Axes) -> Figure:
    """Put one legend for all panels below them."""
    handles, labels = ax.get_legend_handles_labels()
    columns = min(len(labels), 6)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    return figure


def _by_model(found: Sequence[Filled]) -> Iterator[tuple[str, list[tuple[Filled, str, list[Row]]]]]:
    """Yield each model with the blocks of rows that have a number of it, and what these are of."""
    for model in dict.fromkeys(row.names[0] for each in found for row in each.rows):
        blocks = [
            (each, value, [row for row in rows if row.names[0] == model])
            for each in found
            for value, rows in each.blocks
        ]
        yield model, [block for block in blocks if any(any(row.numbers) for row in block[2])]


def _beside(tables: Sequence[Printed], every: Sequence[Subsets]) -> Iterator[Figure]:
    """Yield for each model, precision, regime and data CounterFact's measures beside CounterFact+'s."""
    tables_of = [each for table in tables for each in filled(table, every)]
    for found in grouped(tables_of, lambda each: each.kind):
        for model, panels in _by_model(found):
            title = f"{model}: CounterFact beside CounterFact+ ({NOTE})\n{found[0].kind}"
            width = max(2.2, 0.6 * max(len(rows) for *_, rows in panels) + 1.2)
            figure, axes = _new(1, len(panels), width * len(panels), 3.6, title)
            for ax, (each, _, rows) in zip(axes, panels, strict=True):
                series = {c.head: [r.numbers[i] for r in rows] for i, c in enumerate(each.columns)}
                _bars(ax, [" ".join(row.names[1:]) for row in rows], series, each)
            yield _legend(figure, axes[0])


def _groups(tables: Sequence[Printed], every: Sequence[Subsets]) -> Iterator[Figure]:
    """Yield for each model the change of D by group of people, a panel for each edited property."""
    for found in (each for table in tables for each in filled(table, every)):
        for model, panels in _by_model([found]):
            title = f"{model}: {found.table.shows}\n({NOTE}; a bar without one is of one case)"
            width = max(4.5, 0.32 * len(found.columns) * len(panels[0][2]) + 1.5)
            figure, axes = _new(len(panels), 1, width, 1.7 * len(panels) + 0.8, title)
            for ax, (_, value, rows) in zip(axes, panels, strict=True):
                series = {" ".join(row.names[1:]): row.numbers for row in rows}
                _bars(ax, [column.head for column in found.columns], series, found)
                ax.set_title(f"{named(value)} edited", loc="left", fontsize=9)
                ax.set_ylabel("D_d ↑")
                if ax is not axes[-1]:
                    ax.set_xticklabels([])
            yield _legend(figure, axes[0])


def _bars(
    ax: Axes,
    places: Sequence[str],
    series: Mapping[str, Sequence[Number | None]],
    found: Filled,
) -> None:
    """Draw bars side by side for every place, one of each series, in the unit that tables show."""
    names = list(found.table.measures.values())
    measure = next(m for each in found.some for name in names if (m := each.measure(name)))
    times = 100 if measure.unit in HUNDREDTHS else 1
    width = WIDTH / len(series)
    for i, (name, numbers) in enumerate(series.items()):
        there = [(x, number.estimate) for x, number in enumerate(numbers) if number]
        centres = [x + (i - (len(series) - 1) / 2) * width for x, _ in there]
        low = [max(times * (e.value - e.low), 0.0) for _, e in there]
        high = [max(times * (e.high - e.value), 0.0) for _, e in there]
        ax.bar(centres, [times * e.value for _, e in there], width, yerr=[low, high], label=name,
               color=COLOURS[i % len(COLOURS)], hatch=HATCHES[i % len(HATCHES)], **BARS)  # fmt: skip
    turned = sum(map(len, places)) > 8 * len(places) or len(places) > 5
    ax.set_xticks(range(len(places)), places, rotation=45 if turned else 0,
                  ha="right" if turned else "center", rotation_mode="anchor")  # fmt: skip
    # All places have room, those without a bar too: panels stand under each other.
    ax.set_xlim(-0.5, len(places) - 0.5)
    ax.axhline(0, color="black", linewidth=0.8)
    ax.grid(axis="y", linewidth=0.3)
    unit = f", {measure.unit}" if measure.unit else ""
    ax.set_ylabel(directed(names[0], measure.better) + unit)
