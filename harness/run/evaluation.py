"""A spec made real: everything that a run needs, found and checked before its first edit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ..data import Case, Examined, Visit
from ..errors import LeakError, UsageError
from ..folder.folder import RunFolder, folder_name
from ..folder.log import VERSION
from ..folder.manifest import (
    ControlId,
    EditorId,
    Identity,
    JudgeId,
    ModelId,
    Preview,
    TaskId,
    as_json,
    decoded,
)
from ..folder.table import cases_digest
from ..interfaces import Measure, Metric, Regime, whole
from ..model import weights
from ..model.model import Model
from ..registry.packages import Package
from ..registry.registry import Plugins
from ..registry.settings import Named, described, make_metrics, provenance, settings
from . import controls, plan, trial
from .assembly import Benchmark, contributing, environment, judge_of, make_editor
from .controls import SAMPLE, make_controls
from .estimates import measures_of
from .failures import RETRIED
from .integrity import ModelGuard
from .plan import Span, Step
from .spec import ALL, RunSpec, Selection, Share


@dataclass(eq=False)
class Evaluation:
    """Everything that a run needs, checked, before its first edit."""

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
    """What else edited models are asked; of single edits, a ``sample`` of so many."""
    sample: int = SAMPLE
    data_digest: str = ""
    packages: Sequence[Package] = ()
    """What the code came in, our own included."""
    dropped: Mapping[str, str] = field(default_factory=dict)
    """The cases that are left out for a conflict, with what each is in conflict with."""
    all_cases: Sequence[Case] = ()
    """Those of the task, in its order, of which ``cases`` are chosen."""
    plugins: Plugins = field(default_factory=Plugins)
    """Those whose hooks are called when it is run."""
    _tried: bool = field(default=False, init=False, repr=False)

    @property
    def share(self) -> Share | None:
        """Which part of the plan is made here, if not all of it."""
        return self.selection.share

    @property
    def seed(self) -> int:
        """The run's seed."""
        return self.spec.seed

    @property
    def label(self) -> str:
        """The editor's name as tables show it."""
        variant = self.editor.value.variant
        return f"{self.editor.name}[{variant}]" if variant else self.editor.name

    @cached_property
    def steps(self) -> list[Step]:
        """The plan: what is edited and measured, in which order."""
        planned = [case for case in self.cases if not case.problem]
        sampled = plan.sample(len(planned), self.sample, self.seed)
        there = {case.id for case in self._watching}
        asked = [case for case in self._asked if case.id not in there]
        return list(plan.steps(planned, self.regime, [*self._watching, *asked], sampled))

    @cached_property
    def _watching(self) -> list[Case]:
        """What shows whether the model survives, where many edits share it."""
        fits = self.model.tokens.leaves_room
        single = self.regime.mode == "single"
        return [] if single else [controls.control(self.model.source, fits)]

    @cached_property
    def _asked(self) -> list[Case]:
        """The cases of the controls that were asked for; one of them may be watching anyway."""
        return [controls.case_of(self.model, each) for each in self.controls]

    @property
    def planned(self) -> list[Visit]:
        """What the records of the whole plan are called, in its order."""
        invalid = [(case.id, 0) for case in self.cases if case.problem]
        return invalid + [visit for step in self.steps for visit in step.visits]

    @cached_property
    def spans(self) -> list[Span]:
        """Where those of the share stand among them. Raises `UsageError` if the plan has no such part."""
        if self.share is None:
            return [(0, len(self.planned))]
        if self.regime.mode == "sequential":
            raise UsageError(
                "a sequence has no shards: each of its edits builds on those before",
                "leave --shard out; other editors, tasks and seeds can run elsewhere",
            )
        sizes = plan.chunk_sizes(self.model)
        units = plan.units([list(plan.grouped(self.steps, size)) for size in sizes])
        return self.share.spans(units, sum(bool(case.problem) for case in self.cases))

    @property
    def visits(self) -> list[Visit]:
        """What the records are called that are made here, in the order of the plan."""
        planned = self.planned
        if self.share is None:
            return planned
        return [visit for start, stop in self.spans for visit in planned[start:stop]]

    @property
    def others(self) -> frozenset[Visit]:
        """The visits of the plan that other shards make."""
        return frozenset(self.planned).difference(self.visits)

    @property
    def own_cases(self) -> list[Case]:
        """The cases that are measured here, in their order."""
        names = {name for name, _ in self.visits}
        return [case for case in self.cases if case.id in names]

    @cached_property
    def identity(self) -> Identity:
        """What the numbers depend on: all that goes into the fingerprint of the run."""
        together = [case for step in self.steps for case in step.edit if not step.again]
        shared = [*together, *self._watching] if self._watching or self._asked else []
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
            measured_by=self._measured_by,
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
            seed=self.seed,
            controls=self._controlled,
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

    @property
    def _measured_by(self) -> dict[str, dict[str, Any]]:
        """What the metrics' numbers depend on besides answers, by metric; nothing if nothing."""
        found = {name: dict(each.provenance(self.cases)) for name, each in self.metrics.items()}
        return found if any(found.values()) else {}

    @property
    def _controlled(self) -> list[ControlId]:
        """What the controls' numbers depend on."""
        asked = {case.id: case for case in self._asked}
        return [
            ControlId(id=name, asks=self._asks(asked[name]), **described(each))
            for each in self.controls
            for name in [controls.PREFIX + each.name]
        ]

    def _asks(self, case: Case) -> str:
        """Return a digest of what is asked; what is examined is in the control's own provenance."""
        return "" if isinstance(case, Examined) else cases_digest([case])

    def check_controls(self, guard: ModelGuard | None = None) -> None:
        """Try an edit once, if controls with code of their own are to see it.

        Raises `PluginError` if they cannot, and `LeakError` if the model is not as it was; ``guard``
        knows how it was.
        """
        own = {case.id for case in self._asked if isinstance(case, Examined)}
        if self._tried or own.isdisjoint(name for name, _ in self.visits):
            return
        guard = guard or ModelGuard(self.model)
        trial.check_seen(self.model, self.editor, self.steps[0].requests)
        try:
            guard.verify()
        except LeakError as leak:
            whose = f"editor {self.label}"
            raise LeakError(leak.what, editor=whose, by=whose) from None
        self._tried = True

    @cached_property
    def preview(self) -> Preview | None:
        """What the model's precision costs, where it is below that of record."""
        return trial.preview(self.model, self.cases)

    def lacks_nothing(self, folder: RunFolder, *, retry: bool) -> bool:
        """Tell whether a folder has all rows, and none to be tried again if that is wished."""
        known = folder.visits()
        again = self.retried(known) if retry else ()
        return known.keys() >= set(self.visits) and not again

    def retried(self, known: Mapping[Visit, str]) -> set[Visit]:
        """Return the visits whose status is worth another try, with all that share their edits."""
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
        """Return the steps that some visits belong to, and those that these go on from."""
        found: list[Step] = []
        behind: list[Step] = []
        for step in self.steps:
            behind = [step] if step.fresh else [*behind, step]
            if not set(visits).isdisjoint(step.visits):
                found += behind
                behind = []
        return found

    def turn_to(self, model: Model) -> None:
        """Go on with another copy of the same model."""
        self.model = model
        for part in whole(self.editor.value):
            part.prepare(model)
        for each in self.controls:
            each.value.prepare(model)

    def case(self, name: str) -> Case:
        """Return a case of the plan by its id, the control included."""
        planned = (case for step in self.steps for case in step.measure)
        return next(case for case in planned if case.id == name)

    @property
    def environment(self) -> dict[str, str]:
        """What its rows are made with in this process."""
        return environment(self.model)

    @property
    def measures(self) -> dict[str, Measure]:
        """The measures of all metrics, in their order."""
        return measures_of(self.metrics)

    def open(self, output: Path, *, new: bool = False) -> RunFolder:
        """Make the run's folder, or find it again; `edit_harness.run.rows.settle` writes into it."""
        name = folder_name(
            self.label,
            self.task.name,
            self.model.name,
            self.regime.mode,
            self.preview.precision if self.preview else "",
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
