"""Heat maps: tables of numbers with shades, for a terminal, as a page and as an image.

What the numbers are is the commands' matter (`sweep`, `trace`). There is one hue, from pale to
dark, so that nobody needs to tell colours apart, and every form can be read without any colour.
The texts in a map are anybody's.
"""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from rich.cells import cell_len, set_cell_size
from rich.console import Group, RenderableType
from rich.style import Style
from rich.text import Text

from edit_harness.errors import ResourceError
from edit_harness.escapes import one_line, printable
from edit_harness.terminal import plain

from . import figures, templates

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALE, DARK = (246, 249, 252), (8, 60, 110)
"""The ends of the scale, as red, green and blue."""
TURN = 0.66
"""How dark a cell is whose number turns from black to white; either has a contrast of 4.5 or so there."""
STEPS = 20
"""Shades on a page."""
GLYPHS = " ·░▒▓█"
"""Shades without colour, where numbers have no room."""
MISSING = "–"
LABEL = 18
"""The most columns of a terminal that a row's name takes from the numbers."""
TICKS = 5
"""Columns from one name to the next where not every name has room."""
WRAPPED = 55
"""Characters of a line below an image's map, whose width is 5 inches at least."""
ANNOTATED = 400
"""Cells of a map from which on an image leaves their numbers out."""


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
    note: str = ""
    least: float | None = None
    most: float | None = None

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
        return f"pale {least}, dark {most}"

    def text(self, value: float | None) -> str:
        """Return a number as it is shown."""
        return MISSING if value is None or not math.isfinite(value) else format(value, self.form)

    def shade(self, value: float | None) -> float | None:
        """Return how dark a number is, from 0 to 1; None if it is missing."""
        if value is None or not math.isfinite(value):
            return None
        least, most = self.scale
        return min(max((value - least) / (most - least), 0.0), 1.0) if most > least else 0.0


def terminal(heat: HeatMap, width: int = 80) -> RenderableType:
    """Return a map for a terminal of some columns: its numbers, or shades where they are too many.

    Where not even the shades have room, the map is cut, and its parts stand below each other.
    """
    whole = _widest([heat.y, *heat.rows])
    side = min(whole, LABEL, width // 3)
    number = 1 + _widest([heat.text(v) for row in heat.values for v in row])
    cell = max(number, 1 + _widest(heat.columns))
    if side <= (room := width - cell * len(heat.columns)):
        lines = list(_numbers(heat, min(whole, room), cell))
        key = heat.key
    else:
        least, most = map(heat.text, heat.scale)
        room = max(width - side - 1 - number, 1)
        starts = range(0, len(heat.columns), room)
        lines = [line for at in starts for line in _shades(heat, side, slice(at, at + room))]
        key = f"blank {least}, {GLYPHS[-1]} {most}; at the end of each row its largest number"
    notes = [f"{one_line(heat.x)} from left to right; {key}", *([heat.note] if heat.note else [])]
    return Group(plain(heat.title, "bold"), *lines, *(plain(note, "dim") for note in notes))


def _numbers(heat: HeatMap, side: int, cell: int) -> Iterator[Text]:
    """Yield a line of the columns' names and one for each row, every number on its shade."""
    heads = (set_cell_size("", cell - cell_len(one_line(n))) + one_line(n) for n in heat.columns)
    yield _labelled(heat.y, side).append("".join(heads), "dim")
    for name, values in zip(heat.rows, heat.values, strict=True):
        line = _labelled(name, side)
        for value in values:
            line.append(f"{heat.text(value):>{cell}}", _style(heat.shade(value)))
        yield line


def _shades(heat: HeatMap, side: int, part: slice) -> Iterator[Text]:
    """Yield the same of some columns, a character for each, and the largest number of each row."""
    names = [one_line(name) for name in heat.columns[part]]
    ruler = ""
    for i in range(0, len(names), TICKS):
        if not ruler or len(ruler) < i:
            ruler = f"{ruler:{i}}{names[i]}"
    yield _labelled(heat.y, side).append(f" {ruler[: len(names)]}", "dim")
    for name, values in zip(heat.rows, heat.values, strict=True):
        shades = [heat.shade(value) for value in values[part]]
        there = [v for v in values[part] if v is not None and math.isfinite(v)]
        line = _labelled(name, side).append(" " + "".join(map(_glyph, shades)))
        yield line.append(f" {heat.text(max(there, default=None))}", "dim")


def _widest(texts: Sequence[str]) -> int:
    """Return how many columns of a terminal the widest text takes."""
    return max((cell_len(one_line(text)) for text in texts), default=0)


def _labelled(name: str, side: int) -> Text:
    """Return the beginning of a row: its name, cut where it is too long."""
    shown = one_line(name)
    if cell_len(shown) > side:
        shown = set_cell_size(shown, side - 1) + "…"
    return Text(set_cell_size(shown, side))


def _glyph(shade: float | None) -> str:
    return MISSING if shade is None else GLYPHS[round(shade * (len(GLYPHS) - 1))]


def _style(shade: float | None) -> Style:
    return Style() if shade is None else Style(color=_ink(shade), bgcolor=_colour(shade))


def _colour(shade: float) -> str:
    """Return the colour of a shade, such as ``#7fa2c0``."""
    mixed = (round(p + (d - p) * shade) for p, d in zip(PALE, DARK, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _ink(shade: float) -> str:
    """Return the colour of numbers on a shade."""
    return "#ffffff" if shade > TURN else "#000000"


def page(maps: Sequence[HeatMap], title: str, lines: Sequence[str] = ()) -> str:
    """Return one HTML page of maps that opens anywhere, with lines of text above them."""
    shades = [step / STEPS for step in range(STEPS + 1)]
    rules = (
        f".heat .s{i} {{ background: {_colour(shade)}; color: {_ink(shade)}; }}"
        for i, shade in enumerate(shades)
    )
    style = "\n".join([templates.asset(templates.STYLE), *rules])
    return templates.page(
        "heat.jinja",
        title=title,
        policy=Markup(templates.inline_policy(style, "")),
        style=Markup(style),
        lines=lines,
        maps=[_paged(heat) for heat in maps],
    )


def _paged(heat: HeatMap) -> dict[str, Any]:
    """Return what the template shows of a map."""
    shades = [[(heat.text(value), heat.shade(value)) for value in row] for row in heat.values]
    cells = [[(t, None if s is None else round(s * STEPS)) for t, s in row] for row in shades]
    return {
        "title": heat.title,
        "x": heat.x,
        "y": heat.y,
        "columns": heat.columns,
        "lines": list(zip(heat.rows, cells, strict=True)),
        "key": heat.key,
        "note": heat.note,
    }


def image(maps: Sequence[HeatMap], path: Path) -> None:
    """Write maps below each other as a PNG.

    Raises `UsageError` without matplotlib, `ResourceError` if the file cannot be written.
    """
    figures.check()
    import matplotlib

    # A token may have a character that the font lacks; a box stands for it.
    with matplotlib.rc_context(figures.STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        try:
            _drawn(maps).savefig(path, format="png", dpi=figures.DOTS, metadata={"Software": None})
        except OSError as error:
            raise ResourceError(
                f"{path} cannot be written: {error.strerror}", "name another file: --png FILE"
            ) from None


def _drawn(maps: Sequence[HeatMap]) -> Figure:
    from matplotlib.figure import Figure as New

    heights = [0.3 * len(heat.rows) + 1.6 for heat in maps]
    width = 2.5 + 0.42 * max((len(heat.columns) for heat in maps), default=1)
    figure = New(figsize=(max(width, 5.0), sum(heights)), layout="constrained")
    axes = figure.subplots(len(maps), 1, squeeze=False, gridspec_kw={"height_ratios": heights})
    for ax, heat in zip(axes.flat, maps, strict=True):
        _panel(ax, heat)
    return figure


def _panel(ax: Axes, heat: HeatMap) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("shades", [_colour(0.0), _colour(1.0)])
    shades = [[heat.shade(value) for value in row] for row in heat.values]
    cells = [[math.nan if shade is None else shade for shade in row] for row in shades]
    ax.imshow(cells, cmap=colours, vmin=0, vmax=1, aspect="auto")
    ax.set_title(one_line(heat.title), loc="left", fontsize=9)
    note = textwrap.wrap(printable(heat.note), WRAPPED)
    ax.set_xlabel("\n".join([one_line(heat.x), heat.key, *note]))
    ax.set_ylabel(one_line(heat.y))
    step = 1 if len(heat.columns) <= ANNOTATED // 10 else TICKS
    ax.set_xticks(range(0, len(heat.columns), step), [one_line(n) for n in heat.columns[::step]])
    ax.set_yticks(range(len(heat.rows)), [one_line(name) for name in heat.rows])
    if len(heat.rows) * len(heat.columns) > ANNOTATED:
        return
    for y, (values, row) in enumerate(zip(heat.values, shades, strict=True)):
        for x, (value, shade) in enumerate(zip(values, row, strict=True)):
            ax.text(x, y, heat.text(value), ha="center", va="center", fontsize=7,
                    color=_ink(shade or 0.0))  # fmt: skip
