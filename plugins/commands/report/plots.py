"""The plots of pages: matplotlib's SVG as a part of the page, in the colours of its style sheet.

A page lets no style in but its own, so each style of matplotlib becomes attributes, and each colour
a variable of the style sheet, which knows light and dark. What a plot shows stands in a table too.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from edit_harness.interfaces import Measure
from edit_harness.run.report import HUNDREDTHS, Line, Point, show
from edit_harness.stats import Estimate

from .boards import Board
from .figures import axis, times_of
from .layouts import directed
from .templates import clipped, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EFFICACY = ("efficacy",)
SPECIFICITY = ("neighborhood-plus", "neighborhood", "relation-specificity", "attribute")
"""Roles of probes of what an edit is to change and what it is not, the hardest first."""
WIDTH, ROW = 540, 30
NAME = 24
"""Characters of a name in a plot."""
LETTER = 9.5
"""Pixels of a letter on a narrow screen, where the style sheet enlarges letters."""
COLOURS = ("#0000a0", "#0000a1", "#0000a2", "#0000a3", "#0000a4", "#0000a5")
INK, QUIET, LINE, PAPER = "#0000b0", "#0000b1", "#0000b2", "#0000b3"
VARIABLES = {colour: f"var(--s{i})" for i, colour in enumerate(COLOURS)} | {
    INK: "var(--ink)", QUIET: "var(--quiet)", LINE: "var(--line)", PAPER: "var(--paper)",
}  # fmt: skip
"""The style sheet's colours by those that stand for them while matplotlib draws."""
STYLE: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "edit-harness", "text.parse_math": False,
    "font.size": 13, "text.color": INK, "axes.labelcolor": QUIET, "axes.labelsize": 12,
    "axes.grid": True, "grid.color": LINE, "grid.linewidth": 1, "axes.axisbelow": True,
    "axes.facecolor": "none", "figure.facecolor": "none",
    "xtick.color": QUIET, "ytick.color": QUIET, "xtick.labelsize": 12, "ytick.labelsize": 12,
    "xtick.major.size": 0, "ytick.major.size": 0, "xtick.major.pad": 6, "ytick.major.pad": 6,
    **{f"axes.spines.{side}": False for side in ("left", "right", "top", "bottom")},
}  # fmt: skip
UNDATED = {"Date": None, "Creator": None, "Format": None, "Type": None}


def _plot(
    draw: Callable[[Axes], None], title: str, height: int, left: float, right: float
) -> Markup:
    """Return what is drawn as an element; the axes leave room to the left and to the right."""
    import matplotlib
    from matplotlib.figure import Figure

    file = io.StringIO()
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # The page's font may have the characters that matplotlib's lacks.
        warnings.filterwarnings("ignore", message="Glyph")
        figure = Figure(figsize=(WIDTH / 72, height / 72), dpi=72)
        room = 1 - (left + right) / WIDTH, 1 - 64 / height
        draw(figure.add_axes((left / WIDTH, 40 / height, *room)))
        figure.savefig(file, format="svg", metadata=UNDATED)
    svg = " ".join(file.getvalue().split())
    body = re.sub("<[^<>]*>", _tag, svg[svg.index("<g ") : svg.rindex("</g>") + 4])
    head = f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">'
    return Markup(f"{head}<title>{escape(visible(clipped(title, 400)))}</title>{body}</svg>")


def _tag(found: re.Match[str]) -> str:
    """Return a tag with attributes for its style; without clips, and with no id but of markers."""
    tag = re.sub(r' (?:id="[\w.]+_\d+"|clip-path="[^"]*")', "", found[0])
    return re.sub(r' style="([^"]*)"', _attributes, tag)


def _attributes(style: re.Match[str]) -> str:
    pairs = (pair.partition(": ") for pair in style[1].split("; "))
    kept = (
        (name, VARIABLES.get(value, value)) for name, _, value in pairs if name != "font-family"
    )
    return "".join(f' {name}="{value}"' for name, value in kept)


def _name(text: str) -> str:
    return visible(clipped(text, NAME)).replace("\n", " ")


def _extent(measure: Measure, values: Sequence[float], whole: bool) -> tuple[float, float]:
    """Return the ends of an axis: all that there can be of a share, or a little more than there is."""
    low, high = min(values), max(values)
    if whole and measure.unit == "%":
        return (-100.0 if low < 0 else 0.0), 100.0
    least_room = 5.0 if measure.unit in HUNDREDTHS else max(abs(high) * 0.1, 0.01)
    room = max((high - low) * 0.12, least_room)
    least, most = (limit * times_of(measure) for limit in measure.limits)
    return max(low - room, least), min(high + room, most)


def _ends(estimate: Estimate | None, measure: Measure) -> list[float]:
    """Return a value and the ends of its interval, in the unit that is shown; empty if not finite.

    Without an interval the ends are the value.
    """
    if estimate is None or not math.isfinite(estimate.value):
        return []
    ends = [estimate.value, estimate.low, estimate.high]
    ends = ends if all(map(math.isfinite, ends)) else ends[:1] * 3
    return [times_of(measure) * end for end in ends]


def dumbbells(rows: Sequence[Line]) -> list[Markup]:
    """Return plots of measures before and after, with intervals: one for each unit."""
    drawn = [row for row in rows if _ends(row.after, row.measure)]
    units = dict.fromkeys(row.measure.unit for row in drawn)
    return [_dumbbell([row for row in drawn if row.measure.unit == unit], unit) for unit in units]


def _dumbbell(rows: Sequence[Line], unit: str) -> Markup:
    sides = [(_ends(r.before, r.measure)[:1], _ends(r.after, r.measure)) for r in rows]
    values = [0.0, *(value for before, after in sides for value in (*before, *after))]
    names = [directed(_name(row.name), row.measure.better) for row in rows]

    def draw(ax: Axes) -> None:
        ax.set(xlim=_extent(rows[0].measure, values, whole=True), ylim=(len(rows) - 0.5, -0.5))
        ax.set_yticks(range(len(rows)), names, color=INK, fontsize=13)
        ax.yaxis.grid(False)
        ax.axvline(0, color=QUIET, linewidth=1)
        ax.set_xlabel(unit)
        for y, (row, (before, (value, low, high))) in enumerate(zip(rows, sides, strict=True)):
            ax.hlines(y, low, high, color=COLOURS[0], linewidth=7, alpha=0.28)
            for was in before:
                ax.hlines(y, was, value, color=QUIET, linewidth=1.25, alpha=0.6)
                ax.plot(was, y, "o", markersize=9, mfc=PAPER, mec=QUIET, mew=1.75)
            ax.plot(value, y, "o", color=COLOURS[0], markersize=10)
            ax.annotate(show(row.after, row), (1, y), (70, 0), ("axes fraction", "data"),
                        "offset points", va="center", ha="right", weight="bold")  # fmt: skip

    left = 20 + LETTER * max(map(len, names))
    title = f"Before and after the edit, {unit or 'as measured'}"
    return _plot(draw, title, 64 + ROW * len(rows), left, 74)


def scatter(board: Board) -> Markup | None:
    """Return runs by efficacy and specificity, with their intervals; None if none has both."""
    x, y = (_measured(board, roles) for roles in (EFFICACY, SPECIFICITY))
    placed = [
        (row, across, up)
        for row in board.rows
        if x in row.lines and y in row.lines
        if (across := _ends(row.lines[x].after, board.columns[x]))
        and (up := _ends(row.lines[y].after, board.columns[y]))
    ]
    if not placed:
        return None
    names = [axis(name, board.columns[name]) for name in (x, y)]
    models = list(dict.fromkeys(row.model for row, *_ in placed))

    def draw(ax: Axes) -> None:
        xs, ys = ([end for _, *ends in placed for end in ends[i]] for i in (0, 1))
        ax.set_xlim(_extent(board.columns[x], xs, whole=False))
        ax.set_ylim(_extent(board.columns[y], ys, whole=False))
        ax.set(xlabel=names[0], ylabel=names[1])
        taken: list[tuple[float, float]] = []
        for row, across, up in placed:
            colour = COLOURS[models.index(row.model) % len(COLOURS)]
            _cross(ax, across, up, colour, 1.0 if row.entrant.trusted else 0.35)
            label = row.entrant.run.label + (f" · {row.model}" if len(models) > 1 else "")
            _beside(ax, across[0], up[0], label, taken)

    return _plot(draw, f"{names[1]} against {names[0]}", 360, 60, 70)


def _measured(board: Board, roles: Sequence[str]) -> str:
    """Return the first measure that is of probes of one of the roles alone; empty if none is."""
    found = (
        n for role in roles for n, m in board.columns.items() if m.better and m.probes == (role,)
    )
    return next(found, "")


def _cross(ax: Axes, x: Sequence[float], y: Sequence[float], colour: str, alpha: float) -> None:
    """Draw a point with its intervals across and up."""
    ax.hlines(y[0], x[1], x[2], color=colour, linewidth=1.5, alpha=0.55 * alpha)
    ax.vlines(x[0], y[1], y[2], color=colour, linewidth=1.5, alpha=0.55 * alpha)
    ax.plot(x[0], y[0], "o", color=colour, markersize=9, alpha=alpha)


def _beside(
    ax: Axes, x: float, y: float, label: str, taken: list[tuple[float, float]], colour: str = INK
) -> None:
    """Write a label beside a point, moved down until it is clear of those that are there."""
    px, py = ax.transData.transform((x, y))
    right = px < WIDTH - 160 or colour != INK
    across, up = (9 if right else -9), 7
    while any(abs(px + across - tx) < 110 and abs(py + up - ty) < 16 for tx, ty in taken):
        up -= 16
    taken.append((px + across, py + up))
    ax.annotate(_name(label), (x, y), (across, up), textcoords="offset points", color=colour,
                ha="left" if right else "right")  # fmt: skip


def curves(points: Sequence[Point], rows: Sequence[Line]) -> Markup | None:
    """Return measures of shares along a sequence; None where it has fewer than two points."""
    kept = [row for row in rows if row.measure.unit == "%" and not row.measure.detail]
    kept = [row for row in kept if all(f"post_{row.name}" in p.estimates for p in points)]
    found = [
        [
            (p.state, ends)
            for p in points
            if (ends := _ends(p.estimates[f"post_{r.name}"], r.measure))
        ]
        for r in kept[: len(COLOURS)]
    ]
    if len(points) < 2 or not any(found):
        return None
    values = [0.0, *(end for curve in found for _, ends in curve for end in ends)]

    def draw(ax: Axes) -> None:
        ax.set_xlim(0, points[-1].state)
        ax.set_ylim(_extent(kept[0].measure, values, whole=True))
        ax.set_xlabel("edits so far")
        ax.locator_params(axis="x", integer=True)
        taken: list[tuple[float, float]] = []
        for colour, row, curve in zip(COLOURS, kept, found, strict=False):
            ax.plot([state for state, _ in curve], [ends[0] for _, ends in curve], color=colour)
            for state, ends in curve:
                _cross(ax, [state] * 3, ends, colour, 1.0)
            if curve:
                _beside(ax, curve[-1][0], curve[-1][1][0], row.name, taken, colour)

    return _plot(draw, "Along the sequence, %", 310, 46, 90)
