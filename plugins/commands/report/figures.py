"""The papers' figures, with the numbers of `typesetting`: SVG and PNG, the same bytes every time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from .papers import COUNTERFACT, PRINTED
from .subsets import Subsets
from .typesetting import Filled, Row, filled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#E69F00")
"""Of Okabe and Ito: people with any colour blindness tell them apart; hatches do on paper."""
HATCHES = ("", "////")
STYLE: Any = {
    "svg.hashsalt": "edit-harness",
    "text.parse_math": False,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "hatch.linewidth": 0.5,
}
WIDTH = 0.8
"""What the bars of one place take of the room between two places."""
DOTS = 150
"""Dots of the PNG in an inch."""


def check() -> None:
    """Raise `UsageError` if nothing can be drawn."""
    if find_spec("matplotlib") is None:
        raise UsageError("figures need matplotlib", "pip install 'edit-harness[figures]'")


def draw(runs: Sequence[Results], folder: Path) -> tuple[list[Path], list[str]]:
    """Draw what runs have numbers for; return the files, and a line for each figure left out.

    Raises `UsageError` without matplotlib, `ResourceError` if the folder cannot be written.
    """
    check()
    import matplotlib

    every = [Subsets(run) for run in runs]
    tables = [table for table in PRINTED if table.tasks == COUNTERFACT]
    found = [each for table in tables for each in filled(table, every)]
    paths: list[Path] = []
    with matplotlib.rc_context(STYLE), written(folder, "name another place: --figures DIR"):
        for i, figure in enumerate(_beside(found)):
            folder.mkdir(parents=True, exist_ok=True)
            for suffix, metadata in (("svg", {"Date": None}), ("png", {"Software": None})):
                paths.append(
                    folder / (f"counterfact-{i + 1}.{suffix}" if i else f"counterfact.{suffix}")
                )
                figure.savefig(paths[-1], dpi=DOTS, metadata=metadata)
    wanting = f"figure counterfact: no run of {' or '.join(COUNTERFACT)}"
    return paths, [] if paths else [wanting]


def _beside(tables: Sequence[Filled]) -> Iterator[Figure]:
    """Yield for each precision, regime, data and model CounterFact's measures beside CounterFact+'s."""
    from matplotlib.figure import Figure as New

    for found in grouped(tables, lambda each: each.kind):
        for model in dict.fromkeys(row.names[0] for each in found for row in each.rows):
            of_model = [(each, [r for r in each.rows if r.names[0] == model]) for each in found]
            panels = [(each, rows) for each, rows in of_model if any(any(r.numbers) for r in rows)]
            width = max(2.2, 0.6 * max(len(rows) for _, rows in panels) + 1.2)
            figure = New(figsize=(width * len(panels), 3.6), layout="constrained")
            title = (
                f"{model}: CounterFact beside CounterFact+ ({LEVEL:.0%} intervals)\n{found[0].kind}"
            )
            figure.suptitle(title, fontsize=10)
            axes = list(figure.subplots(1, len(panels), squeeze=False).flat)
            for ax, (each, rows) in zip(axes, panels, strict=True):
                _bars(ax, each, rows)
            handles, labels = axes[0].get_legend_handles_labels()
            figure.legend(
                handles, labels, loc="outside lower center", ncols=len(labels), frameon=False
            )
            yield figure


def _bars(ax: Axes, found: Filled, rows: Sequence[Row]) -> None:
    """Draw bars side by side for every row, one of each column, in the unit that tables show."""
    names = list(found.table.measures.values())
    measure = next(m for each in found.some for m in map(each.run.measures.get, names) if m)
    times = 100 if measure.unit in HUNDREDTHS else 1
    width = WIDTH / len(found.columns)
    for i, column in enumerate(found.columns):
        there = [(x, n.estimate) for x, row in enumerate(rows) if (n := row.numbers[i])]
        centres = [x + (i - (len(found.columns) - 1) / 2) * width for x, _ in there]
        low = [max(times * (e.value - e.low), 0.0) for _, e in there]
        high = [max(times * (e.high - e.value), 0.0) for _, e in there]
        ax.bar(centres, [times * e.value for _, e in there], width, yerr=[low, high],
               label=column.head, color=COLOURS[i], hatch=HATCHES[i], edgecolor="black",
               linewidth=0.5, error_kw={"elinewidth": 0.8, "capsize": 2})  # fmt: skip
    turned = len(rows) > 5
    places = [" ".join(row.names[1:]) for row in rows]
    ax.set_xticks(range(len(rows)), places, rotation=45 if turned else 0,
                  ha="right" if turned else "center", rotation_mode="anchor")  # fmt: skip
    ax.axhline(0, color="black", linewidth=0.8)
    ax.grid(axis="y", linewidth=0.3)
    unit = f", {measure.unit}" if measure.unit else ""
    ax.set_ylabel(directed(names[0], measure.better) + unit)
