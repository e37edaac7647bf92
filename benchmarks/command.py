"""The whole command against the sequential runner: start-up, loading, trial, statistics and writing included.

    python -m benchmarks.command --shape gpt2-small --cases 1 --cases 12 --cases 100

The runner (`benchmarks.naive`) edits and evaluates the first cases; more cost as much each, and its start is
free. The command runs in processes of its own, on a folder with the same weights and a file of the same cases.
Seconds are of the processes (CPU), one thread each.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import torch
from rich.console import Console

from benchmarks import report, synthetic
from benchmarks.naive import Asked
from benchmarks.race import ALL, FIELDS, Race, share

GOALS = {"gpt2-small": {0: 8.2, 12: 7.0, 100: 8.0}}
"""Least gains by shape and cases; 0: of each further case."""


def record(i: int, case: Asked) -> dict[str, Any]:
    """Return a case in the layout of CounterFact's file."""
    objects = {"target_new": {"str": case.new}, "target_true": {"str": case.true}}
    return {
        "case_id": i,
        "requested_rewrite": {"prompt": case.prompt, "subject": case.subject, **objects},
        "paraphrase_prompts": case.prompts[1:3],
        "neighborhood_prompts": case.prompts[3 : 3 + synthetic.NEIGHBORS],
    }


def write(folder: Path, race: Race, cases: Sequence[Asked]) -> None:
    """Write the model and the cases."""
    race.model.module.save_pretrained(folder / "model")
    race.model.tokens.tokenizer.save_pretrained(folder / "model")
    records = [record(i, case) for i, case in enumerate(cases)]
    (folder / "cases.json").write_text(json.dumps(records), encoding="utf-8")


def command(folder: Path, shape: str, count: int) -> float:
    """Run the command on so many cases; return the seconds of its process."""
    fields = {"layer": synthetic.LAYERS[shape], **FIELDS}
    given = {
        "--model": "model", "--task-args": "data=cases.json", "--limit": count,
        "--editor-args": ",".join(f"{name}={value}" for name, value in fields.items()),
    }  # fmt: skip
    words = [str(word) for pair in given.items() for word in pair]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "edit_harness", "--new", "--quiet", "--device", "cpu", *words],
        cwd=folder, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def naive(race: Race, cases: Sequence[Asked]) -> float:
    """Run the sequential runner on cases; return its seconds for one."""
    start = time.process_time()
    race.naive.evaluate(cases, race.naive.edit(cases))
    return (time.process_time() - start) / len(cases)


@click.command()
@click.option(
    "--shape", type=click.Choice(list(synthetic.SHAPES)), default="tiny", show_default=True
)
@click.option("--cases", "counts", type=int, multiple=True, default=(1, 12), show_default=True)
@click.option("--naive", "of_naive", default=12, show_default=True, help="Cases of the runner.")
def main(shape: str, counts: Sequence[int], of_naive: int) -> None:
    """Time the command on so many cases each, and print the ratios."""
    torch.set_num_threads(1)
    race = Race(shape, "cpu")
    cases = synthetic.cases(max(*counts, of_naive), race.model.architecture.config.vocab_size)
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), race, cases)
        ours = {count: command(Path(name), shape, count) for count in sorted(counts)}
    each = naive(race, cases[:of_naive])
    console = Console(highlight=False)
    console.print(report.of_command(ours, each, GOALS.get(shape, {})))
    allowed = 1 / share(shape, cases[: max(counts)])[ALL]
    for line in report.too_good({f"{n} cases": each * n / s for n, s in ours.items()}, allowed):
        console.print(line)


if __name__ == "__main__":
    main()
