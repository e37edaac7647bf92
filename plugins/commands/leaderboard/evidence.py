"""The content of an unpacked bundle as checks see it: read when it is first asked for, within the limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, convert

from edit_harness.data import Case, Choose, Visit
from edit_harness.folder import log
from edit_harness.folder.folder import RunFolder
from edit_harness.folder.manifest import Identity, Manifest, decoded, fingerprint
from edit_harness.folder.record import Record
from edit_harness.interfaces import Metric
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import make_metrics, source_of
from edit_harness.run import controls, plan
from edit_harness.run.plan import Step
from edit_harness.run.results import Results

from . import baseline, bundle
from .baseline import Baseline
from .bundle import LIMITS, CannotCheck, Limits, Rejected, shown

NO_BASELINE = (
    "no baseline of this model, dtype and task's data is known here: --baseline FILE, which "
    "`edit-harness leaderboard baseline -m MODEL -t TASK --output FILE` makes"
)
Name = Annotated[str, Meta(max_length=100)]
Text = Annotated[str, Meta(max_length=1000)]
Said = Annotated[str, Meta(min_length=1, max_length=1000)]


class Submission(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a submitter says of a run."""

    contact: Said
    editor: Name
    fingerprint: Text
    licence: Said
    model: Name
    source: Text
    tuned_on: Said


@dataclass(eq=False)
class Evidence:
    """One bundle, and what it is checked against."""

    bundle: Path
    folder: Path
    plugins: Plugins
    given: Sequence[Path] = ()
    """Baselines besides those that bundled models bring."""
    digests: dict[str, str] = field(default_factory=dict)
    """SHA-256 of its members, once it is unpacked."""
    limits: Limits = LIMITS

    @property
    def files(self) -> RunFolder:
        """Its members as the folder of a run, whose reader checks digests. That raises `RunFolderError`."""
        return RunFolder(self.folder)

    @cached_property
    def manifest(self) -> Manifest:
        """What the run was."""
        return self.files.planned()

    @cached_property
    def submission(self) -> Submission:
        """What its submitter says of it. Raises `Rejected` for another form."""
        try:
            return decoded(self.document("submission.json"), Submission)
        except ValueError as error:
            raise Rejected(f"submission.json: {error}") from None

    def document(self, name: str) -> dict[str, Any]:
        """Return the object of a member. Raises `Rejected`."""
        try:
            value = bundle.loads((self.folder / name).read_bytes())
        except Rejected as error:
            raise Rejected(f"{name}: {error}") from None
        if not isinstance(value, dict):
            raise Rejected(f"{name}: no JSON object")
        return value

    @property
    def identity(self) -> Identity:
        """What its numbers depend on."""
        return self.manifest.identity

    @cached_property
    def cases(self) -> list[Case]:
        """Its cases, in their order."""
        return list(self.files.cases().values())

    @cached_property
    def by_id(self) -> dict[str, Case]:
        """The cases by their ids."""
        return {case.id: case for case in self.cases}

    def case(self, record: Record) -> Case | None:
        """Return what a record answers, if there is such a case; a stand-in for a control's."""
        if controls.is_control(record.case):
            return controls.case(controls.PREFIX, Choose("", ("",)))
        return self.by_id.get(record.case)

    @cached_property
    def standing(self) -> dict[int, Record]:
        """The records that no later row withdraws, by their rows' numbers. Raises `Rejected`."""
        found: dict[int, Record] = {}
        end, mark = log.End(), fingerprint(self.identity)[: log.MARK]
        number = 0
        try:
            for number, line in enumerate(log.scan(self.files.samples, mark, end)):
                data = bundle.loads(line.data)
                if "withdraws" in data:
                    first, last = convert(data["withdraws"], tuple[int, int])
                    for gone in range(max(first, 0), min(last + 1, number)):
                        found.pop(gone, None)
                else:
                    found[number] = Record.read(line.data, strict=True)
        except (Rejected, KeyError, TypeError, ValueError) as error:
            why = " ".join(str(error).split())
            raise Rejected(f"samples.jsonl: row {number} is none: {shown(why)}") from None
        if end.torn:
            raise Rejected("samples.jsonl: the last row was changed or cut off")
        return found

    @cached_property
    def everything(self) -> list[Record]:
        """The records that count, the last of each visit, in the order of the plan."""
        order = {visit: number for number, visit in enumerate(self.visits)}
        last = {record.visit: record for record in self.standing.values()}
        return sorted(last.values(), key=lambda record: order.get(record.visit, len(order)))

    @cached_property
    def records(self) -> list[Record]:
        """Those that are of a case, and not of a control."""
        return [record for record in self.everything if not controls.is_control(record.case)]

    @cached_property
    def visits(self) -> list[Visit]:
        """The visits that such a run has to make; controls' are not among them."""
        invalid = [(case.id, 0) for case in self.cases if case.problem]
        return invalid + [visit for step in self.steps(()) for visit in step.visits]

    @cached_property
    def controls(self) -> set[Visit]:
        """The visits of controls: of those that were asked for, and of what watches many edits."""
        watching = [] if self.identity.regime.mode == "single" else [controls.ID]
        stand_ins = [Case(name, (), ()) for name in (*self.identity.asked, *watching)]
        visits = {visit for step in self.steps(stand_ins) for visit in step.visits}
        return {visit for visit in visits if controls.is_control(visit[0])}

    def steps(self, controls: Sequence[Case]) -> list[Step]:
        """Return the plan of such a run, with what edited models are asked besides."""
        planned = [case for case in self.cases if not case.problem]
        sampled = plan.sample(len(planned), self.identity.sample, self.identity.seed)
        return list(plan.steps(planned, self.identity.regime, controls, sampled))

    @cached_property
    def baseline(self) -> Baseline:
        """What the unedited model answers to these cases. Raises `CannotCheck` if nobody knows."""
        models = self.plugins.of_kind("model")
        brought = (baseline.shipped(source_of(self.plugins, model.name)) for model in models)
        files = [*self.given, *chain(*brought)]
        if found := baseline.find(files, baseline.place_of(self.identity)):
            return found
        raise CannotCheck(NO_BASELINE)

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        """The metrics of the run, as they are here. Raises `PluginError` for one that is not."""
        return make_metrics(self.plugins, self.manifest.metrics)

    @cached_property
    def run(self) -> Results:
        """The run, whose numbers are computed here from its rows."""
        return Results(self.files, self.metrics, self.manifest, self.everything)
