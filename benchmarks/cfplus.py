"""ROME on CounterFact+ cases: the sequential runner against the harness, in one process.

    python -m benchmarks.cfplus --shape tiny --cases 12

Prints seconds and counted work as ratios beside their goals, and the largest differences between
both routes' numbers; ``--json FILE`` appends a line. Seconds are of the process (CPU) or of CUDA
events, with the routes in turn; counts are exact and do not depend on the machine.
"""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import torch
import transformers

from benchmarks import report, synthetic
from benchmarks.race import Race


@click.command()
@click.option(
    "--shape", type=click.Choice(list(synthetic.SHAPES)), default="tiny", show_default=True
)
@click.option("--cases", "count", type=click.IntRange(1), default=12, show_default=True)
@click.option(
    "--groups",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="Groups of cases that the routes take turns in.",
)
@click.option(
    "--length",
    default=100,
    show_default=True,
    help="Tokens of a generated text with its prompt; 0 for none.",
)
@click.option("--device", default="cpu", show_default=True)
@click.option(
    "--dtype", type=click.Choice(["float32", "bfloat16"]), default="float32", show_default=True
)
@click.option("--tf32", is_flag=True, help="Let the harness, not the baseline, use TF32.")
@click.option("--threads", default=1, show_default=True)
@click.option("--json", "path", type=click.Path(path_type=Path), help="Append a line of JSON.")
def main(
    shape: str, count: int, groups: int, length: int, device: str, dtype: str, tf32: bool,
    threads: int, path: Path | None,
) -> None:  # fmt: skip
    """Run both routes and print their ratios."""
    torch.set_num_threads(threads)
    race = Race(shape, device, getattr(torch, dtype), tf32=tf32)
    cases = synthetic.cases(count, race.model.architecture.config.vocab_size)
    race.warm_up(cases[0])
    result = race.run(cut(cases, groups), length)
    precision = f"{dtype} against TF32" if tf32 else dtype
    goals = report.goals_of(shape, gpu=device != "cpu", tf32=tf32)
    report.show(f"{shape}, {count} cases, {precision}, {device_name(device)}", result, goals)
    if path:
        given = {
            "shape": shape, "cases": count, "groups": groups, "length": length,
            "device": device_name(device), "dtype": dtype, "tf32": tf32, "threads": threads,
        }  # fmt: skip
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(given | versions() | report.data(result)) + "\n")


def cut(cases: Sequence[Any], groups: int) -> list[Sequence[Any]]:
    """Return the cases in so many groups of nearly one size."""
    bounds = [i * len(cases) // groups for i in range(groups + 1)]
    return [cases[a:b] for a, b in pairwise(bounds) if a < b]


def device_name(device: str) -> str:
    """Return the name of a GPU, or of a processor's instructions."""
    if device != "cpu":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"


def versions() -> dict[str, str]:
    """Return what else the seconds depend on."""
    git = ["git", "describe", "--always", "--dirty"]
    return {
        "git": subprocess.run(git, check=False, capture_output=True, text=True).stdout.strip(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "platform": platform.platform(),
    }


if __name__ == "__main__":
    main()
