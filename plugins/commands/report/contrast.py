"""The figure of WILD: each editor under teacher forcing and in the wild, as two points with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edit_harness.errors import UsageError, one_line

from . import heatmaps, written
from .formats import Grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TASKS = {
    "qaedit": "QAEdit", "zsre": "zsRE", "zsre-alt": "zsRE, alt", "counterfact": "CounterFact",
    "counterfactplus": "CounterFact+", "wikibigedit": "WikiBigEdit",
}  # fmt: skip
QUESTIONS = {f"{t}[both{m}]": f"{name}{m}" for m in ("", " qa_inst") for t, name in TASKS.items()}
"""The tasks that can be asked by both protocols, as tables call them."""
BOTH = "WILD, both protocols"
WILD = {
    "Rel": {"teacher-forced": "ET", "wild": "Rel-EM", "difference": "Rel-gap"},
    "Gen": {"teacher-forced": "PT", "wild": "Gen-EM", "difference": "Gen-gap"},
}
"""Measures of both protocols, and how far they are apart: on the edited prompt, and on its rephrasings."""
COLUMNS = {f"{role} {head}": name for role, own in WILD.items() for head, name in own.items()}
SERIES = (("teacher-forced", "#083c6e", "full", -0.12), ("wild", heatmaps.BEST, "none", 0.12))
"""What is drawn of each editor: its colour, how its point is filled, and how far it stands beside the middle."""
PROMPTS = dict(zip(WILD, ("the edited prompt", "its rephrasings"), strict=True))


def write(grids: Sequence[Grid], name: str) -> None:
    """Write the figure of the papers' tables, a row of panels for each of WILD, as the name ends.

    Raises `UsageError` if none of them is WILD's or without matplotlib, and `ResourceError`.
    """
    heatmaps.check(name)
    drawn = [grid for grid in grids if grid.data and grid.data[0].get("table") == BOTH]
    if not drawn:
        cause = "a figure shows both protocols of answering, and no run has both"
        raise UsageError(cause, "make one: edit-harness --task qaedit")
    with written(name, "name another place: --output FILE"):
        _draw(drawn, Path(name).expanduser())


def _draw(grids: Sequence[Grid], path: Path) -> None:
    import matplotlib
    from matplotlib.figure import Figure

    rows = max(len(grid.rows) for grid in grids)
    with matplotlib.rc_context(heatmaps.STYLE):
        figure = Figure(figsize=(8.0, len(grids) * (0.35 * rows + 1.4)), layout="constrained")
        axes = figure.subplots(len(grids), 2, squeeze=False, sharey="row", sharex=True)
        for grid, own in zip(grids, axes, strict=True):
            for role, ax in zip(WILD, own, strict=True):
                _panel(ax, grid, role)
            own[0].set_title(f"{grid.data[0]['task']}: {PROMPTS['Rel']}", loc="left", fontsize=9)
        handles = axes[0, 0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside upper right", ncols=2, frameon=False, fontsize=8)
        heatmaps.save(figure, path)


def _panel(ax: Axes, grid: Grid, role: str) -> None:
    names = [", ".join(filter(None, own)) for own, _ in grid.rows]
    for head, colour, fill, beside in SERIES:
        found = [each for each in grid.data if each["column"] == f"{role} {head}"]
        ends = [
            [100 * abs(each["estimate"] - each[end]) for each in found] for end in ("low", "high")
        ]
        ax.errorbar(
            [100 * each["estimate"] for each in found],
            [names.index(each["row"]) + beside for each in found],
            xerr=ends, fmt="o", color=colour, fillstyle=fill, capsize=3, label=head,
        )  # fmt: skip
    ax.set_yticks(range(len(names)), list(map(one_line, names)))
    ax.set_title(PROMPTS[role], loc="left", fontsize=9)
    ax.set(xlabel="%", xlim=(-3, 103))
    if not ax.yaxis_inverted():
        ax.invert_yaxis()
