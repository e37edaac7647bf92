"""What a run shows on the terminal: header, progress, tables.

Results go to stdout, everything else to stderr. Texts from data are never read as markup.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import fmean

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from edit_harness.evaluation import Evaluation
from edit_harness.interfaces import Measure
from edit_harness.presets import settings
from edit_harness.records import OK, Record

LIVE = 3
"""Measures in the line of progress."""

out = Console(highlight=False, soft_wrap=False)
err = Console(stderr=True, highlight=False)


def header(evaluations: Sequence[Evaluation]) -> None:
    """Print what is run: model, editors, task."""
    shared = evaluations[0]
    model, task = shared.model, shared.task
    count = sum(p.numel() for p in model.module.parameters())
    name = model.source.family or model.source.path
    _line("model", f"{name}  {count:,} parameters  {model.precision}  {model.device}")
    if model.source.note:
        _line("", model.source.note)
    if model.tokens.chats:
        _line("", "prompts in the chat template, a protocol of its own: compare with no plain one")
    if shared.preview:
        _line("", str(shared.preview))
    for evaluation in evaluations:
        _editor(evaluation)
    what = task.value.origin or "its own data"
    _line("task", f"{task.name} {task.version}  {len(shared.cases):,} cases of {what}  "
                  f"mode {shared.regime.mode}")  # fmt: skip
    for note in getattr(task.value, "notes", ()):
        _line("note", note)


def _editor(evaluation: Evaluation) -> None:
    preset = f"preset: {evaluation.preset}" if evaluation.preset else "no preset"
    _line("editor", f"{evaluation.label}  ({evaluation.editor.version})  {preset}")
    fields = settings(evaluation.editor.value).items()
    shown = [f"{key}={value}" for key, value in fields if value not in ("", ())]
    _line("", "  ".join(shown))


def _line(label: str, text: str) -> None:
    """Print one labelled line, wrapped under its label."""
    width = err.width - 9
    lines: Iterable[Text] = Text(text).wrap(err, width) if text else []
    for i, line in enumerate(lines):
        err.print(Text.assemble((f"{label if i == 0 else '':9}", "bold cyan"), line))


@contextmanager
def progress(
    evaluations: Sequence[Evaluation], *, quiet: bool
) -> Iterator[Callable[[Evaluation, Record], None]]:
    """Show a bar with running means; yields what is to be called with every record."""
    running = {e: Running(e.measures) for e in evaluations}
    columns = (
        TextColumn("editing"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        SpeedColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[live]}"),
    )
    with Progress(*columns, console=err, disable=quiet or not err.is_terminal) as bar:
        task = bar.add_task("editing", total=sum(len(e.cases) for e in evaluations), live="")

        def advance(evaluation: Evaluation, record: Record) -> None:
            running[evaluation].add(record)
            bar.update(task, advance=1, live=live(running))

        yield advance


def live(running: Mapping[Evaluation, Running]) -> str:
    """Return the running means: several of one editor, or the first of each of several."""
    if len(running) == 1:
        (only,) = running.values()
        return only.text(LIVE)
    return "  ".join(f"{e.label} {means.text(1)}" for e, means in running.items())


class SpeedColumn(ProgressColumn):
    """Cases a second."""

    def render(self, task: Task) -> Text:
        """Return the speed over the last cases."""
        speed = task.finished_speed or task.speed
        return Text(f"{speed:.1f}/s" if speed else "")


class Running:
    """Running means of the cases so far."""

    def __init__(self, measures: Mapping[str, Measure]) -> None:
        self.measures = measures
        self.values: dict[str, list[float]] = {}
        self.failed = self.noop = 0

    def add(self, record: Record) -> None:
        """Take in one case."""
        self.failed += record.status != OK
        self.noop += record.noop
        for values in record.values.values():
            for name, value in values.items():
                if value is not None and not math.isnan(value):
                    self.values.setdefault(name, []).append(value)

    def text(self, most: int) -> str:
        """Return the first means, and how many cases went wrong."""
        shown = [
            f"{name} {100 * fmean(self.values[f'post_{name}']):.1f}"
            for name, measure in self.measures.items()
            if not measure.detail and f"post_{name}" in self.values
        ]
        counts = {"failed": self.failed, "no-op": self.noop}
        wrong = [f"{name} {n}" for name, n in counts.items() if n or most > 1]
        return "  ".join(shown[:most] + wrong)
