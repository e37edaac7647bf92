"""Heat maps for a terminal, as a page and as an image: one hue, and readable without any colour."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType

from edit_harness import files
from edit_harness.errors import UsageError, one_line, printable

from . import templates, written
from .facts import grouped
from .formats import Cell, Grid, Row, rich

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

STYLE: Any = {"svg.hashsalt": "edit-harness", "text.parse_math": False, "font.size": 9}
STYLE |= {"axes.spines.top": False, "axes.spines.right": False}
DOTS = 150
"""Dots of a PNG in an inch."""
IMAGES = (".png", ".svg", ".pdf")
"""How the name of an image ends."""
PALE, DARK = (246, 249, 252), (8, 60, 110)
"""The ends of the scale, as red, green and blue."""
TURN = 0.66
"""How dark a cell is whose number turns from black to white; either has a contrast of 4.5 or so there."""
BEST = "#d1480b"
"""What the best number is outlined in; it stands out from both ends of the scale."""
STEPS = 20
"""Shades on a page."""
MOST = 24
"""Columns of a map above which an image leaves their numbers out, and names every fourth."""


def check(name: str = "") -> None:
    """Raise `UsageError` if nothing can be drawn, or not as a name's end says."""
    if name and Path(name).suffix.lower() not in IMAGES:
        known = ", ".join(IMAGES)
        raise UsageError(f"the name {name} tells no kind of image", f"end it with {known}")
    if find_spec("matplotlib") is None:
        raise UsageError("figures need matplotlib", "pip install 'edit-harness[figures]'")


@dataclass(frozen=True)
class HeatMap:
    """Numbers by rows and columns; None, and whatever is not finite, is shown as missing.

    ``form`` is how a number is written, as `format` takes it; ``x`` and ``y`` name the axes. The
    scale goes from ``least`` to ``most``, so that several maps can have one; without them, from
    the map's least number to its largest.
    """

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]
    x: str
    y: str
    form: str = ".2f"
    least: float | None = None
    most: float | None = None
    best: tuple[int, int] | None = None
    """The row and the column of the cell that is outlined."""

    @property
    def scale(self) -> tuple[float, float]:
        """The numbers that are palest and darkest."""
        there = [v for row in self.values for v in row if v is not None and math.isfinite(v)]
        least = min(there, default=0.0) if self.least is None else self.least
        most = max(there, default=0.0) if self.most is None else self.most
        return least, most

    @property
    def key(self) -> str:
        """What the shades mean."""
        least, most = map(self.text, self.scale)
        key, (y, x) = f"pale {least}, dark {most}", self.best or (0, 0)
        return f"{key}; underlined {self.text(self.values[y][x])}" if self.best else key

    def text(self, value: float | None) -> str:
        """Return a number as it is shown."""
        return "–" if value is None or not math.isfinite(value) else format(value, self.form)

    def shade(self, value: float | None) -> float | None:
        """Return how dark a number is, from 0 to 1; None if it is missing."""
        if value is None or not math.isfinite(value):
            return None
        least, most = self.scale
        return min(max((value - least) / (most - least), 0.0), 1.0) if most > least else 0.0


def terminal(heat: HeatMap, width: int = 80) -> RenderableType:
    """Return a map for a terminal of some columns: every number on its shade."""
    rows: list[Row] = []
    for y, (name, own) in enumerate(zip(heat.rows, heat.values, strict=True)):
        cells = [Cell(heat.text(v), style=_style(heat, y, x)) for x, v in enumerate(own)]
        rows.append(([one_line(name)], cells))
    notes = [f"{one_line(heat.x)} from left to right; {heat.key}"]
    columns = [one_line(name) for name in heat.columns]
    grid = Grid(printable(heat.title), [one_line(heat.y)], columns, rows, notes)
    return Group(*rich([grid], width))


def _style(heat: HeatMap, y: int, x: int) -> str:
    shade, best = heat.shade(heat.values[y][x]), " bold underline" * (heat.best == (y, x))
    return "" if shade is None else f"{_ink(shade)} on {_colour(shade)}{best}"


def _colour(shade: float) -> str:
    mixed = (round(p + (d - p) * shade) for p, d in zip(PALE, DARK, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _ink(shade: float) -> str:
    return "#ffffff" if shade > TURN else "#000000"


def page(maps: Sequence[HeatMap], title: str, lines: Sequence[str] = ()) -> str:
    """Return one HTML page of maps that opens anywhere, with lines of text above them."""
    rules = [
        f".s{i} {{ background: {_colour(i / STEPS)}; color: {_ink(i / STEPS)}; }}"
        for i in range(STEPS + 1)
    ]
    inner = templates.inlined("\n".join([templates.asset(templates.STYLE), *rules]))
    return templates.page(
        "heat.jinja", title=title, lines=lines, maps=maps, steps=STEPS, most=MOST, **inner
    )


def write(
    html: str | None,
    png: str | None,
    maps: Sequence[HeatMap],
    title: str,
    lines: Iterable[tuple[str, str]],
) -> list[str]:
    """Write the page and the image that are asked for, and return their names.

    Raises `ResourceError`, and `UsageError` for an image without matplotlib.
    """
    told = [f"{label}: {text}" for label, text in lines]
    for name in filter(None, (html, png)):
        with written(name, "name another file"):
            if name is html:
                files.put(Path(name).expanduser(), page(maps, title, told).encode())
            else:
                image(maps, Path(name).expanduser(), title)
    return [name for name in (html, png) if name]


def image(maps: Sequence[HeatMap], path: Path, title: str = "") -> None:
    """Write maps below each other, as the name ends. Raises `UsageError` without matplotlib."""
    check()
    import matplotlib
    from matplotlib.figure import Figure

    heights = [0.3 * len(heat.rows) + 1.1 for heat in maps]
    across = max((len(heat.columns) for heat in maps), default=1)
    width = 3.5 + (0.42 if across <= MOST else 0.14) * across
    # A token may have a character that the font lacks; a box stands for it.
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        figure = Figure(figsize=(max(width, 5.0), sum(heights) + 0.4), layout="constrained")
        figure.suptitle(one_line(title), x=0.01, ha="left", fontsize=11)
        axes = figure.subplots(len(maps), 1, squeeze=False, gridspec_kw={"height_ratios": heights})
        drawn = [_panel(ax, heat) for ax, heat in zip(axes.flat, maps, strict=True)]
        # Maps of one scale have one bar.
        for some in grouped(range(len(maps)), lambda i: maps[i].scale):
            bar = figure.colorbar(drawn[some[0]], ax=axes[some, 0], fraction=0.05, aspect=25)
            bar.outline.set_visible(False)
        save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Write a figure as the name ends: neither when nor by what it was made, so that the same is the same bytes."""
    form = path.suffix.lower()[1:]
    about = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[form]
    figure.savefig(path, format=form, dpi=DOTS, metadata=about)


def _panel(ax: Axes, heat: HeatMap) -> AxesImage:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    shades = LinearSegmentedColormap.from_list("shades", [_colour(0.0), _colour(1.0)])
    cells = [
        [math.nan if heat.shade(v) is None else float(v or 0) for v in row] for row in heat.values
    ]
    least, most = heat.scale
    drawn = ax.imshow(cells, cmap=shades, vmin=least, vmax=most, aspect="auto")
    ax.set_title(one_line(heat.title), loc="left", fontsize=9)
    ax.set_xlabel(one_line(heat.x))
    ax.set_ylabel(one_line(heat.y))
    step = 1 if len(heat.columns) <= MOST else 4
    ax.set_xticks(range(0, len(heat.columns), step), [one_line(n) for n in heat.columns[::step]])
    ax.set_yticks(range(len(heat.rows)), [one_line(name) for name in heat.rows])
    if heat.best:
        y, x = heat.best
        ax.add_patch(Rectangle((x - 0.46, y - 0.46), 0.92, 0.92, fill=False, color=BEST, lw=2))
    for y, row in enumerate(heat.values if step == 1 else ()):
        for x, value in enumerate(row):
            ax.text(x, y, heat.text(value), ha="center", va="center", fontsize=8,
                    color=_ink(heat.shade(value) or 0.0))  # fmt: skip
    return drawn
