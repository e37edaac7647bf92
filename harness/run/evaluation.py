"""A run assembled: everything that a spec names, built and checked before the first edit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Protocol

from ..data import Case, Choose, Examined, Visit
from ..errors import UsageError
from ..folder.folder import RunFolder, folder_name
from ..folder.log import VERSION
from ..folder.manifest import (
    ControlId,
    EditorId,
    Identity,
    JudgeId,
    Manifest,
    ModelId,
    Preview,
    ShardInfo,
    TaskId,
    as_json,
    decoded,
)
from ..folder.table import cases_digest
from ..interfaces import Metric, Regime, whole
from ..model import weights
from ..model.model import Model
from ..registry.packages import Package
from ..registry.registry import Plugins
from ..registry.settings import Named, described, make_metrics, provenance, settings
from . import controls, plan
from .assembly import Benchmark, check_requests, contributing, judge_of, make_editor
from .controls import SAMPLE, make_controls
from .failures import RETRIED
from .plan import Step
from .spec import ALL, RunSpec, Selection

Span = tuple[int, int]
"""First and last (exclusive) place among a plan's visits."""


class Share(Protocol):
    """A part of a plan: see `edit_harness_plugins.commands.run.shards`."""

    @property
    def slug(self) -> str:
        """Its part of a run folder's name."""

    def spans(self, evaluation: Evaluation) -> Sequence[Span]:
        """Return the places of its visits in the plan. Raises `UsageError` for a plan without such a part."""

    def info(self, evaluation: Evaluation, before: Manifest | None) -> ShardInfo:
        """Return what the manifest says of it, given the manifest before."""


@dataclass(eq=False)
class Evaluation:
    """Everything that a run needs, built and checked."""

    spec: RunSpec
    selection: Selection
    model: Model
    editor: Named
    preset: str
    task: Named
    cases: Sequence[Case]
    metrics: Mapping[str, Metric]
    regime: Regime = field(default_factory=Regime)
    judge: Named | None = None
    controls: Sequence[Named] = ()
    """What else edited models are asked; with single edits, only a ``sample`` of so many."""
    sample: int = SAMPLE
    data_digest: str = ""
    packages: Sequence[Package] = ()
    """The packages whose code runs, our own included."""
    dropped: Mapping[str, str] = field(default_factory=dict)
    """The cases left out for a conflict, each with the case that it conflicts with."""
    all_cases: Sequence[Case] = ()
    """All cases of the task, in its order."""
    plugins: Plugins = field(default_factory=Plugins)
    """The plugins whose hooks the run calls."""

    @property
    def share(self) -> Share | None:
        """The shard that runs here, if not the whole plan."""
        return self.selection.share

    @property
    def label(self) -> str:
        """The editor's name as tables show it."""
        variant = self.editor.value.variant
        return f"{self.editor.name}[{variant}]" if variant else self.editor.name

    @cached_property
    def steps(self) -> list[Step]:
        """The plan: what is edited and measured, in which order."""
        planned = [case for case in self.cases if not case.problem]
        sampled = plan.sample(len(planned), self.sample, self.spec.seed)
        # A watch that is asked for by its name is as it was asked for.
        watched = {case.id: case for case in [*self._watching, *self._asked]}
        return list(plan.steps(planned, self.regime, list(watched.values()), sampled))

    @cached_property
    def _watching(self) -> list[Case]:
        """What a plugin watches the model by where many edits share it: it shows a collapse."""
        single = self.regime.mode == "single"
        found = () if single else self.plugins.call("edit_harness_watch", Choose, model=self.model)
        return [controls.case(controls.ID, query) for query in islice(found, 1)]

    @cached_property
    def _asked(self) -> list[Case]:
        """The cases of the controls that were asked for."""
        return [controls.case_of(self.model, each) for each in self.controls]

    @property
    def planned(self) -> list[Visit]:
        """The visits of the whole plan, in its order."""
        invalid = [(case.id, 0) for case in self.cases if case.problem]
        return invalid + [visit for step in self.steps for visit in step.visits]

    @cached_property
    def spans(self) -> Sequence[Span]:
        """The places of the shard's visits among them. Raises `UsageError` if the plan has too few parts."""
        return self.share.spans(self) if self.share else [(0, len(self.planned))]

    @property
    def visits(self) -> list[Visit]:
        """The visits that run here, in the order of the plan."""
        planned = self.planned
        return [visit for start, stop in self.spans for visit in planned[start:stop]]

    @property
    def own_cases(self) -> list[Case]:
        """The cases measured here, in their order."""
        names = {name for name, _ in self.visits}
        return [case for case in self.cases if case.id in names]

    @cached_property
    def identity(self) -> Identity:
        """What the numbers depend on: the content of the run's fingerprint."""
        together = [case for step in self.steps for case in step.edit if not step.again]
        shared = [*together, *self._watching] if self._watching or self._asked else []
        measured_by = {n: dict(each.provenance(self.cases)) for n, each in self.metrics.items()}
        made = Identity(
            schema=VERSION,
            editor=EditorId(
                name=self.editor.name,
                version=self.editor.version,
                fields=settings(self.editor.value),
                provenance=provenance(self.editor.value),
            ),
            task=TaskId(name=self.task.name, version=str(self.task.version), data=self.data_digest),
            metrics=sorted(self.metrics),
            measured_by=measured_by if any(measured_by.values()) else {},
            judge=JudgeId(**described(self.judge)) if self.judge else None,
            model=ModelId(
                digest=self.model.digest,
                config=weights.of_config(self.model.module.config),
                tokenizer=self.model.tokens.digest,
                dtype=self.model.precision,
            ),
            regime=self.regime,
            # Single edits are independent, so that a run of more cases can go on from one of fewer,
            # unless controls are put to a sample of them.
            together=cases_digest(shared) if shared else "",
            seed=self.spec.seed,
            controls=[
                # A control with its own code states what it asks in its provenance.
                ControlId(
                    id=case.id,
                    asks="" if isinstance(case, Examined) else cases_digest([case]),
                    **described(each),
                )
                for case, each in zip(self._asked, self.controls, strict=True)
            ],
            sample=self.sample if self.controls and self.regime.mode == "single" else 0,
            code=sorted((package.name, package.digest) for package in self.packages),
        )
        try:
            return decoded(as_json(made), Identity)
        except ValueError as error:
            raise UsageError(
                f"a run of these settings could not be read back: {error}",
                "give each setting as a value of its kind, such as seed=1",
            ) from None

    @cached_property
    def preview(self) -> Preview | None:
        """What a precision below float32 costs; None in float32."""
        given = {"model": self.model, "cases": self.cases}
        return next(self.plugins.call("edit_harness_preview", Preview, **given), None)

    def retried(self, known: Mapping[Visit, str]) -> set[Visit]:
        """Return the visits whose failure may pass on another try, with all that share their edits."""
        failures = {visit for visit in self.visits if known.get(visit) in RETRIED}
        names = {name for name, _ in failures}
        states = {s.state for s in self.steps for case in s.edit if case.id in names}
        if self.regime.mode == "single" or not states:
            return failures
        visits = {visit for step in self.steps for visit in step.visits}
        if self.regime.mode == "batch":
            return failures | {visit for visit in visits if visit[1] in states}
        return failures | {visit for visit in visits if visit[1] >= min(states)}

    def steps_of(self, visits: Collection[Visit]) -> list[Step]:
        """Return the steps of some visits, and the steps whose edits these build on."""
        found: list[Step] = []
        behind: list[Step] = []
        for step in self.steps:
            behind = [step] if step.fresh else [*behind, step]
            if not set(visits).isdisjoint(step.visits):
                found += behind
                behind = []
        return found

    def open(self, output: Path, *, new: bool = False) -> RunFolder:
        """Create the run's folder, or find it; `edit_harness.run.rows.settle` writes into it."""
        name = folder_name(
            self.label,
            self.task.name,
            self.model.name,
            self.regime.mode,
            self.model.precision if self.preview else "",
            self.share.slug if self.share else "",
        )
        return RunFolder.open(output, name, self.identity, new=new)


def assemble(
    plugins: Plugins,
    model: Model,
    benchmark: Benchmark,
    spec: RunSpec,
    selection: Selection = ALL,
) -> Evaluation:
    """Build and check everything that a run needs. Raises `HarnessError`.

    ``benchmark`` is that of the spec's task, and ``model`` the spec's, loaded.
    """
    task, seed = benchmark.task.value, spec.seed
    names = spec.metrics or task.metrics
    measuring = make_metrics(plugins, names)
    known = {name: plugins.find("metric", name) for name in names}
    named, configured = make_editor(
        plugins, model, spec.editor, spec.editor_args, seed, spec.preset
    )
    regime = spec.regime or task.regime
    cases = benchmark.selected(selection.limit, selection.samples)
    dropped: Mapping[str, str] = {}
    if regime.conflicts == "drop":
        every = cases if selection.samples else benchmark.cases
        dropped = plan.conflicts(every)
        cases = [case for case in every if case.id not in dropped][: len(cases)]
    check_requests(named, [request for case in cases for request in case.requests])
    judging_by = judge_of(plugins, spec.judge or task.judge, spec.judge_args, seed, cases)
    asked, sample = make_controls(plugins, spec.controls, spec.control_args, seed)
    for each in asked:
        each.value.prepare(model)
    its = (named, benchmark.task, judging_by, *asked)
    parts = [(part.value, part.package) for part in its if part]
    parts += [(part, None) for part in whole(named.value)]
    parts += [(measuring[name], component.package) for name, component in known.items()]
    evaluation = Evaluation(
        spec=spec,
        selection=selection,
        model=model,
        editor=named,
        preset=configured.source,
        task=benchmark.task,
        cases=cases,
        metrics=measuring,
        regime=regime,
        dropped=dropped,
        judge=judging_by,
        controls=asked,
        sample=sample,
        data_digest=benchmark.digest,
        packages=contributing(plugins, [*parts, (model.source, None)]),
        all_cases=benchmark.cases,
        plugins=plugins,
    )
    if selection.share:
        _ = evaluation.spans  # a plan that has no such part is an error before there is a folder
    return evaluation
