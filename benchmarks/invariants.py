"""What it costs to be sure of a run's numbers: the same run with all checks and without, and each part.

    python -m benchmarks.invariants --cases 64 --rounds 3

CPU seconds of one process on the bundled model's own sample, the routes in turn, after a warm-up.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from statistics import median
from time import process_time
from unittest import mock

import click
import torch

from edit_harness.registry import guard
from edit_harness.registry.registry import Plugins
from edit_harness.run import assembly, evaluation, loop
from edit_harness.run.clean import CleanPass
from edit_harness.run.evaluation import Evaluation
from edit_harness.run.integrity import ModelGuard
from edit_harness.run.spec import RunSpec, Selection
from edit_harness_plugins.commands.run.local import turns
from edit_harness_plugins.loading import edit_harness_try_model, trial

OFF = (
    (ModelGuard, "__init__"),
    (ModelGuard, "check"),
    (ModelGuard, "verify"),
    (trial, "check_batches"),
    (trial, "check_nothing"),
)
"""What is left out on the route without."""


@click.command()
@click.option("--cases", type=click.IntRange(1), default=64, show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--editor", default="rome", show_default=True)
def main(cases: int, rounds: int, editor: str) -> None:
    """Time both routes and each part, and print shares of the run's time."""
    torch.set_num_threads(1)
    made = assembled(cases, editor)
    timed(lambda: run(made))
    pairs = [raced(made, first=turn % 2 == 0) for turn in range(rounds)]
    whole, bare = (min(side) for side in zip(*pairs, strict=True))
    ratio = median(mine / other for mine, other in pairs)
    print(f"{editor}, {len(made.cases)} cases, {rounds} rounds")
    print(f"with {whole:.2f} s   without {bare:.2f} s   least by least {whole / bare - 1:+.2%}   "
          f"median of ratios {ratio - 1:+.2%}")  # fmt: skip
    print("| part | ms | times in a run | share |\n|---|---|---|---|")
    for name, seconds, times in parts(made):
        print(f"| {name} | {1e3 * seconds:.2f} | {times} | {seconds * times / bare:.2%} |")


def raced(made: Evaluation, *, first: bool) -> tuple[float, float]:
    """Return the seconds with all checks and without; ``first`` says that the former begin."""
    taken = {}
    for checked in (first, not first):
        with nullcontext() if checked else unchecked():
            taken[checked] = timed(lambda: run(made))
    return taken[True], taken[False]


def assembled(cases: int, editor: str) -> Evaluation:
    """Return the run that is timed."""
    plugins = Plugins.installed()
    model = assembly.load(plugins, "pocket", device="cpu")
    benchmark = assembly.make_benchmark(plugins, "counterfactplus", {}, model.source)
    return evaluation.assemble(plugins, model, benchmark, RunSpec(editor), Selection(cases))


def run(made: Evaluation) -> None:
    """Run all into a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        loop.run_all({made: made.open(Path(folder))}, turns=turns)


@contextmanager
def unchecked() -> Iterator[None]:
    """Leave all checks out."""
    with ExitStack() as stack:
        for holder, name in OFF:
            stack.enter_context(mock.patch.object(holder, name, mock.Mock(return_value=None)))
        stack.enter_context(mock.patch.object(guard, "restored", nothing))
        yield


@contextmanager
def nothing(told: Callable[[list[str]], None]) -> Iterator[None]:
    """Stand in for what puts back."""
    yield


def parts(made: Evaluation) -> Iterator[tuple[str, float, int]]:
    """Yield each part with its seconds, and how often it is done in a run that shares its chunks."""
    before = CleanPass(made.model)
    case = next(case for case in made.cases if not case.problem)
    chunks = -(-len(made.cases) // 64)

    def put_back() -> None:
        with guard.restored(lambda names: None):
            pass

    for name, work, times in (
        ("the trial before case 1", lambda: edit_harness_try_model(made.model, case), 1),
        ("bits, modules, hooks, tokenizer", before.guard.check, chunks),
        ("fixed texts, with the former", before.guard.verify, chunks),
        ("the process's state", put_back, 3 * chunks),
        ("what the model is at the start", lambda: ModelGuard(made.model), 1),
    ):
        yield name, median(timed(work) for _ in range(7)), times


def timed(work: Callable[[], object]) -> float:
    """Return the CPU seconds that a function takes."""
    start = process_time()
    work()
    return process_time() - start


if __name__ == "__main__":
    main()
