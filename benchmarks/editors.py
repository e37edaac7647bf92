"""All editors on CounterFact and CounterFact+: one table in Markdown, with seconds and memory.

    python -m benchmarks.editors --skip 100 --limit 200
    python -m benchmarks.editors --sequence --limit 200

The second is of one sequence on CounterFact: S over all cases so far at checkpoints, and what is left at the end.

Each editor runs in a process of its own, by the command that a user types, so that its peak memory
is its own. Seconds are of the value search or training of one edit within the command's chunks;
memory is the largest resident set, with that of ``none`` (model and evaluation alone) for comparison.
Presets of ``pocket`` were tuned on its first 100 cases at most; ``--skip`` leaves them out.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from edit_harness.registry.registry import Plugins
from edit_harness.run import assembly

TASKS = ("counterfact", "counterfactplus")
COLUMNS = {
    "counterfact": ("ES", "PS", "NS", "S"),
    "counterfactplus": ("NS+", "NM+", "NKL", "NKL+"),
}
PERCENT = ("ES", "PS", "NS", "S", "NS+", "NM+")
POINTS = (20, 50, 100)
"""The checkpoints of a sequence besides its end."""
LEFT = ("ES", "PS", "NS", "S")
NOTHING_VALID = 1
"""How a run ends of which no case is valid, as where a prefix fills all positions."""


@click.command()
@click.option("--model", default="pocket", show_default=True)
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True)
@click.option("--skip", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "--editor",
    multiple=True,
    help="Only these, as NAME or NAME:FIELD=VALUE,...; by default all that are installed.",
)
@click.option("--sequence", is_flag=True, help="Edits on top of each other.")
@click.option("--output", type=click.Path(path_type=Path), help="Keep the run folders here.")
def main(
    model: str, limit: int, skip: int, editor: tuple[str, ...], sequence: bool, output: Path | None
) -> None:
    """Run every editor and print the table."""
    plugins = Plugins.installed()
    names = list(editor) or [c.name for c in plugins.of_kind("editor")]
    source = assembly.source_of(plugins, model)
    cases = assembly.make_benchmark(plugins, TASKS[0], {}, source).cases[skip : skip + limit]
    samples = ",".join(case.id for case in cases)
    names.sort(key=lambda name: name != "none")
    points = [point for point in POINTS if point < limit]
    heads = [name for columns in COLUMNS.values() for name in columns]
    if sequence:
        heads = [*(f"S at {point}" for point in points), *(f"{name} at {limit}" for name in LEFT)]
    print(f"| editor | {' | '.join(heads)} | s/edit | peak MB |")
    print("|---" * (len(heads) + 3) + "|")
    with TemporaryDirectory() as temporary:
        for name in names:
            folder = (output or Path(temporary)) / name
            results, peak = run(name, model, samples, folder, points if sequence else None)
            cells = curve(results[0]) if sequence else scores(results)
            told = (results[0]["editor"], *cells, f"{seconds(folder):.3f}", f"{peak:,.0f}")
            print(f"| {' | '.join(told)} |", flush=True)


def run(
    editor: str, model: str, samples: str, folder: Path, points: Sequence[int] | None
) -> tuple[list[dict[str, Any]], float]:
    """Return the results of the tasks and the peak memory in MB, of a process of its own.

    ``points`` are the checkpoints of a sequence, which is of the first task alone.
    """
    tasks = ["--task", ",".join(TASKS)]
    if points is not None:
        at = ",".join(map(str, [*points, "end"]))
        tasks = ["--task", TASKS[0], "--edit-mode", "sequential", "--eval-at", at]
    name, _, fields = editor.partition(":")
    given = ["--editor", name, *(["--editor-args", fields] if fields else [])]
    command = [sys.executable, "-m", "edit_harness", *given, "--model", model, *tasks,
               "--samples", samples, "-o", str(folder), "--json", "--quiet"]  # fmt: skip
    told = folder.with_suffix(".json")
    told.parent.mkdir(parents=True, exist_ok=True)
    with open(told, "wb") as stream:
        actions = [(os.POSIX_SPAWN_DUP2, stream.fileno(), 1)]
        pid = os.posix_spawn(sys.executable, command, os.environ, file_actions=actions)
        _, status, usage = os.wait4(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, NOTHING_VALID):
        raise click.ClickException(f"{editor} ended with {code}")
    found = json.loads(told.read_text())
    return found if isinstance(found, list) else [found], usage.ru_maxrss / 1024


def seconds(folder: Path) -> float:
    """Return the mean seconds of an edit."""
    files = [file.read_text(encoding="utf-8") for file in folder.glob("*/samples.jsonl")]
    lines = [json.loads(line) for text in files for line in text.splitlines()]
    taken = {line["case"]: line["seconds"]["edit"] for line in lines if line["seconds"]["edit"]}
    return sum(taken.values()) / max(len(taken), 1)


def curve(found: dict[str, Any]) -> list[str]:
    """Return S at each checkpoint, and what is left at the end; – where no case is valid any more."""
    before = [point.get("post_S,sequential") for point in found["curve"][:-1]]
    left = [found["results"].get(f"post_{name},sequential") for name in LEFT]
    return [f"{100 * value:.1f}" if value is not None else "–" for value in (*before, *left)]


def scores(results: list[dict[str, Any]]) -> list[str]:
    """Return the numbers of single edits on each task, with their intervals."""
    return [
        cell(found["results"], name)
        for task, found in zip(TASKS, results, strict=True)
        for name in COLUMNS[task]
    ]


def cell(found: dict[str, float], name: str) -> str:
    """Return a number with its interval."""
    parts = [found.get(f"post_{name}{part},single") for part in ("", "_low", "_high")]
    if parts[0] is None:
        return "–"
    scale, digits = (100, 1) if name in PERCENT else (1, 2)
    value, low, high = (
        f"{math.nan if part is None else part * scale:.{digits}f}" for part in parts
    )
    return f"{value} ({low}, {high})"


if __name__ == "__main__":
    main()
