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
from edit_harness.run.report import HUNDREDTHS, MeasureRow, show
from edit_harness.stats import Estimate

from .figures import times_of
from .layouts import directed
from .templates import clipped, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, ROW = 540, 30
NAME = 24
"""Characters of a name in a plot."""
LETTER = 9.5
"""Pixels of a letter on a narrow screen, where the style sheet enlarges letters."""
BAR, INK, QUIET, LINE, PAPER = "#0000a0", "#0000b0", "#0000b1", "#0000b2", "#0000b3"
VARIABLES = {
    BAR: "var(--s0)", INK: "var(--ink)", QUIET: "var(--quiet)", LINE: "var(--line)", PAPER: "var(--paper)",
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


def _extent(measure: Measure, values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of an axis: all that there can be of a share, or a little more than there is."""
    low, high = min(values), max(values)
    if measure.unit == "%":
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


def dumbbells(rows: Sequence[MeasureRow]) -> list[Markup]:
    """Return plots of measures before and after, with intervals: one for each unit."""
    drawn = [row for row in rows if _ends(row.after, row.measure)]
    units = dict.fromkeys(row.measure.unit for row in drawn)
    return [_dumbbell([row for row in drawn if row.measure.unit == unit], unit) for unit in units]


def _dumbbell(rows: Sequence[MeasureRow], unit: str) -> Markup:
    sides = [(_ends(r.before, r.measure)[:1], _ends(r.after, r.measure)) for r in rows]
    values = [0.0, *(value for before, after in sides for value in (*before, *after))]
    names = [directed(_name(row.name), row.measure.better) for row in rows]

    def draw(ax: Axes) -> None:
        ax.set(xlim=_extent(rows[0].measure, values), ylim=(len(rows) - 0.5, -0.5))
        ax.set_yticks(range(len(rows)), names, color=INK, fontsize=13)
        ax.yaxis.grid(False)
        ax.axvline(0, color=QUIET, linewidth=1)
        ax.set_xlabel(unit)
        for y, (row, (before, (value, low, high))) in enumerate(zip(rows, sides, strict=True)):
            ax.hlines(y, low, high, color=BAR, linewidth=7, alpha=0.28)
            for was in before:
                ax.hlines(y, was, value, color=QUIET, linewidth=1.25, alpha=0.6)
                ax.plot(was, y, "o", markersize=9, mfc=PAPER, mec=QUIET, mew=1.75)
            ax.plot(value, y, "o", color=BAR, markersize=10)
            ax.annotate(show(row.after, row), (1, y), (70, 0), ("axes fraction", "data"),
                        "offset points", va="center", ha="right", weight="bold")  # fmt: skip

    left = 20 + LETTER * max(map(len, names))
    title = f"Before and after the edit, {unit or 'as measured'}"
    return _plot(draw, title, 64 + ROW * len(rows), left, 74)
