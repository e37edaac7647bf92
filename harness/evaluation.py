"""Put a run together: plugins, model, plan, run folder, estimates.

The command line and the Python interface (`edit_harness.api`) both come through here.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import transformers

from edit_harness import digests, plan, precision, records, report, runner, stats
from edit_harness.assembly import Benchmark, Named, make_editor
from edit_harness.before import Before
from edit_harness.cases import Case
from edit_harness.errors import CaseError, PluginError
from edit_harness.files import cache_folder
from edit_harness.interfaces import Editor, Measure, Metric
from edit_harness.model import Model
from edit_harness.plan import Regime
from edit_harness.plugins import Plugins
from edit_harness.precision import Preview
from edit_harness.presets import settings
from edit_harness.records import OK, Record, RunFolder

LEVEL = 0.99
Advance = Callable[[Record], None]


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
    data_digest: str = ""

    @property
    def label(self) -> str:
        """The editor's name as tables show it."""
        variant = self.editor.value.variant
        return f"{self.editor.name}[{variant}]" if variant else self.editor.name

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What the numbers depend on: all that goes into the fingerprint of the run."""
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
            "model": {
                "digest": self.model.digest,
                "config": digests.of_config(self.model.module.config),
                "tokenizer": self.model.tokens.digest,
                "dtype": self.model.precision,
            },
            "regime": asdict(self.regime),
            "seed": self.seed,
        }

    @cached_property
    def preview(self) -> Preview | None:
        """What the model's precision costs, where it is below that of record."""
        return precision.preview(self.model, self.cases)

    @property
    def measures(self) -> dict[str, Measure]:
        """The measures of all metrics, in their order."""
        return {n: m for metric in self.metrics.values() for n, m in metric.measures.items()}

    def open(self, output: Path, *, new: bool = False) -> RunFolder:
        """Make the run's folder, or find it again."""
        parts = [self.label, self.task.name, self.model.name]
        if self.preview:
            parts.append(self.preview.precision)
        folder = RunFolder.open(output, "-".join(map(slug, parts)), self.identity, new=new)
        folder.write_manifest(
            {
                "fingerprint": records.fingerprint(self.identity),
                "identity": self.identity,
                "cases": [case.id for case in self.cases],
                "label": self.label,
                "preset": self.preset,
                "found": dict(self.editor.value.found),
                "preview": asdict(self.preview) if self.preview else None,
                "model": {"path": self.model.source.path, "note": self.model.source.note},
                "task": {
                    "origin": self.task.value.origin,
                    "notes": list(getattr(self.task.value, "notes", ())),
                },
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
    *,
    stop: bool = False,
) -> list[Run]:
    """Run what the folders lack, chunk by chunk, one editor after the other on each.

    The evaluations are of the same cases of the same model, whose clean passes they share.
    ``stop`` ends at the first failure.
    """
    known = {e: {r.case: r for r in folder.records()} for e, folder in folders.items()}
    for evaluation, case in ((e, case) for e in folders for case in e.cases):
        if record := known[evaluation].get(case.id):
            advance(evaluation, record)
    with ExitStack() as stack:
        write = {e: stack.enter_context(folder.writing()) for e, folder in folders.items()}
        for evaluation, record in _fresh(known):
            write[evaluation](record)
            known[evaluation][record.case] = record
            advance(evaluation, record)
            if stop and record.status != OK:
                raise CaseError(
                    f"case {record.case} failed ({record.status}): {record.message}",
                    "go on with the same command and --on-error skip",
                )
    runs = [Run(e, folders[e], [known[e][case.id] for case in e.cases]) for e in folders]
    for run in runs:
        run.folder.write_results(run.results())
    return runs


def _fresh(known: Mapping[Evaluation, Collection[str]]) -> Iterator[tuple[Evaluation, Record]]:
    """Yield the records that are still to be made, the editors in turn on each chunk."""
    before = Before(next(iter(known)).model, cache_folder() / "answers")
    streams = {
        e: runner.chunks(
            e.model,
            e.editor.value,
            plan.steps(e.cases, e.regime),
            e.metrics,
            before,
            done=set(done),
        )
        for e, done in known.items()
    }
    more = True
    while more:
        for evaluation, stream in streams.items():
            records = next(stream, None)
            more = records is not None
            yield from ((evaluation, record) for record in records or ())


@dataclass
class Run:
    """A finished run."""

    evaluation: Evaluation
    folder: RunFolder
    records: Sequence[Record]

    @cached_property
    def estimates(self) -> dict[str, stats.Estimate]:
        """Every summary with its interval, by its stored name such as ``post_NS+``."""
        found: dict[str, stats.Estimate] = {}
        for name, metric in self.evaluation.metrics.items():
            estimates = stats.bootstrap(
                records.columns(self.records, name),
                metric.summarize,
                level=LEVEL,
                seed=self.evaluation.seed,
            )
            if twice := found.keys() & estimates.keys():
                raise PluginError(
                    f"metric {name} gives {min(twice)}, which another metric gives too",
                    "choose one of them: --metrics",
                )
            found |= estimates
        return found

    def __getitem__(self, name: str) -> stats.Estimate:
        """Return the estimate of a measure after the edit, such as ``run["NS+"]``."""
        return self.estimates[f"post_{name}" if f"post_{name}" in self.estimates else name]

    @property
    def failures(self) -> list[Record]:
        """The cases without a valid answer."""
        return [record for record in self.records if record.status != OK]

    @property
    def lines(self) -> list[report.Line]:
        """The lines of the table."""
        preview = self.evaluation.preview
        floor = preview.floor if preview else 0.0
        return list(report.lines(self.evaluation.measures, self.estimates, floor))

    def table(self) -> str:
        """Return the table as plain text."""
        return report.render(report.single(self.lines, LEVEL))

    def results(self) -> dict[str, Any]:
        """Return the results as JSON-ready data, under lm-evaluation-harness's kind of keys."""
        mode = self.evaluation.regime.mode
        flat: dict[str, Any] = {}
        for name, estimate in self.estimates.items():
            flat[f"{name},{mode}"] = estimate.value
            flat[f"{name}_low,{mode}"] = estimate.low
            flat[f"{name}_high,{mode}"] = estimate.high
            flat[f"{name}_n,{mode}"] = estimate.n
        return {
            "editor": self.evaluation.label,
            "preset": self.evaluation.preset,
            "task": self.evaluation.task.name,
            "model": self.evaluation.model.source.path,
            "precision": self.evaluation.model.precision,
            "level": LEVEL,
            "results": records.finite(flat),
            "cases": len(self.records),
            "failed": {r.case: r.status for r in self.failures},
            "noop": sum(r.noop for r in self.records),
        }


def assemble(
    plugins: Plugins,
    model: Model,
    benchmark: Benchmark,
    *,
    editor: str | Editor,
    editor_args: Mapping[str, Any],
    metrics: Sequence[str] | None = None,
    limit: int | None = None,
    samples: Sequence[str] = (),
    seed: int = 0,
) -> Evaluation:
    """Build and check everything that a run needs. Raises `HarnessError`."""
    names = metrics or benchmark.task.value.metrics
    measuring = {name: plugins.find("metric", name).load()() for name in names}
    named, configured = make_editor(plugins, model, editor, editor_args, seed)
    return Evaluation(
        model=model,
        editor=named,
        preset=configured.source,
        task=benchmark.task,
        cases=benchmark.selected(limit, samples),
        metrics=measuring,
        seed=seed,
        data_digest=benchmark.digest,
    )


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
