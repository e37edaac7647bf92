"""The command ``leaderboard baseline``: ask an unedited model a task's cases, and write that down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from edit_harness.cases import Answer, Case, is_finite
from edit_harness.errors import DataError, ResourceError, UsageError
from edit_harness.model import digests
from edit_harness.model.model import Model
from edit_harness.model.tokens import TooLongError
from edit_harness.registry.plugins import Plugins
from edit_harness.run import assembly
from edit_harness.run.assembly import Benchmark
from edit_harness.run.clean import CleanPass

from ..run.console import err, out
from ..run.flags import LoadingFlags
from . import baselines
from .baselines import Line

TOGETHER = 32
"""Cases that are asked at once."""


@dataclass(frozen=True, kw_only=True)
class Flags(LoadingFlags):
    """The flags of ``leaderboard baseline``, as they were parsed."""

    task: str
    task_args: Mapping[str, str]
    model: str
    out: str


def baseline(plugins: Plugins, flags: Flags) -> int:
    """Measure and write the baseline, and return the exit code. Raises `HarnessError`."""
    path = Path(flags.out)
    if not path.parent.is_dir():
        raise UsageError(
            f"there is no folder {path.parent}", "make it, or name another: --out FILE"
        )
    source = assembly.checked_source(plugins, flags.model)
    benchmark = assembly.make_benchmark(plugins, flags.task, flags.task_args, source)
    model = assembly.load(plugins, flags.model, **flags.model_options)
    if model.precision not in baselines.TOLERANCE:
        known = ", ".join(baselines.TOLERANCE)
        raise UsageError(f"{model.precision} is no dtype to compare in", f"known: {known}")
    try:
        baselines.write(path, header(model, benchmark), measured(model, benchmark.cases))
    except OSError as error:
        raise ResourceError(f"{path} cannot be written: {error.strerror}", "--out FILE") from None
    size = path.stat().st_size
    err.print(f"saved    {path}  ({len(benchmark.cases):,} cases, {size:,} bytes)", markup=False)
    out.print(str(path), markup=False)
    return 0


def header(model: Model, benchmark: Benchmark) -> dict[str, str]:
    """Return what a baseline of this model and these cases says that it is of."""
    return {
        "name": model.name,
        "model": model.digest,
        "config": digests.of_config(model.module.config),
        "tokenizer": model.tokens.digest,
        "dtype": model.precision,
        "task": benchmark.task.name,
        "version": benchmark.task.version,
        "data": benchmark.digest,
    }


def measured(model: Model, cases: Sequence[Case]) -> Iterator[Line]:
    """Yield the line of each case. Raises `DataError` if the model answers with NaN."""
    before = CleanPass(model)
    rest = iter(cases)
    number = 0
    while chunk := list(islice(rest, TOGETHER)):
        before.turn_to(number)
        number += 1
        usable = [case for case in chunk if not case.problem]
        answers = dict(zip([c.id for c in usable], _answers(before, usable), strict=True))
        for case in chunk:
            yield baselines.line(case, answers.get(case.id, ()))


def _answers(before: CleanPass, cases: Sequence[Case]) -> list[Sequence[Answer]]:
    """Return the answers of each case, none of one that is too long; asked together if they can be."""
    try:
        found = [before.answers(case) for case in _asked(before, cases)]
    except TooLongError:
        found = [_alone(before, case) for case in cases]
    for case, answers in zip(cases, found, strict=True):
        if not all(map(is_finite, answers)):
            raise DataError(
                f"the model answers case {case.id} with NaN or infinity",
                "check the weights, or load it with --dtype float32",
            )
    return list(found)


def _asked(before: CleanPass, cases: Sequence[Case]) -> Sequence[Case]:
    """Ask cases together, so that each is found answered afterwards."""
    if cases:
        before.ask(cases, [])
    return cases


def _alone(before: CleanPass, case: Case) -> list[Answer]:
    try:
        return before.answers(case)
    except TooLongError:
        return []
