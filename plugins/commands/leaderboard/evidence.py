"""A bundle's content as checks see it: read when it is first asked for, within the limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from edit_harness.cases import Case, Choose, Visit
from edit_harness.encoding import decode_case
from edit_harness.folder.folder import RunFolder
from edit_harness.folder.manifest import Identity, Manifest, decoded
from edit_harness.folder.record import Record
from edit_harness.interfaces import Metric, Regime
from edit_harness.registry.components import make_metrics, source_of
from edit_harness.registry.plugins import Plugins
from edit_harness.run import control, plan
from edit_harness.run.outcome import Run
from edit_harness.run.plan import Step
from edit_harness.run.spec import ModelRef, RunSpec

from . import baselines, strict
from .baselines import Baseline
from .findings import Rejected
from .limits import Limits
from .rows import Rows
from .stated import given


@dataclass(eq=False)
class Evidence:
    """One bundle, and what it is checked against."""

    bundle: Path
    folder: Path
    """Where its members are unpacked to."""
    limits: Limits
    plugins: Plugins
    given: Sequence[Path] = ()
    """Baselines besides those that bundled models bring."""
    digests: dict[str, str] = field(default_factory=dict)
    """SHA-256 of its members, once it is unpacked."""

    def document(self, name: str) -> dict[str, Any]:
        """Return the object of a member. Raises `Rejected`."""
        return strict.document(self.folder / name, self.limits)

    @cached_property
    def manifest(self) -> Manifest:
        """What the run was. Raises `Rejected` for what is no manifest."""
        try:
            return decoded(self.document("manifest.json"), Manifest)
        except ValueError as error:
            raise Rejected(f"manifest.json: {error}") from None

    @property
    def identity(self) -> Identity:
        """What its numbers depend on."""
        return self.manifest.identity

    def spec(self, model: str) -> RunSpec:
        """Return the run that it states, on the model of a name. Whether it can be made here is not known."""
        editor, judge = self.identity.editor, self.manifest.judge
        return RunSpec(
            editor=editor.name,
            editor_args=given(editor.fields),
            task=self.identity.task.name,
            model=ModelRef(name=model, dtype=self.identity.model.dtype),
            metrics=self.manifest.metrics,
            judge=judge.name if judge else "",
            judge_args=given(judge.fields) if judge else {},
            regime=self.regime,
            seed=self.identity.seed,
        )

    @cached_property
    def submission(self) -> dict[str, Any]:
        """What its submitter says of it."""
        return self.document("submission.json")

    @cached_property
    def results(self) -> dict[str, Any]:
        """The numbers that it claims."""
        return self.document("results.json")

    @cached_property
    def cases(self) -> list[Case]:
        """Its cases. Raises `Rejected` for what is no case."""
        found: list[Case] = []
        for _, row in strict.objects(self.folder / "cases.jsonl", self.limits):
            try:
                found.append(decode_case(row))
            except Exception as error:  # its fields are whatever a stranger wrote
                why = " ".join(str(error).split())
                raise Rejected(f"line {len(found) + 1} is no case: {why[:100]}") from None
        return found

    @cached_property
    def by_id(self) -> dict[str, Case]:
        """The cases by their ids."""
        return {case.id: case for case in self.cases}

    def case(self, record: Record) -> Case | None:
        """Return what a record answers, if there is such a case; for a control, a stand-in.

        No bundle has a control's question: its answer is the scores of one text, or marks.
        """
        if control.is_control(record.case):
            return control.case("", Choose("", ("",)))
        return self.by_id.get(record.case)

    @cached_property
    def rows(self) -> Rows:
        """All its rows."""
        return Rows.read(self.folder / "samples.jsonl", self.limits)

    @cached_property
    def events(self) -> int:
        """How many events the run noted; what they say counts for nothing."""
        return sum(1 for _ in strict.objects(self.folder / "events.jsonl", self.limits))

    @cached_property
    def everything(self) -> list[Record]:
        """The records that count, in the order of the plan, as a finished run has them."""
        order = {visit: number for number, visit in enumerate(self.visits)}
        last = len(order)
        return sorted(self.rows.records(), key=lambda record: order.get(record.visit, last))

    @cached_property
    def records(self) -> list[Record]:
        """Those that are of a case, and not of a control."""
        return [record for record in self.everything if not control.is_control(record.case)]

    @property
    def regime(self) -> Regime:
        """How edits shared the model."""
        return self.identity.regime

    @cached_property
    def visits(self) -> list[Visit]:
        """The visits that such a run has to make; controls' are not among them."""
        invalid = [(case.id, 0) for case in self.cases if case.problem]
        return invalid + [visit for step in self.steps(()) for visit in step.visits]

    @property
    def _planned(self) -> list[Case]:
        return [case for case in self.cases if not case.problem]

    @cached_property
    def controls(self) -> set[Visit]:
        """The visits of controls: of those that were asked for, and of what watches many edits."""
        watching = [] if self.regime.mode == "single" else [control.ID]
        stand_ins = [Case(name, (), ()) for name in (*self.identity.asked, *watching)]
        visits = {visit for step in self.steps(stand_ins) for visit in step.visits}
        return {visit for visit in visits if control.is_control(visit[0])}

    def steps(self, controls: Sequence[Case]) -> list[Step]:
        """Return the plan of such a run, with what edited models are asked besides."""
        sampled = plan.sample(len(self._planned), self.identity.sample, self.identity.seed)
        return list(plan.steps(self._planned, self.regime, controls, sampled))

    @cached_property
    def baselines(self) -> list[Path]:
        """The files of all baselines that are known here."""
        models = self.plugins.of_kind("model")
        brought = [
            path for m in models for path in baselines.shipped(source_of(self.plugins, m.name))
        ]
        return [*self.given, *brought]

    @cached_property
    def baseline(self) -> Baseline | None:
        """What the unedited model answers to these cases, if that is published."""
        return baselines.find(self.baselines, baselines.place_of(self.identity))

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        """The metrics of the run, as they are here. Raises `PluginError` for one that is not."""
        return make_metrics(self.plugins, self.manifest.metrics)

    @cached_property
    def run(self) -> Run:
        """The run, whose numbers are computed here from its rows."""
        return Run(RunFolder(self.folder), self.metrics, self.manifest, self.everything)
