"""Seesaw-CF on the bundled sample: what edits of people do to others, by editor and regime.

    python -m benchmarks.seesaw --figure docs/concepts/seesaw.svg

Prints a table of all runs, and for all edits at once the tables by group and property, in Markdown; the
figure has a bar of D_d for each editor, edited property and gender. No judge is needed: the texts of the
open-ended part are not asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

import edit_harness as eh
from edit_harness_plugins.controls.collapse import perplexity

EDITORS = ("ft-l", "mend", "memit")
REGIMES = {"all at once": None, "single": eh.Regime()}
"""None is the task's own: all edits of a set at once."""
PARTS = "cross-subject,cross-property"
COLUMNS = ("ES", "D", "D_d", "CP", "CP-published")
GENDERS = {"gender=female": "#c2571a", "gender=male": "#1f6f8b"}
BAR, HEIGHT, TOP, LEFT = 10, 120, 40, 50
"""The figure's sizes in pixels: of a bar, of the half above 0, of the margins."""
Rows = Sequence[Mapping[str, Any]]


@click.command()
@click.option("--limit", type=click.IntRange(1), help="The first cases only.")
@click.option("--editor", "editors", multiple=True, default=list(EDITORS), show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Keep the run folders here.")
@click.option("--figure", type=click.Path(path_type=Path), help="Write the figure here, as SVG.")
def main(
    limit: int | None, editors: tuple[str, ...], output: Path | None, figure: Path | None
) -> None:
    """Run everything, print the tables and draw the figure."""
    model = eh.load_model("pocket")
    together: list[eh.Results] = []
    print(f"| editor | edits | {' | '.join(COLUMNS)} | perplexity |")
    print("|---" * (len(COLUMNS) + 3) + "|")
    with TemporaryDirectory() as temporary:
        for name, regime in REGIMES.items():
            for editor in editors:
                run = eh.evaluate(
                    editor,
                    "seesaw-cf",
                    model,
                    task_args={"part": PARTS},
                    regime=regime,
                    limit=limit,
                    output=output or temporary,
                )
                cells = (_cell(run, column) for column in COLUMNS)
                print(
                    f"| {run.label} | {name} | {' | '.join(cells)} | {_perplexity(run)} |",
                    flush=True,
                )
                if regime is None:
                    together.append(run)
    for run in together:
        for tables in run.tables.values():
            title, rows = next(iter(tables.items()))
            print(f"\n`{run.label}`, {title}\n")
            print("\n".join(_markdown(rows)))
    if figure:
        figure.write_text(_figure(together), encoding="utf-8")


def _cell(run: eh.Results, name: str) -> str:
    """Return a value after the edits and, in brackets, before."""
    after, before = run.estimates.get(f"post_{name}"), run.estimates.get(f"pre_{name}")
    if after is None:
        return "–"
    show = "{:.1%}" if run.measures[name].unit == "%" else "{:.3f}"
    shown = show.format(after.value).rstrip("%")
    return shown + (f" ({show.format(before.value).rstrip('%')})" if before else "")


def _perplexity(run: eh.Results) -> str:
    found = perplexity(run)
    return "{1:.3g} ({0:.3g})".format(*found) if found else "–"


def _markdown(rows: Rows) -> Iterator[str]:
    yield f"| {' | '.join(rows[0])} |"
    yield "|---" * len(rows[0]) + "|"
    for row in rows:
        yield f"| {' | '.join(_shown(cell) for cell in row.values())} |"


def _shown(cell: Any) -> str:
    if cell is None:
        return "–"
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell).replace("*", "\\*")


def _figure(runs: Sequence[eh.Results]) -> str:
    """Return D_d as bars, from -1 to 1: a block for each set, in it a pair of bars for each editor."""
    bars = list(_bars(runs))
    width = LEFT + max(x for x, *_ in bars) + 4 * BAR
    size = f'width="{width}" height="{2 * HEIGHT + 2 * TOP + 20}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for value in (-1, -0.5, 0, 0.5, 1):
        y = TOP + HEIGHT * (1 - value)
        parts.append(f'<line x1="{LEFT}" x2="{width}" y1="{y}" y2="{y}" stroke="#ccc"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{value:g}</text>')
    for x, value, color, label in bars:
        top, size = TOP + HEIGHT * (1 - max(value, 0)), max(abs(value) * HEIGHT, 0.5)
        parts.append(
            f'<rect x="{LEFT + x}" y="{top:.1f}" width="{BAR - 1}" height="{size:.1f}" '
            f'fill="{color}"><title>{label}: {value:.3f}</title></rect>'
        )
    parts += [*_legend(), *_labels(runs), "</svg>\n"]
    return "\n".join(parts)


def _bars(runs: Sequence[eh.Results]) -> Iterator[tuple[int, float, str, str]]:
    """Yield where a bar stands, D_d, its color and what it is of."""
    for i, name in enumerate(_sets(runs)):
        for j, run in enumerate(runs):
            rows = {row["group"]: row for row in run.tables["confidence"][f"D by group, {name}"]}
            for k, (gender, color) in enumerate(GENDERS.items()):
                if gender in rows:
                    x = BAR * (i * (2 * len(runs) + 3) + 2 * j + k + 1)
                    yield x, rows[gender]["D_d"], color, f"{name}, {run.label}, {gender}"


def _sets(runs: Sequence[eh.Results]) -> list[str]:
    return [
        name for name in next(iter(runs[0].tables["confidence"].values()))[0] if name != "group"
    ]


def _legend() -> Iterator[str]:
    yield f'<text x="{LEFT}" y="16">D_d: how much surer of other people after all edits at once</text>'
    for i, (gender, color) in enumerate(GENDERS.items()):
        x = LEFT + 90 * i
        yield f'<rect x="{x}" y="22" width="9" height="9" fill="{color}"/>'
        yield f'<text x="{x + 14}" y="30">{gender.partition("=")[2]}</text>'


def _labels(runs: Sequence[eh.Results]) -> Iterator[str]:
    for i, name in enumerate(_sets(runs)):
        middle = LEFT + BAR * (i * (2 * len(runs) + 3) + len(runs) + 1)
        y = TOP + 2 * HEIGHT + 18
        yield f'<text x="{middle}" y="{y}" text-anchor="middle">{name.partition("_")[0]}</text>'
    order = ", ".join(run.label for run in runs)
    yield f'<text x="{LEFT}" y="{TOP + 2 * HEIGHT + 36}">pairs of bars from the left: {order}</text>'


if __name__ == "__main__":
    main()
