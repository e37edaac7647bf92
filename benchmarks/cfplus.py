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
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import torch
import transformers
from rich.console import Console
from rich.table import Table

from benchmarks import synthetic
from benchmarks.counting import Work
from benchmarks.race import EDIT, EVALUATION, GENERATION, NEXT, Race, Result
from edit_harness.architectures import Architecture

ALL = "all"


@dataclass(frozen=True)
class Goal:
    """What a phase is to reach."""

    ratio: float
    """Least gain in seconds."""
    work: float | None = None
    """Largest share of the sequential runner's counted work."""


CPU_GOALS = {
    EDIT: Goal(6, 0.14),
    EVALUATION: Goal(7, 0.11),
    ALL: Goal(6),
    NEXT: Goal(7),
    GENERATION: Goal(1.5),
}
GPU_GOALS = {
    EDIT: Goal(4, 0.14),
    EVALUATION: Goal(4, 0.11),
    ALL: Goal(4),
    NEXT: Goal(4),
    GENERATION: Goal(10),
}
TF32_GOAL = Goal(15)
"""Of all together, against a sequential runner in float32."""


def goal(phase: str, device: str, tf32: bool) -> Goal:
    """Return the goal of a phase."""
    if device == "cpu":
        return CPU_GOALS[phase]
    return TF32_GOAL if tf32 and phase == ALL else GPU_GOALS[phase]


def phases(result: Result) -> dict[str, tuple[Work, Work]]:
    """Return the work of both routes in each phase, with the sum of the first two."""
    both = {phase: (work, result.ours[phase]) for phase, work in result.naive.items()}
    total = tuple(works[EDIT] + works[EVALUATION] for works in (result.naive, result.ours))
    order = (EDIT, EVALUATION, ALL, NEXT, GENERATION)
    return {p: w for p in order if (w := {**both, ALL: total}.get(p))}


def cut(cases: Sequence[Any], groups: int) -> list[Sequence[Any]]:
    """Return the cases in so many groups of nearly one size."""
    bounds = [i * len(cases) // groups for i in range(groups + 1)]
    return [cases[a:b] for a, b in pairwise(bounds) if a < b]


@click.command()
@click.option(
    "--shape", type=click.Choice(list(synthetic.SHAPES)), default="tiny", show_default=True
)
@click.option("--cases", "count", type=click.IntRange(1), default=12, show_default=True)
@click.option("--groups", type=click.IntRange(1), default=2, show_default=True,
              help="Groups of cases that the routes take turns in.")  # fmt: skip
@click.option("--length", default=100, show_default=True,
              help="Tokens of a generated text with its prompt; 0 for none.")  # fmt: skip
@click.option("--device", default="cpu", show_default=True)
@click.option("--dtype", type=click.Choice(["float32", "bfloat16"]), default="float32")
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
    architecture = race.model.architecture
    cases = synthetic.cases(count, architecture.config.vocab_size)
    race.warm_up(cases[0])
    result = race.run(cut(cases, groups), length)
    name = f"{shape}, {count} cases, {dtype}{' (ours TF32)' if tf32 else ''}, {device_name(device)}"
    show(name, result, architecture, tf32)
    if path:
        line = {
            "shape": shape, "cases": count, "groups": groups, "length": length, "dtype": dtype,
            "tf32": tf32, "threads": threads, "device": device_name(device), **environment(),
            **report(result, architecture),
        }  # fmt: skip
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def device_name(device: str) -> str:
    """Return the name of a GPU, or of a processor's instructions."""
    if device != "cpu":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"


def environment() -> dict[str, str]:
    """Return what else the seconds depend on."""
    git = ["git", "describe", "--always", "--dirty"]
    return {
        "git": subprocess.run(git, check=False, capture_output=True, text=True).stdout.strip(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "platform": platform.platform(),
    }


def report(result: Result, architecture: Architecture) -> dict[str, Any]:
    """Return the result as JSON-ready data."""
    return {
        "work": {
            phase: {
                "naive": asdict(naive) | {"macs": naive.macs(architecture)},
                "ours": asdict(ours) | {"macs": ours.macs(architecture)},
            }
            for phase, (naive, ours) in phases(result).items()
        },
        "memory": asdict(result.memory),
        "texts": result.texts,
        "tokens": result.tokens,
        "differences": asdict(result.differences),
    }


def show(name: str, result: Result, architecture: Architecture, tf32: bool) -> None:
    """Print the tables."""
    console = Console(highlight=False)
    console.print(f"{name}\n")
    console.print(_gains(result, architecture, tf32), "")
    console.print(_counts(result), "")
    edits = [result.cases / works[EDIT].seconds for works in (result.naive, result.ours)]
    console.print(f"edits/s       {edits[0]:.3f} → {edits[1]:.3f}")
    if GENERATION in result.naive:
        rates = [result.tokens / w[GENERATION].seconds for w in (result.naive, result.ours)]
        console.print(f"tokens/s      {rates[0]:.0f} → {rates[1]:.0f}")
    memory, writes = result.memory, [
        sum(work.writes for work in works.values()) for works in (result.naive, result.ours)
    ]  # fmt: skip
    console.print(
        f"memory        {memory.naive / 2**20:.1f} → {memory.each / 2**20:.1f} MiB a case "
        f"({memory.each / memory.naive:.1%}, goal ≤ 10%); {memory.group} cases of ours "
        f"{memory.ours / 2**20:.1f} MiB"
    )
    console.print(f"weight writes {writes[0]} → {writes[1]} (goal 0)")
    seen = result.differences
    console.print(
        f"differences   update {seen.update:.1e}  nll {seen.nll:.1e}  kl {seen.kl:.1e} "
        f"(goal ≤ 1e-04)  flips {seen.flips}"
    )
    if result.texts:
        console.print(f"texts alike   {result.texts - seen.texts} of {result.texts}")


def _gains(result: Result, architecture: Architecture, tf32: bool) -> Table:
    table = _table("s/case", "naive", "ours", "ratio", "goal", "work", "goal")
    for phase, (naive, ours) in phases(result).items():
        aim = goal(phase, architecture.module.device.type, tf32)
        table.add_row(
            phase,
            f"{naive.seconds / result.cases:.3f}",
            f"{ours.seconds / result.cases:.3f}",
            f"{naive.seconds / ours.seconds:.1f}x",
            f"≥ {aim.ratio:g}x",
            f"{ours.macs(architecture) / naive.macs(architecture):.1%}",
            f"≤ {aim.work:.0%}" if aim.work else "",
        )
    return table


def _counts(result: Result) -> Table:
    table = _table("counted", "route", "forwards", "layer-pos", "back", "head-pos", "back")
    for phase, both in phases(result).items():
        for route, work in zip(("naive", "ours"), both, strict=True):
            counts = (work.forwards, work.layers, work.layers_back, work.heads, work.heads_back)
            table.add_row(phase if route == "naive" else "", route, *map("{:,}".format, counts))
    return table


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for i, head in enumerate(heads):
        table.add_column(head, justify="right" if i else "left", no_wrap=True)
    return table


if __name__ == "__main__":
    main()
