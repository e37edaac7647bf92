"""A table as text: for the terminal, in Markdown, LaTeX (booktabs), HTML and CSV; each escapes its own signs."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from edit_harness.run.report import plain_number
from edit_harness_plugins.terminal import Terminal, plain

from .templates import FORMULA, page

Mark = Literal["", "best", "second"]
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]+")
LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "_": r"\_", "%": r"\%", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "–": "--", "−": "$-$",
    "↑": r"$\uparrow$", "↓": r"$\downarrow$", "→": r"$\rightarrow$", "±": r"$\pm$", "×": r"$\times$",
    "‖": r"$\|$", "[": "{[}", "·": r"$\cdot$", "*": r"$^{*}$",
}  # fmt: skip
MARKDOWN = re.compile(r"([\\`*_\[\]<>|~#])")
HYPHENS = re.compile("-(?=-)")
"""What LaTeX would set as a dash."""
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?")
SMALL, TIMES, UNIT = 0.01, 1e4, "10⁻⁴"
"""A column of smaller numbers alone is set in units of 10⁻⁴ in LaTeX."""
NEGATIVE = re.compile(r"(?<![\w.])-(?=[\d.])")
WIDER, FITTING = r"\resizebox{\textwidth}{!}{%", 8
"""How LaTeX sets a table of more columns than that, so that it is as wide as the text."""
LABEL = 24
"""Characters of a column of names; longer ones go on below."""
INDENT = 9
"""Characters of a label before a remark."""
WIDE = 100
"""Characters of a line of plain text."""
STYLES: Mapping[Mark, str] = {"": "", "best": "bold", "second": "underline"}
NAMES: Mapping[str, str] = {
    ".csv": "csv", ".htm": "html", ".html": "html", ".markdown": "markdown", ".md": "markdown",
    ".tex": "latex", ".txt": "table",
}  # fmt: skip
"""The formats by how a file's name ends."""


@dataclass(frozen=True)
class Cell:
    """One number as text, with what is shown more softly beside it, such as its interval."""

    text: str
    detail: str = ""
    mark: Mark = ""
    style: str = ""
    """Its colours in a terminal."""


Row = tuple[Sequence[str], Sequence[Cell]]
"""The names of a row, and its cells."""


@dataclass(frozen=True)
class Grid:
    """A table: its first columns name the rows, the others hold cells."""

    title: str
    heads: Sequence[str]
    columns: Sequence[str]
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    data: Sequence[Mapping[str, Any]] = field(default=())
    """The same in full: a mapping for each number, texts and unrounded numbers."""


def visible(text: str) -> str:
    """Return a text in one line, without control characters."""
    return CONTROL.sub(" ", text)


def table(grids: Sequence[Grid]) -> str:
    """Return tables as plain text, in which nothing is bold or underlined."""
    return render(Group(*rich(grids, WIDE)), WIDE)


def rich(grids: Sequence[Grid], width: int) -> Iterator[RenderableType]:
    """Yield the parts of tables for a terminal; what is too wide goes on below, with its rows' names."""
    for grid in grids:
        if grid.title:
            yield _text(grid.title, "italic")
        for start, stop in _parts(grid, width):
            yield _rich_part(grid, start, stop)
        yield from (_text(note, "dim") for note in grid.notes)
        if grid.title:
            yield Text()


def render(table: RenderableType, width: int = 80) -> str:
    """Return a table as plain text."""
    console = Terminal(width=width, no_color=True, legacy_windows=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def labelled(label: str, text: str, width: int) -> Text:
    """Return a text behind its label, further lines under the first."""
    lines = plain(text).wrap(Console(width=width), width - INDENT)
    for i, line in enumerate(lines):
        line.rstrip()
        lines[i] = Text.assemble((f"{'' if i else label:{INDENT}}", "bold cyan"), line)
    return Text("\n").join(lines)


def _parts(grid: Grid, width: int) -> Iterator[tuple[int, int]]:
    names = [[own[i] for own, _ in grid.rows] for i in range(len(grid.heads))]
    labels = sum(min(_width(*each), LABEL) + 2 for each in zip(grid.heads, names, strict=True))
    start, used = 0, labels
    for i, head in enumerate(grid.columns):
        cells = [cells[i] for _, cells in grid.rows]
        size = _width(head, [text for cell in cells for text in (cell.text, cell.detail)])
        if i > start and used + size > width:
            yield start, i
            start, used = i, labels
        used += size + 2
    yield start, len(grid.columns)


def _width(head: str, texts: Sequence[str]) -> int:
    return max(len(head), 1, *map(len, texts))


def _rich_part(grid: Grid, start: int, stop: int) -> Table:
    part = Table(box=None, pad_edge=False)
    for head in grid.heads:
        part.add_column(_text(head), overflow="fold", max_width=LABEL if grid.columns else None)
    for head in grid.columns[start:stop]:
        part.add_column(_text(head), justify="right", no_wrap=True)
    for names, cells in grid.rows:
        part.add_row(*map(_text, names), *map(_rich_cell, cells[start:stop]))
    return part


def _text(text: str, style: str = "") -> Text:
    return Text(visible(text), style=style)


def _rich_cell(cell: Cell) -> Text:
    text = _text(cell.text, cell.style or STYLES[cell.mark])
    soft = "dim not bold not underline"
    return text.append(f"\n{cell.detail}", style=soft) if cell.detail else text


def listed(title: str, rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return a table with a heading for each name of a cell; numbers stand to the right."""
    made = Table(box=None, pad_edge=False)
    names = list(dict.fromkeys(name for row in rows for name in row))
    for name in names:
        texts = any(isinstance(row.get(name), str) for row in rows)
        made.add_column(name, justify="left" if texts else "right", overflow="fold")
    for row in rows:
        made.add_row(*(_listed_cell(row.get(name)) for name in names))
    # A table's own title would be wrapped at the table's width.
    return Group(plain(title, "italic"), made)


def _listed_cell(value: Any) -> Text:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return Text("–")
    return plain(plain_number(value) if isinstance(value, int | float) else value)


def markdown(grids: Sequence[Grid]) -> str:
    """Return tables in Markdown: the best in bold, the second underlined by a tag that it allows."""
    marks = {"": "{}", "best": "**{}**", "second": "<u>{}</u>"}
    blocks = []
    for grid in grids:
        aligned = [":---"] * len(grid.heads) + ["---:"] * len(grid.columns)
        heads, *rows = _rows(grid, _markdown, marks, "{}")
        lines = [f"| {' | '.join(cells)} |" for cells in (heads, aligned, *rows)]
        notes = [f"- {_markdown(note)}" for note in grid.notes]
        blocks.append("\n".join([f"**{_markdown(grid.title)}**", "", *lines, "", *notes]).rstrip())
    return "\n\n".join(blocks) + "\n"


def _rows(
    grid: Grid, escape: Callable[[str], str], marks: Mapping[str, str], detail: str
) -> list[list[str]]:
    """Return heads and rows as escaped texts; ``marks`` and ``detail`` stand around a cell's parts."""

    def show(cell: Cell) -> str:
        text = marks[cell.mark].format(escape(cell.text))
        return f"{text} {detail.format(escape(cell.detail))}" if cell.detail else text

    rows = [[*map(escape, names), *map(show, cells)] for names, cells in grid.rows]
    return [[escape(head) for head in (*grid.heads, *grid.columns)], *rows]


def _markdown(text: str) -> str:
    return MARKDOWN.sub(r"\\\1", visible(text))


def latex(grids: Sequence[Grid]) -> str:
    """Return tables in LaTeX, for a document that uses booktabs, and graphicx for wide tables."""
    labels: list[str] = []
    for grid in grids:
        name = "-".join(re.findall(r"[a-z0-9]+", re.split("[:(]", grid.title)[0].lower()))
        labels.append(f"{name}-{len(labels) + 1}" if name in labels else name)
    body = "\n\n".join(map(_latex_table, map(_in_units, grids), labels))
    needs = ["% \\usepackage{booktabs}"]
    if WIDER in body:
        needs.append("% \\usepackage{graphicx}")
    return "\n".join([*needs, body]) + "\n"


def _in_units(grid: Grid) -> Grid:
    """Return a table whose columns of small numbers are in a unit that their heads name."""
    heads = list(grid.columns)
    columns = list(map(list, zip(*(cells for _, cells in grid.rows), strict=True)))
    for i, cells in enumerate(columns):
        found = [float(n) for c in cells for n in NUMBER.findall(f"{c.text} {c.detail}")]
        if 0 < max(found, default=0.0) < SMALL:
            heads[i] += f" ({UNIT})"
            columns[i] = [replace(c, text=_times(c.text), detail=_times(c.detail)) for c in cells]
    rows = [(own[0], [column[i] for column in columns]) for i, own in enumerate(grid.rows)]
    return replace(grid, columns=heads, rows=rows)


def _times(text: str) -> str:
    return NUMBER.sub(lambda found: f"{TIMES * float(found[0]):.3g}", text)


def _latex_table(grid: Grid, label: str) -> str:
    marks = {"": "{}", "best": r"\textbf{{{}}}", "second": r"\underline{{{}}}"}
    rows = _rows(grid, _latex, marks, r"{{\scriptsize {}}}")
    head, *body = (rf"{' & '.join(row)} \\" for row in rows)
    head = head.replace(UNIT, "$10^{-4}$")
    wide = len(rows[0]) > FITTING
    notes = " ".join(_latex(f"{_sentence(note).rstrip('.')}.") for note in grid.notes)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_latex(grid.title)}.}}",
        rf"\label{{tab:{label}}}",
        *([WIDER] if wide else []),
        rf"\begin{{tabular}}{{{'l' * len(grid.heads)}{'r' * len(grid.columns)}}}",
        *(r"\toprule", head, r"\midrule", *body, r"\bottomrule"),
        r"\end{tabular}" + ("}" if wide else ""),
        *([rf"\par\smallskip\parbox{{\linewidth}}{{\footnotesize {notes}}}"] if notes else []),
        r"\end{table}",
    ]
    return "\n".join(lines)


def _sentence(note: str) -> str:
    """Return a note that begins with a word, not with a run's id, as a sentence."""
    word, *_ = note.split(" ")
    return note[:1].upper() + note[1:] if word.isalpha() else note


def _latex(text: str) -> str:
    """Return a text for LaTeX; what is negative has a minus sign instead of a hyphen."""
    text = HYPHENS.sub("-\x00", NEGATIVE.sub("−", visible(text)))
    return "".join(LATEX.get(sign, sign) for sign in text).replace("\x00", "{}")


def html(grids: Sequence[Grid]) -> str:
    """Return tables as a fragment of HTML, to stand in somebody's page."""
    return page("grids.jinja", grids=grids, visible=visible)


def comma(grids: Sequence[Grid]) -> str:
    """Return the numbers of tables in full, a line for each; no text begins as a formula."""
    rows = [row for grid in grids for row in grid.data]
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\r\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _guarded(value) for name, value in row.items()})
    return out.getvalue()


def _guarded(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return ""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


FORMATS: Mapping[str, Callable[[Sequence[Grid]], str]] = {
    "table": table,
    "markdown": markdown,
    "latex": latex,
    "csv": comma,
    "html": html,
}
"""What writes tables, by the formats' names."""
