"""CounterFact+ under mass edits: what the edited fact in front of a prompt does after N edits at once.

    python -m benchmarks.mass --limit 300

The limitations of the CounterFact+ paper name it as open. All of the first cases are edited, N at a time
on the unedited model, and each is asked after the edit that it belongs to; a cell is the value after
the edits, and the first line of an editor is single edits.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import click

import edit_harness as eh
from edit_harness_plugins.controls.collapse import perplexity

EDITORS = ("none", "memit", "alphaedit", "ft-l", "mend")
SIZES = (1, 10, 56, 100, 316)
"""Edits at once, some of those of MEMIT's scaling curves."""
COLUMNS = ("ES", "PS", "NS", "NS+", "NKL", "NKL+")


@click.command()
@click.option("--limit", type=click.IntRange(1), default=300, show_default=True)
@click.option("--editor", "editors", multiple=True, default=list(EDITORS), show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Keep the run folders here.")
def main(limit: int, editors: tuple[str, ...], output: Path | None) -> None:
    """Run everything and print the table."""
    model = eh.load_model("pocket")
    print(f"| editor | edits at once | {' | '.join(COLUMNS)} | perplexity |")
    print("|---" * (len(COLUMNS) + 3) + "|")
    with TemporaryDirectory() as temporary:
        for editor in editors:
            for size in sizes(limit) if editor != "none" else (1,):
                run = eh.evaluate(
                    editor, "counterfactplus", model, limit=limit, output=output or temporary,
                    regime=eh.Regime("batch", size) if size > 1 else None,
                )  # fmt: skip
                cells = (_cell(run, name) for name in COLUMNS)
                print(
                    f"| {run.label} | {size} | {' | '.join(cells)} | {_perplexity(run)} |",
                    flush=True,
                )


def sizes(limit: int) -> list[int]:
    """Return how many edits are made at once, none of them more than there are."""
    return sorted({min(size, limit) for size in SIZES})


def _cell(run: eh.Results, name: str) -> str:
    line = next(line for line in run.lines if line.name == name)
    value = run[name].value
    return f"{100 * value:.1f}" if line.measure.unit == "%" else f"{value:.3f}"


def _perplexity(run: eh.Results) -> str:
    found = perplexity(run)
    return "{1:.3g} ({0:.3g})".format(*found) if found else "–"


if __name__ == "__main__":
    main()
