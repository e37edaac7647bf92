"""Plots as SVG elements: no script, no style of their own, colours from the page's classes.

Every plot has a title and a description in words; what it shows stands in a table too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from edit_harness.interfaces import Measure
from edit_harness.run import report
from edit_harness.run.report import DIRECTION, HUNDREDTHS, Line
from edit_harness.stats import Estimate

from .boards import Plane, Point
from .text import clipped, visible

WIDTH = 540
ROW = 30
NAME = 24
"""Characters of a name in a plot."""
LETTER = 9.5
"""Pixels of a letter, on a narrow screen, where letters are enlarged."""
SERIES = 6
"""Colours there are; the classes ``s0``, ``s1`` and so on."""
CURVES = 6


@dataclass(frozen=True)
class Scale:
    """A linear scale from values to pixels, with round ticks."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return where a value stands, kept within the scale."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 2)

    @property
    def ticks(self) -> list[float]:
        """Three to eight round values within."""
        raw = (self.high - self.low) / 7
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        return [i * step for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


def _label(text: str) -> Markup:
    return escape(visible(clipped(text, NAME)))


def _times(measure: Measure) -> int:
    return 100 if measure.unit in HUNDREDTHS else 1


def _svg(height: float, title: str, body: Sequence[str]) -> Markup:
    head = f'<svg viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}" role="img">'
    named = f"<title>{escape(visible(clipped(title, 400)))}</title>"
    return Markup(f"{head}{named}{''.join(body)}</svg>")


def _text(x: float, y: float, text: str | Markup, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{text}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" class="{kind}"/>'


def _dot(x: float, y: float, kind: str, radius: float = 5) -> str:
    return f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" class="{kind}"/>'


def _extent(measure: Measure, values: Sequence[float], whole: bool) -> tuple[float, float]:
    """Return the ends of an axis: all that there can be of a share, or a little more than there is."""
    low, high = min(values), max(values)
    if whole and measure.unit == "%":
        return (-100.0 if low < 0 else 0.0), 100.0
    least_room = 5.0 if measure.unit in HUNDREDTHS else max(abs(high) * 0.1, 0.01)
    room = max((high - low) * 0.12, least_room)
    least, most = (x * _times(measure) for x in measure.limits)
    return max(low - room, least), min(high + room, most)


def dumbbells(rows: Sequence[Line]) -> list[Markup]:
    """Return plots of measures before and after, with intervals: one for each unit."""
    drawn = [row for row in rows if row.after and math.isfinite(row.after.value)]
    units = dict.fromkeys(row.measure.unit for row in drawn)
    return [_dumbbell([row for row in drawn if row.measure.unit == unit], unit) for unit in units]


def _dumbbell(rows: Sequence[Line], unit: str) -> Markup:
    values = [v for row in rows for v in _spread(row.after, row) + _spread(row.before, row)]
    low, high = _extent(rows[0].measure, [*values, 0.0], whole=True)
    names = max(min(len(row.name), NAME) for row in rows)
    scale = Scale(low, high if high > low else low + 1, 30 + LETTER * names, WIDTH - 74)
    bottom = 14 + ROW * len(rows)
    body = list(_axis_below(scale, 10, bottom, unit))
    for i, row in enumerate(rows):
        body += _bell(row, scale, 10 + ROW * (i + 0.5))
    return _svg(bottom + 34, f"Before and after the edit, {unit or 'as measured'}", body)


def _spread(estimate: Estimate | None, row: Line) -> list[float]:
    """Return a value and the ends of its interval, in the unit that is shown; empty if infinite."""
    return _ends(estimate, row.measure) if estimate else []


def _ends(estimate: Estimate, measure: Measure) -> list[float]:
    if not math.isfinite(estimate.value):
        return []
    ends = (estimate.value, estimate.low, estimate.high)
    return [_times(measure) * v for v in ends if math.isfinite(v)]


def _axis_below(scale: Scale, top: float, bottom: float, name: str) -> Iterator[str]:
    for tick in scale.ticks:
        yield _line(scale(tick), top, scale(tick), bottom, "zero" if tick == 0 else "grid")
        yield _text(scale(tick), bottom + 14, f"{tick:g}", "tick", "middle")
    yield _text((scale.start + scale.end) / 2, bottom + 30, escape(name), "axis", "middle")


def _bell(row: Line, scale: Scale, y: float) -> Iterator[str]:
    before, after = _spread(row.before, row), _spread(row.after, row)
    yield _text(0, y + 4, f"{_label(row.name)} {DIRECTION[row.measure.better]}", "name")
    if before:
        yield _line(scale(before[0]), y, scale(after[0]), y, "link")
    if len(after) == 3:
        yield _line(scale(after[1]), y, scale(after[2]), y, "interval s0")
    if before:
        yield _dot(scale(before[0]), y, "before")
    yield _dot(scale(after[0]), y, "after s0")
    yield _text(WIDTH - 4, y + 4, escape(report.show(row.after, row)), "value", "end")


def scatter(plane: Plane) -> Markup:
    """Return efficacy against specificity: a point for each run, a cross for its intervals.

    One run alone is joined to where it came from, the unedited model.
    """
    height, alone = 360, len(plane.points) == 1
    spans = []
    for at, (_, measure) in enumerate((plane.x, plane.y)):
        estimates = [e[at] for p in plane.points for e in _estimates(p, alone)]
        ends = [end for estimate in estimates for end in _ends(estimate, measure)]
        spans.append(_extent(measure, ends or [0.0], whole=False))
    x, y = Scale(*spans[0], 56, WIDTH - 70), Scale(*spans[1], height - 52, 16)
    body = [*_axis_below(x, 16, height - 52, _axis_name(plane.x)), *_axis_left(y, x, plane.y)]
    models = list(dict.fromkeys(point.model for point in plane.points))
    for i, model in enumerate(models):
        body += _front([p for p in plane.points if p.model == model], x, y, plane, i % SERIES)
    if alone and (before := plane.points[0].before):
        body += _origin(before, plane.points[0], x, y, plane)
    body += _marks(plane, x, y, models)
    title = f"{_axis_name(plane.y)} against {_axis_name(plane.x)}"
    return _svg(height, title, body)


def _estimates(point: Point, alone: bool) -> list[tuple[Estimate, Estimate]]:
    return [(point.x, point.y), *([point.before] if alone and point.before else [])]


def _origin(
    before: tuple[Estimate, Estimate], point: Point, x: Scale, y: Scale, plane: Plane
) -> Iterator[str]:
    """Yield the unedited model's point, and what joins it to that after the edits."""
    px, py = x(_times(plane.x[1]) * before[0].value), y(_times(plane.y[1]) * before[1].value)
    yield _line(px, py, *_at(point, x, y, plane), "link")
    yield _dot(px, py, "before")
    yield _text(px + 9, py + 18, "before", "tick halo")


def _axis_name(axis: tuple[str, Measure]) -> str:
    name, measure = axis
    return f"{name} {measure.unit} {DIRECTION[measure.better]}".replace("  ", " ").strip()


def _axis_left(y: Scale, x: Scale, axis: tuple[str, Measure]) -> Iterator[str]:
    for tick in y.ticks:
        yield _line(x.start, y(tick), x.end, y(tick), "grid")
        yield _text(x.start - 8, y(tick) + 4, f"{tick:g}", "tick", "end")
    middle = (y.start + y.end) / 2
    name = escape(_axis_name(axis))
    yield (
        f'<text x="14" y="{middle:g}" class="axis" text-anchor="middle" '
        f'transform="rotate(-90 14 {middle:g})">{name}</text>'
    )


def _front(points: Sequence[Point], x: Scale, y: Scale, plane: Plane, series: int) -> Iterator[str]:
    """Yield the line through a model's runs that no other run of it beats, if there are several."""
    placed = sorted(_at(point, x, y, plane) for point in points if point.front)
    if len(placed) > 1:
        path = " ".join(f"{px:g},{py:g}" for px, py in placed)
        yield f'<polyline points="{path}" class="front s{series}"/>'


def _at(point: Point, x: Scale, y: Scale, plane: Plane) -> tuple[float, float]:
    return x(_times(plane.x[1]) * point.x.value), y(_times(plane.y[1]) * point.y.value)


def _marks(plane: Plane, x: Scale, y: Scale, models: Sequence[str]) -> Iterator[str]:
    taken: list[tuple[float, float]] = []
    for point in plane.points:
        px, py = _at(point, x, y, plane)
        series = f"s{models.index(point.model) % SERIES}{'' if point.entrant.trusted else ' faint'}"
        across, up = _ends(point.x, plane.x[1]), _ends(point.y, plane.y[1])
        said = f"{point.entrant.run.label} on {point.model}: {across[0]:.3g}, {up[0]:.3g}"
        yield f"<g><title>{escape(visible(clipped(said, 200)))}</title>"
        if len(across) == 3:
            yield _line(x(across[1]), py, x(across[2]), py, f"cross {series}")
        if len(up) == 3:
            yield _line(px, y(up[1]), px, y(up[2]), f"cross {series}")
        yield _dot(px, py, f"after {series}", 5.5 if point.front else 4)
        yield "</g>"
        label = point.entrant.run.label + (f" · {point.model}" if len(models) > 1 else "")
        yield _beside(px, py, label, taken)


def _beside(px: float, py: float, label: str, taken: list[tuple[float, float]]) -> str:
    """Return a point's label, moved down until it is clear of those that are there."""
    right = px < WIDTH - 160
    x, y = (px + 9 if right else px - 9), py - 7
    while any(abs(x - tx) < 110 and abs(y - ty) < 13 for tx, ty in taken):
        y += 13
    taken.append((x, y))
    return _text(x, y, _label(label), "name halo", "start" if right else "end")


def curves(points: Sequence[report.Point], rows: Sequence[Line]) -> Markup | None:
    """Return measures of shares along a sequence; None where it has fewer than two points."""
    kept = [row for row in rows if row.measure.unit == "%" and not row.measure.detail]
    kept = [row for row in kept if all(f"post_{row.name}" in p.estimates for p in points)][:CURVES]
    if len(points) < 2 or not kept:
        return None
    values = [v for r in kept for p in points for v in _spread(p.estimates[f"post_{r.name}"], r)]
    x = Scale(0, points[-1].state, 44, WIDTH - 90)
    y = Scale(*_extent(kept[0].measure, [*values, 0.0], whole=True), 268, 14)
    body = list(_axis_below(x, 14, 268, "edits so far"))
    for tick in y.ticks:
        body += [_line(x.start, y(tick), x.end, y(tick), "grid"),
                 _text(x.start - 6, y(tick) + 4, f"{tick:g}", "tick", "end")]  # fmt: skip
    taken: list[tuple[float, float]] = []
    for i, row in enumerate(kept):
        body += _curve(points, row, x, y, i, taken)
    return _svg(310, "Along the sequence, %", body)


def _curve(
    points: Sequence[report.Point],
    row: Line,
    x: Scale,
    y: Scale,
    series: int,
    taken: list[tuple[float, float]],
) -> Iterator[str]:
    at = [(p.state, _spread(p.estimates[f"post_{row.name}"], row)) for p in points]
    there = [(x(state), ends) for state, ends in at if ends]
    for px, ends in there:
        if len(ends) == 3:
            yield _line(px, y(ends[1]), px, y(ends[2]), f"cross s{series}")
        yield _dot(px, y(ends[0]), f"after s{series}", 3.5)
    path = " ".join(f"{px:g},{y(ends[0]):g}" for px, ends in there)
    yield f'<polyline points="{path}" class="curve s{series}"/>'
    if there:
        px, ends = there[-1]
        yield _beside(px, y(ends[0]) + 11, row.name, taken).replace(
            '"name halo"', f'"name s{series}"'
        )
