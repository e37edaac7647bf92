"""The result of a race as tables, beside the goals, and as JSON-ready data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.race import ABOVE_PLAIN, ALL, EDIT, EVALUATION, GENERATION, NEXT, Result


@dataclass(frozen=True)
class Goal:
    """What a phase is to reach."""

    ratio: float
    """Least gain in seconds."""
    work: float | None = None
    """Largest share of the sequential runner's counted work."""


EDIT_WORK, EVALUATION_WORK = 0.14, 0.11
CPU = {
    EDIT: Goal(7, EDIT_WORK),
    EVALUATION: Goal(8, EVALUATION_WORK),
    ALL: Goal(7),
    NEXT: Goal(8),
    GENERATION: Goal(1.5),
}
GPU, TF32 = {"gpt-j": 4.0}, {"gpt-j": 15.0}
GPU_OTHERS, TF32_OTHERS = 10.0, 20.0
"""Least gains on a GPU by shape, against a sequential runner in float32."""


def goals_of(shape: str, *, gpu: bool, tf32: bool) -> dict[str, Goal]:
    """Return the goals of every phase."""
    if not gpu:
        return CPU
    ratio = TF32.get(shape, TF32_OTHERS) if tf32 else GPU.get(shape, GPU_OTHERS)
    return {phase: Goal(ratio, goal.work) for phase, goal in CPU.items()}


MIB, ROUNDED = 2**20, 1.05


def show(title: str, result: Result, goals: dict[str, Goal]) -> None:
    """Print the tables."""
    console = Console(highlight=False)
    for part in (title, gains(result, goals), counts(result), rest(result)):
        console.print(part)
        console.print()
    for line in doubts(result):
        console.print(line)


def doubts(result: Result) -> Iterator[str]:
    """Yield what makes the ratios of a result no ratios to the field's code."""
    if result.first > ABOVE_PLAIN * result.plain:
        yield (
            f"warning: the naive search takes {result.first / result.plain:.2f} times as long as plain "
            f"passes (allowed: {ABOVE_PLAIN}), so that ratios to it are too good"
        )
    for phase in (EDIT, EVALUATION, NEXT):
        naive, ours = result.phases[phase]
        allowed = naive.macs(result.cost) / ours.macs(result.cost)
        yield from too_good({phase: naive.seconds / ours.seconds}, allowed)


def too_good(ratios: Mapping[str, float], allowed: float) -> Iterator[str]:
    """Yield a warning for each ratio of seconds that exceeds what counted work allows."""
    for what, ratio in ratios.items():
        if ratio > ROUNDED * allowed:
            yield (
                f"warning: {what}: {ratio:.1f}x is more than counted work allows, {allowed:.1f}x: "
                "the baseline does more than it counts"
            )


def of_command(ours: Mapping[int, float], each: float, goals: Mapping[int, float]) -> Table:
    """Return the table of a whole command's seconds by cases, and of each further case's."""
    table = _table("whole command", "naive", "ours", "ratio", "goal")
    counts = sorted(ours)
    rows = [(f"{n} cases", n, ours[n], goals.get(n)) for n in counts]
    more = [
        (f"each case from {a} to {b}", b - a, ours[b] - ours[a], goals.get(0))
        for a, b in pairwise(counts)
    ]
    for what, count, seconds, goal in (*rows, *more):
        naive = each * count
        shown = f"≥ {goal:g}x" if goal else ""
        table.add_row(what, f"{naive:.1f}", f"{seconds:.1f}", f"{naive / seconds:.1f}x", shown)
    return table


def gains(result: Result, goals: dict[str, Goal]) -> Table:
    """Return the table of seconds and of work, as ratios."""
    table = _table("s/case", "naive", "ours", "ratio", "goal", "work", "goal")
    for phase, (naive, ours) in result.phases.items():
        goal = goals[phase]
        table.add_row(
            phase,
            f"{naive.seconds / result.cases:.3f}",
            f"{ours.seconds / result.cases:.3f}",
            f"{naive.seconds / ours.seconds:.1f}x",
            f"≥ {goal.ratio:g}x",
            f"{ours.macs(result.cost) / naive.macs(result.cost):.1%}",
            f"≤ {goal.work:.0%}" if goal.work else "",
        )
    return table


def counts(result: Result) -> Table:
    """Return the table of what was counted."""
    table = _table("counted", "route", "forwards", "layer-pos", "back", "head-pos", "back")
    for phase, both in result.phases.items():
        for route, work in zip(("naive", "ours"), both, strict=True):
            each = (work.forwards, work.layers, work.layers_back, work.heads, work.heads_back)
            table.add_row(phase if route == "naive" else "", route, *map("{:,}".format, each))
    return table


def rest(result: Result) -> Table:
    """Return rates, memory, writes and differences."""
    routes, memory, seen = (result.naive, result.ours), result.memory, result.differences
    table = Table.grid(padding=(0, 2))
    edits = [result.cases / works[EDIT].seconds for works in routes]
    table.add_row("edits/s", "{:.3f} → {:.3f}".format(*edits))
    if result.texts:
        tokens = [result.tokens / works[GENERATION].seconds for works in routes]
        table.add_row("tokens/s", "{:,.0f} → {:,.0f}".format(*tokens))
        alike = result.texts - seen.texts
        table.add_row("texts", f"{alike} of {result.texts} alike, token by token")
    table.add_row(
        "memory",
        f"{memory.naive / MIB:.1f} → {memory.each / MIB:.1f} MiB a case "
        f"({memory.each / memory.naive:.1%}, goal ≤ 10%); "
        f"{memory.ours / MIB:.1f} MiB for {memory.group} at once",
    )
    part = result.first / result.plain
    table.add_row("search", f"naive is {part:.2f} of as many plain passes (at most {ABOVE_PLAIN})")
    writes = [sum(work.writes for work in works.values()) for works in routes]
    table.add_row("writes", "{} → {} of weights (goal 0)".format(*writes))
    table.add_row(
        "differences",
        f"update {seen.update:.1e}  nll {seen.nll:.1e}  kl {seen.kl:.1e} (goal ≤ 1e-04)  "
        f"flips {seen.flips}",
    )
    return table


def data(result: Result) -> dict[str, Any]:
    """Return the result as JSON-ready data."""
    return {
        "work": {
            phase: {
                route: asdict(work) | {"macs": work.macs(result.cost)}
                for route, work in zip(("naive", "ours"), both, strict=True)
            }
            for phase, both in result.phases.items()
        },
        "memory": asdict(result.memory),
        "texts": result.texts,
        "tokens": result.tokens,
        "differences": asdict(result.differences),
    }


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for i, head in enumerate(heads):
        table.add_column(head, justify="right" if i else "left", no_wrap=True)
    return table
