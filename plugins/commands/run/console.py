"""What a run shows on the terminal: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from edit_harness.errors import DataError, HarnessError, LeakError, counted, one_line
from edit_harness.folder.record import OK, Record
from edit_harness.registry.settings import Named, defaults, settings
from edit_harness.run.controls import is_control
from edit_harness.run.estimates import usable
from edit_harness.run.report import table
from edit_harness.run.results import Results
from edit_harness_plugins.terminal import err, out, plain

from ..report import facts, formats, layouts
from ..report.facts import failed, grouped, labels, sound

if TYPE_CHECKING:
    from rich.console import RenderableType

    from edit_harness.folder.folder import RunFolder
    from edit_harness.run.evaluation import Evaluation

    from .flags import Options

DONE, SOME_FAILED = 0, 1
SHOWN_FAILURES, SHOWN_CASES = 5, 3
"""Reasons why cases failed that are listed, and cases that are named for each."""


def header(heading: Iterable[Sequence[str]]) -> None:
    """Print what `heading` yields."""
    for label, text in heading:
        line(label, text)


def heading(evaluations: Sequence[Evaluation], where: str) -> Iterator[tuple[str, str]]:
    """Yield what is run and ``where``, text by label: model, editors, task."""
    shared = evaluations[0]
    model, task, source = shared.model, shared.task, shared.model.source
    place = f"{model.precision}  {where}"
    yield "model", f"{source.family or source.path}  {model.size:,} parameters  {place}"
    yield "", source.note
    for what, mark in model.let_in.items():
        yield "", f"{what.replace('_', ' ')} let in: {mark}"
    if model.tokens.chats:
        yield "", "prompts in the chat template, a protocol of its own: compare with no plain one"
    yield "", str(shared.preview or "")
    for each in evaluations:
        preset = f"preset: {each.preset}" if each.preset else "no preset"
        yield "editor", f"{each.label}  ({each.editor.version})  {preset}"
        fields = settings(each.editor.value).items()
        yield "", "  ".join(f"{key}={value}" for key, value in fields if value not in ("", ()))
    cases = f"{len(shared.cases):,} cases of {task.value.origin or 'its own data'}"
    yield "task", f"{task.name} {task.version}  {cases}  mode {shared.regime}"
    if shared.share:
        own = counted(len(shared.own_cases), "case")
        yield "shard", f"{shared.share}: {own} of these; merge joins the shards"
    for note in getattr(task.value, "notes", ()):
        yield "note", note
    if judge := shared.judge:
        yield "judge", f"{judge.name} {judge.version}  {_set(judge.value)}"
        if not facts.asked(shared.cases):
            yield "", facts.IDLE
    for control in shared.controls:
        yield "control", f"{control.name}  {_set(control.value)}"


def _set(plugin: Any) -> str:
    usual = defaults(type(plugin))
    own = [f"{k}={v}" for k, v in settings(plugin).items() if v != usual[k]]
    return "  ".join(filter(None, [*own, plugin.note]))


def line(label: str, text: str) -> None:
    """Print a text behind its label; nothing where there is no text."""
    if text:
        err.print(formats.labelled(label, text, err.width))


@contextmanager
def tolerated(codes: list[int], several: bool, who: str = "") -> Iterator[None]:
    """Where there are several combinations, report the one that fails, and ``who`` it is; go on with the others."""
    try:
        yield
    except HarnessError as error:
        if not several or isinstance(error, LeakError):
            raise
        codes.append(error.code)
        err.print(f"error: {who and f'{who}: '}{one_line(error.cause)}", soft_wrap=True)
        if error.remedy:
            err.print(f"       {one_line(error.remedy)}", soft_wrap=True)


def note_stopped(judge: Named | None, codes: list[int]) -> None:
    """Say why a judge judged no more, if so, and note the exit code."""
    if judge and (why := judge.value.stopped):
        codes.append(DataError.code)
        err.print(f"error: judge {judge.name} stopped: {one_line(why)}")
        err.print("       mend it; `edit-harness score RUN` asks it for the rest")


def note_pending(run: Results) -> None:
    """Say in one line how many texts wait for a judge, and why, where nothing else is said."""
    if run.pending:
        text = f"pending  {counted(run.pending, 'text')} in {run.folder.path}: {facts.why_pending(run)}"
        err.print(" ".join(text.split("\n")), soft_wrap=True)


@contextmanager
def progress(
    evaluations: Sequence[Evaluation], *, quiet: bool
) -> Iterator[Callable[[Evaluation, Record], None]]:
    """Show a bar with how many failed; yields what is to be called with every record."""
    columns = (TextColumn("editing"), BarColumn(bar_width=20), MofNCompleteColumn(),
               TimeRemainingColumn(compact=True), TextColumn("failed {task.fields[failed]}"))  # fmt: skip
    with Progress(*columns, console=err, disable=quiet or not err.is_terminal) as bar:
        task = bar.add_task("editing", total=sum(len(e.visits) for e in evaluations), failed=0)

        def advance(_: Evaluation, record: Record) -> None:
            failed = bar.tasks[task].fields["failed"] + (record.status != OK)
            bar.update(task, advance=1, failed=failed)

        yield advance


def note_nothing(folder: RunFolder) -> None:
    """Say that a command finds all its cases there."""
    again = "--new runs it again, --retry-failed what failed"
    line("note", f"nothing is run: {folder.path} has it all; {again}")


def show(runs: Sequence[Results], options: Options) -> None:
    """Print notes and tables of finished runs."""
    named, quiet = len(runs) > 1, options.quiet
    for run in runs:
        if quiet:
            note_pending(run)
        for note in () if quiet else run.folder.notes:
            err.print(f"note     {note}")
        if not options.as_json:
            finished(run, quiet=quiet, verbose=options.verbose, named=named)


def finished(run: Results, *, quiet: bool, verbose: bool, named: bool = False) -> None:
    """Print the tables of a run, its failures and where it lies; ``named`` says of which editor."""
    if named:
        out.print(Text.assemble("\n", ("editor", "bold cyan"), "   ", plain(run.label)))
    numbers = any(record.status == OK for record in run.everything if not is_control(record.case))
    tables = [list(own.items()) for own in run.tables.values()]
    shown = [table for own in tables for table in own[: None if verbose else 1]]
    rows = run.shown(verbose)
    if numbers or not usable(run.records):
        out.print(table(rows), soft_wrap=True)
        for part in formats.rich(layouts.besides([run]), out.width):
            out.print(part)
        if not rows:
            err.print(f"nothing  {', '.join(run.metrics)}: nothing to measure in these cases")
        if len(run.curve) > 1:
            out.print(*formats.rich([layouts.curve(run)], out.width), sep="\n")
        for title, contents in shown:
            out.print("", formats.listed(title, contents), sep="\n")
    else:
        out.print("every case failed: there are no numbers")
    if quiet:
        return
    if numbers and (more := sum(map(len, tables)) - len(shown)):
        line("tables", f"{more} more: edit-harness score {run.folder.path} -v")
    for label, text in remarks(run):
        line(label, text)


def ended(runs: Sequence[Results], codes: Sequence[int], *, several: bool, as_json: bool) -> int:
    """Print runs as JSON, or the tables of several runs; return the exit code."""
    if as_json:
        results = [run.results() for run in runs]
        out.out(json.dumps(results if several or not results else results[0], indent=1))
    elif len(runs) > 1:
        out.print(*summary(runs), sep="\n")
    return max(*codes, DONE if all(map(sound, runs)) else SOME_FAILED)


def remarks(run: Results) -> Iterator[tuple[str, str]]:
    """Yield what a reader of a run's table has to know, and where it lies."""
    yield "failed", failed(run)
    causes = grouped(run.failures, lambda record: (record.status, record.message))
    for alike in causes[:SHOWN_FAILURES]:
        names = [record.case for record in alike]
        first = ", ".join(names[:SHOWN_CASES])
        many = f"{len(names)} cases, such as {first}"
        which = many if len(names) > SHOWN_CASES else f"case{'s'[: len(names) - 1]} {first}"
        yield "", f"{which}: {alike[0].status}: {alike[0].message}"[: 3 * err.width]
    yield from facts.remarks(run)
    if run.pending:
        who = "" if run.manifest.judge else " --judge NAME"
        yield "", facts.why_pending(run)
        yield "next", f"edit-harness score {run.folder.path}{who}"
    if run.manifest.judge and (judged := facts.judged(run)):
        by = f"{run.manifest.judge.name} {run.manifest.judge.version}"
        by += f" ({', '.join(run.served)})" if run.served else ""
        yield "judged", f"{counted(judged, 'text')} by {by}  {run.manifest.judge.note}".rstrip()
    yield "saved", f"{run.folder.path}/"
    if part := run.manifest.shard:
        own, every = (f"shard-{number}-of-{part.of}" for number in (part.number, "*"))
        path = run.folder.path.with_name(run.folder.path.name.replace(own, every))
        yield "next", f"when all shards have run: edit-harness merge {path} -o {path.parent}"


def summary(runs: Sequence[Results]) -> Iterator[RenderableType]:
    """Yield tables of several runs of one precision each, with what tells them apart."""
    precisions = grouped(runs, lambda run: run.manifest.identity.model.dtype)
    always = ("Editor", "Precision") if len(precisions) > 1 else ("Editor",)
    for some in precisions:
        heads, names = labels(some, always)
        lines = [run.shown() for run in some]
        yield from formats.rich([layouts.combined(heads, names, lines)], out.width)
