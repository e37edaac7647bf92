"""Put a run together: plugins, model, plan, run folder, estimates.

The command line and the Python interface (`edit_harness.api`) both come through here.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import transformers

from edit_harness import (
    accounts,
    baselines,
    beside,
    control,
    digests,
    guard,
    judging,
    plan,
    precision,
    records,
)
from edit_harness.assembly import Benchmark, make_editor
from edit_harness.beside import Care, Rows
from edit_harness.cases import Case, Visit
from edit_harness.components import Named, described, make_judge, make_metrics
from edit_harness.encoding import decode_answer
from edit_harness.errors import CaseError, HarnessError, RunFolderError, UsageError
from edit_harness.fields import settings
from edit_harness.interfaces import Editor, Measure, Metric, Regime
from edit_harness.model import Model
from edit_harness.outcome import Run, measures_of
from edit_harness.packages import Package
from edit_harness.plan import Step
from edit_harness.plugins import Plugins
from edit_harness.precision import Preview
from edit_harness.records import OK, Record, RunFolder
from edit_harness.tokens import TooLongError
from edit_harness.tuned import Tuned

Advance = Callable[[Record], None]
NO_CARE = Care()


@dataclass(eq=False)
class Evaluation:
    """Everything that a run needs, checked, before its first edit."""

    model: Model
    editor: Named
    preset: str
    task: Named
    cases: Sequence[Case]
    metrics: Mapping[str, Metric]
    seed: int
    regime: Regime = field(default_factory=Regime)
    judge: Named | None = None
    data_digest: str = ""
    packages: Sequence[Package] = ()
    """What the code came in, our own included."""
    tuned: Tuned | None = None
    """Where fields come from that a sweep has found."""

    @property
    def label(self) -> str:
        """The editor's name as tables show it."""
        variant = self.editor.value.variant
        return f"{self.editor.name}[{variant}]" if variant else self.editor.name

    @cached_property
    def steps(self) -> list[Step]:
        """The plan: what is edited and measured, in which order."""
        planned = [case for case in self.cases if not case.problem]
        return list(plan.steps(planned, self.regime, self._control))

    @cached_property
    def _control(self) -> Case | None:
        """What shows whether the model survives, where many edits share it."""
        return (
            None if self.regime.mode == "single" else control.control(self.model.source, self._fits)
        )

    def _fits(self, text: str) -> bool:
        """Tell whether a text takes half of the model's room at most, and leaves the rest to edits."""
        tokens = self.model.tokens
        try:
            return tokens.limit is None or 2 * len(tokens.encode(text).ids) <= tokens.limit
        except TooLongError:
            return False

    @property
    def visits(self) -> list[Visit]:
        """What the records of the finished run are called."""
        invalid = [(case.id, 0) for case in self.cases if case.problem]
        return invalid + [visit for step in self.steps for visit in step.visits]

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What the numbers depend on: all that goes into the fingerprint of the run."""
        together = [case for step in self.steps for case in step.edit]
        return {
            "schema": records.SCHEMA,
            "editor": {
                "name": self.editor.name,
                "version": self.editor.version,
                "fields": settings(self.editor.value),
                "provenance": dict(self.editor.value.provenance),
            },
            "task": {
                "name": self.task.name,
                "version": self.task.version,
                "data": self.data_digest,
            },
            "metrics": sorted(self.metrics),
            "judge": described(self.judge) if self.judge else None,
            "model": {
                "digest": self.model.digest,
                "config": digests.of_config(self.model.module.config),
                "tokenizer": self.model.tokens.digest,
                "dtype": self.model.precision,
            },
            "regime": asdict(self.regime),
            # Single edits are independent, so that a run of more cases can go on from one of fewer.
            "together": records.cases_digest([*together, self._control]) if self._control else "",
            "seed": self.seed,
            "code": sorted([package.name, package.digest] for package in self.packages),
        }

    @cached_property
    def preview(self) -> Preview | None:
        """What the model's precision costs, where it is below that of record."""
        return precision.preview(self.model, self.cases)

    def lacks_nothing(self, folder: RunFolder, *, retry: bool) -> bool:
        """Tell whether a folder has all rows, and none to be tried again if that is wished."""
        known = folder.visits()
        again = beside.retried(self, known) if retry else ()
        return known.keys() >= set(self.visits) and not again

    def turn_to(self, model: Model) -> None:
        """Go on with another copy of the same model."""
        self.model = model
        self.editor.value.prepare(model)

    def case(self, name: str) -> Case:
        """Return a case of the plan by its id, the control included."""
        planned = (case for step in self.steps for case in step.measure)
        return next(case for case in planned if case.id == name)

    @property
    def measures(self) -> dict[str, Measure]:
        """The measures of all metrics, in their order."""
        return measures_of(self.metrics)

    def open(self, output: Path, *, new: bool = False) -> RunFolder:
        """Make the run's folder, or find it again."""
        parts = [self.label, self.task.name, self.model.name]
        if self.regime.mode != "single":
            parts.append(self.regime.mode)
        if self.preview:
            parts.append(self.preview.precision)
        folder = RunFolder.open(output, "-".join(map(slug, parts)), self.identity, new=new)
        folder.notes += folder.oddities()
        if not folder.has_cases([case.id for case in self.cases]):
            folder.write_cases(self.cases)
        folder.write_manifest(
            {
                "fingerprint": records.fingerprint(self.identity),
                "identity": self.identity,
                "cases": [case.id for case in self.cases],
                "judged_by": folder.manifest().get("judged_by"),
                "judge_settings": settings(self.judge.value)
                if self.judge
                else folder.manifest().get("judge_settings"),
                "label": self.label,
                "metrics": list(self.metrics),
                "visits": len(self.visits),
                "preset": self.preset,
                "tuned": self.tuned.entry(self.cases) if self.tuned else None,
                "found": dict(self.editor.value.found),
                "preview": asdict(self.preview) if self.preview else None,
                "model": {
                    "name": self.model.name,
                    "path": self.model.source.path,
                    "note": self.model.source.note,
                    "parameters": sum(p.numel() for p in self.model.module.parameters()),
                    "let_in": self.model.let_in,
                },
                "task": {
                    "origin": self.task.value.origin,
                    "notes": list(getattr(self.task.value, "notes", ())),
                },
                "distributions": [package.identity for package in self.packages],
                "environment": environment(self.model),
            }
        )
        return folder

    def run(self, folder: RunFolder, advance: Advance = lambda record: None) -> Run:
        """Run what the folder lacks, and return the whole."""
        (run,) = run_beside({self: folder}, lambda evaluation, record: advance(record))
        return run


def run_beside(
    folders: Mapping[Evaluation, RunFolder],
    advance: Callable[[Evaluation, Record], None],
    care: Care = NO_CARE,
) -> list[Run]:
    """Run what the folders lack, chunk by chunk, one editor after the other on each.

    The evaluations are of the same cases of the same model, whose clean passes they share.
    """
    known = {e: {r.visit: r for r in folder.records()} for e, folder in folders.items()}
    with ExitStack() as stack:
        stack.enter_context(guard.staying())
        rows = {}
        for evaluation, folder in folders.items():
            statuses = {visit: record.status for visit, record in known[evaluation].items()}
            again = beside.retried(evaluation, statuses) if care.retry else set()
            write = stack.enter_context(folder.writing())
            rows[evaluation] = Rows(folder, write, known[evaluation], again)
        for evaluation, its in rows.items():
            for visit in evaluation.visits:
                if visit in its.known and visit not in its.again:
                    advance(evaluation, its.known[visit])
        try:
            _go_on(rows, advance, care)
            _compare_before(rows)
        except BaseException:
            with suppress(HarnessError):  # what is told is why it ended
                _summed(rows)
            raise
        for evaluation, its in rows.items():
            accounts.check(evaluation.visits, its.folder, its.known)
        return _summed(rows)


def _go_on(
    rows: Mapping[Evaluation, Rows], advance: Callable[[Evaluation, Record], None], care: Care
) -> None:
    """Make the records that are missing. Raises `CaseError` at the first failure, if that is to end it."""
    # Closed when something ends it, so that an editor at work ends now, and not some time later.
    with closing(beside.turns(rows, care)) as fresh:
        for evaluation, record in fresh:
            advance(evaluation, record)
            if care.stop and record.status != OK and record.case != control.ID:
                raise CaseError(
                    f"case {record.case} failed ({record.status}): {record.message}",
                    "go on with the same command and --on-error skip",
                )


def _compare_before(rows: Mapping[Evaluation, Rows]) -> None:
    """Raise `RunFolderError` if the unedited model did not answer as is published of it.

    Then no row that was written now counts any more: another model was at work.
    """
    found = [
        f"{its.folder.path}: {how}" + "; the new rows were withdrawn" * its.withdraw(how)
        for evaluation, its in rows.items()
        if (how := _mismatch(evaluation, its))
    ]
    if found:
        raise RunFolderError(
            found[0],
            "another model, prompt or device setting is at work: try --batch-size 1 and --device cpu",
        )


def _mismatch(evaluation: Evaluation, its: Rows) -> str:
    """Say how the answers before the edits of the planned cases are not those that are published."""
    planned = {case.id: case for case in evaluation.cases}
    answered = (
        (planned[name], [decode_answer(answer) for answer in record.before])
        for (name, _), record in its.known.items()
        if name in planned
    )
    return baselines.mismatch(evaluation.model.source, evaluation.identity, answered)


def _summed(rows: Mapping[Evaluation, Rows]) -> list[Run]:
    """Return the runs, as far as they have come, and write their results down."""
    runs = []
    for evaluation, its in rows.items():
        there = [its.known[visit] for visit in evaluation.visits if visit in its.known]
        runs.append(Run(its.folder, evaluation.metrics, its.folder.manifest(), there))
        its.folder.write_results(runs[-1].results())
    return runs


def assemble(
    plugins: Plugins,
    model: Model,
    benchmark: Benchmark,
    *,
    editor: str | Editor,
    editor_args: Mapping[str, Any],
    metrics: Sequence[str] | None = None,
    judge: str = "",
    judge_args: Mapping[str, Any] | None = None,
    regime: Regime | None = None,
    limit: int | None = None,
    samples: Sequence[str] = (),
    seed: int = 0,
    tuned: Tuned | None = None,
) -> Evaluation:
    """Build and check everything that a run needs. Raises `HarnessError`.

    ``judge`` and ``regime`` are the task's own if they are not given.
    """
    task = benchmark.task.value
    names = metrics or task.metrics
    known = {name: plugins.find("metric", name) for name in names}
    measuring = make_metrics(plugins, names)
    named, configured = make_editor(plugins, model, editor, editor_args, seed, tuned)
    cases = benchmark.selected(limit, samples)
    judging_by = _judge(plugins, judge or task.judge, judge_args or {}, seed, cases)
    parts = [(part.value, part.package) for part in (named, benchmark.task, judging_by) if part]
    parts += [(measuring[name], component.package) for name, component in known.items()]
    return Evaluation(
        model=model,
        editor=named,
        preset=configured.source,
        task=benchmark.task,
        cases=cases,
        metrics=measuring,
        seed=seed,
        regime=regime or task.regime,
        judge=judging_by,
        data_digest=benchmark.digest,
        packages=contributing(plugins, [*parts, (model.source, None)]),
        tuned=tuned,
    )


def contributing(plugins: Plugins, parts: Iterable[tuple[Any, Package | None]]) -> list[Package]:
    """Return what the classes of objects came in, and our own package, by name.

    An object stands with the package that registered it, if one did.
    """
    found = [package for value, by in parts for package in plugins.packages_of(type(value), by)]
    ours = plugins.packages_of(Plugins)
    distinct = {tuple(package.identity.values()): package for package in [*ours, *found]}
    return [distinct[identity] for identity in sorted(distinct)]


def _judge(
    plugins: Plugins, name: str, args: Mapping[str, Any], seed: int, cases: Sequence[Case]
) -> Named | None:
    """Return the judge of that name; None if there is no name, or the name is ``none``.

    Raises `UsageError` for settings without a judge, and for a judge that cannot judge these cases.
    """
    if name in ("", "none"):
        if args:
            raise UsageError("--judge-args are for a judge, and there is none", "name it: --judge")
        return None
    made = make_judge(plugins.find("judge", name), args, seed)
    judging.check_kinds(made.value, made.name, cases)
    return made


def slug(text: str) -> str:
    """Return a text as a part of a folder's name."""
    return "".join(c if c.isalnum() or c in ".=" else "-" for c in text).strip("-")


def environment(model: Model) -> dict[str, str]:
    """Return what may differ between machines without making another run of it."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": str(model.device),
        "threads": str(torch.get_num_threads()),
    }
