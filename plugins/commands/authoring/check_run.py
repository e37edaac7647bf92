"""A small run on the bundled model, as ``edit-harness run`` does it: the last check of a package."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from edit_harness.errors import DataError, HarnessError
from edit_harness.folder.records import INVALID, Record
from edit_harness.interfaces import Task
from edit_harness.registry.plugins import Plugins
from edit_harness.run import report
from edit_harness.run.assembly import load, make_benchmark, make_editor
from edit_harness.run.estimates import LEVEL
from edit_harness.run.evaluation import Evaluation, assemble
from edit_harness.run.loop import run_all
from edit_harness.run.outcome import Run
from edit_harness.run.spec import RunSpec, Selection
from edit_harness.terminal import Terminal

from .check_reasons import NotTried

MODEL, TASK, EDITOR = "pocket", "counterfact", "ft"
"""What a package that brings no task or no editor is run with."""


class RunTests:
    """A run of an editor on the first cases of a task."""

    plugins: Plugins
    editor: str
    task: str | Task
    metrics: Sequence[str] = ()
    """The metrics, if they are not the task's own."""
    limit: int = 10
    width: int = 80
    """Characters of a line of the table."""

    def test_ends_with_every_case_answered(
        self, tmp_path: Path, record_property: Callable[[str, Any], None]
    ) -> None:
        """What users do first with a package is a run."""
        evaluation = self.assembled()
        run = run_all({evaluation: evaluation.open(tmp_path)})[0]
        record_property("table", f"{table(run, self.width)}{invalid(run)}")
        record_property("results", run.results())
        assert len(of_no_use(run)) < len(run.records), "it has no case that can be used"
        assert len(run.failures) == len(of_no_use(run)), failed(run)
        assert not run.pending, f"{run.pending} texts have no verdict: {run.why_pending}"

    def assembled(self) -> Evaluation:
        """Return what is run. Raises `NotTried` if data are missing or the model is refused."""
        model = load(self.plugins, MODEL)
        try:
            benchmark = make_benchmark(self.plugins, self.task, {}, model.source)
        except DataError as error:
            raise NotTried(str(error)) from error
        try:
            make_editor(self.plugins, model, self.editor, {}, seed=0)
        except HarnessError as error:
            raise NotTried(str(error)) from error
        spec = RunSpec(editor=self.editor, task=self.task, metrics=self.metrics)
        return assemble(self.plugins, model, benchmark, spec, Selection(self.limit))


def table(run: Run, width: int) -> str:
    """Return the table of a run as the command ``run`` shows it."""
    rows = [row for row in run.lines if not row.measure.detail] or run.lines
    paper = Terminal(file=io.StringIO(), width=width)
    with paper.capture() as captured:
        paper.print(report.single(rows, LEVEL))
    return captured.get().rstrip()


def of_no_use(run: Run) -> list[Record]:
    """Return the cases that their task says nothing can be asked of."""
    return [record for record in run.failures if record.status == INVALID]


def invalid(run: Run) -> str:
    """Return a line on the cases that are of no use; empty if there are none."""
    count = len(of_no_use(run))
    return f"\n{count} of {len(run.records)} cases are of no use ({INVALID})" if count else ""


def failed(run: Run) -> str:
    """Return how many cases failed, and how the first did."""
    failures = [record for record in run.failures if record.status != INVALID]
    first = failures[0]
    return (
        f"{len(failures)} of {len(run.records)} cases failed; "
        f"case {first.case}: {first.status}: {' '.join(str(first.message).split())}"
    )
