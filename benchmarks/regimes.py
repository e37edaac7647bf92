"""Tasks by regime by editor: one table in Markdown.

    python -m benchmarks.regimes --limit 40

Every run is on the first cases of each task: single edits, batches of
ten, and one sequence that is measured at its end. A cell is the value after the edits and, in
brackets, before them; what a task does not measure is a dash.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import click

import edit_harness as eh
from edit_harness_plugins.controls.collapse import perplexity

TASKS = {
    "zsre": {},
    "zsre-alt": {},
    "counterfact": {"generation": 4},
    "rule-edit": {},
    "rule-edit-description": {},
    "rule-edit-instance": {},
    "rule-edit-hierarchy": {},
}
"""The tasks, with their settings."""
EDITORS = ("none", "rome", "memit", "ft-l", "prompt")
REGIMES = {
    "single": None,
    "batch": eh.Regime("batch", 10),
    "sequential": eh.Regime("sequential"),
}
"""None is the task's own, which is single for all of these."""
COLUMNS = {
    "efficacy": ("ET", "ES", "Rel"),
    "paraphrase": ("PT", "PS", "Gen"),
    "locality": ("NT", "NS", "Loc"),
    "NU": ("NU",),
    "GE": ("GE",),
    "RS": ("RS",),
    "IP": ("IP",),
    "RU": ("RU",),
    "HG": ("HG",),
    "Rev": ("Rev",),
}
"""The table's columns, with the measures that stand in each."""


@click.command()
@click.option("--limit", type=click.IntRange(1), default=40, show_default=True)
@click.option("--task", "tasks", multiple=True, default=list(TASKS), show_default=True)
@click.option("--editor", "editors", multiple=True, default=list(EDITORS), show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Keep the run folders here.")
def main(limit: int, tasks: tuple[str, ...], editors: tuple[str, ...], output: Path | None) -> None:
    """Run everything and print the table."""
    model = eh.load_model("pocket")
    print(f"| task | mode | editor | {' | '.join(COLUMNS)} | perplexity |")
    print("|---" * (len(COLUMNS) + 4) + "|")
    with TemporaryDirectory() as temporary:
        for task in tasks:
            for mode, regime in REGIMES.items():
                for editor in editors:
                    run = eh.evaluate(
                        editor, task, model, task_args=TASKS[task], limit=limit, regime=regime,
                        output=output or temporary,
                    )  # fmt: skip
                    print(f"| {task} | {mode} | {' | '.join(cells(run))} |", flush=True)


def cells(run: eh.Results) -> Iterator[str]:
    """Yield the editor's label, a cell for each column, and the perplexity."""
    yield run.label
    for names in COLUMNS.values():
        found = [name for name in names if f"post_{name}" in run.estimates]
        yield _cell(run, found[0]) if found else "–"
    text = perplexity(run)
    yield "{1:.3g} ({0:.3g})".format(*text) if text else "–"


def _cell(run: eh.Results, name: str) -> str:
    after, before = run.estimates[f"post_{name}"].value, run.estimates.get(f"pre_{name}")
    if math.isnan(after):
        return "–"
    return f"{100 * after:.1f}" + (f" ({100 * before.value:.1f})" if before else "")


if __name__ == "__main__":
    main()
