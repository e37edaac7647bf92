"""Level 4: some of a bundle's cases run again on this machine, drawn when their submitter could not know.

It is the only check that meets numbers which were made up so that all others hold. The editor's code runs
here, with the rights of whoever runs it; the model is the verifier's, never one that a bundle names.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any, cast

from edit_harness.cases import Answer, Case, Visit
from edit_harness.encoding import decode_answer
from edit_harness.folder.records import INVALID, Record
from edit_harness.registry.components import source_of
from edit_harness.registry.plugins import Plugins
from edit_harness.run import assembly, control, effects, measure
from edit_harness.run.plan import Step
from edit_harness.run.spec import ModelRef
from edit_harness.run.values import values

from . import baselines, rebuilding
from .agreement import distance, graded_alike, reconciled, same_value, tolerance_of
from .checks import REPLAY
from .evidence import Evidence
from .findings import Check, Finding, Flag, Remark, Unchecked, shown
from .stated import foreign

SHARE = 0.95
"""How many of the probes of each role, and of the values of each name, have to agree."""
INVALIDITY = "told as invalid"
"""What the cases are called that the rows call invalid, or that are found so here."""
ALTERED = (0.01, 0.05)
"""Shares of altered cases of which it is said how likely one is drawn."""


@dataclass
class Tally:
    """What the cases that were run again came to."""

    beacon: str
    asked: int
    """How many cases were to be drawn."""
    drawn: Sequence[str]
    of: int
    more: Sequence[str] = ()
    """Cases that were run again undrawn: the rows call them invalid."""
    controls: Sequence[str] = ()
    """Answers of controls that were drawn as cases are: their names, with the states of the model."""
    groups: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))
    """Whether each probe agrees, by its role, and each value, by its name."""
    others: set[str] = field(default_factory=set)
    """The cases that have a probe or a value which does not."""
    worst: float = 0.0
    """The largest difference of a number of an answer, in nats."""

    def note(self, group: str, case: str, agrees: bool) -> None:
        """Count a comparison of a case."""
        self.groups[group].append(agrees)
        if not agrees:
            self.others.add(case)

    @property
    def detection(self) -> dict[str, float]:
        """How likely a case is drawn that was altered, by the share of such cases in per cent."""
        return {f"{100 * f:g}": 1 - (1 - f) ** len(self.drawn) for f in ALTERED}

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready data."""
        return {
            "beacon": self.beacon,
            "asked": self.asked,
            "drawn": list(self.drawn),
            "more": list(self.more),
            "controls": list(self.controls),
            "cases": len(self.drawn),
            "of": self.of,
            "agree": len({*self.drawn} - self.others),
            "others": sorted(self.others),
            "groups": {name: [sum(found), len(found)] for name, found in self.groups.items()},
            "worst": self.worst,
            "detection": self.detection,
        }


def drawn(beacon: str, digest: str, ids: Sequence[str], number: int) -> list[str]:
    """Return so many ids, which nobody could choose who did not know both beacon and bundle.

    ``digest`` is of the bundle's SHA256SUMS. The order of ids does not matter.
    """
    seed = hmac.new(beacon.encode(), digest.encode(), hashlib.sha256).digest()
    return sorted(ids, key=lambda i: (hmac.digest(seed, i.encode(), "sha256"), i))[:number]


def replayed(
    evidence: Evidence, plugins: Plugins, model: str, beacon: str, number: int
) -> tuple[list[Finding], dict[str, Any]]:
    """Run cases again, and return what that comes to. Raises `HarnessError` if the model cannot be loaded.

    ``model`` is a name; empty for the bundled model that has the run's weights.
    """
    check = Check(REPLAY, "replay", lambda _: iter(()))
    remarks, tally = _again(evidence, plugins, model, beacon, number)
    findings = [Finding.of(check, remark) for remark in remarks]
    return findings or [Finding(REPLAY, "replay", "passed")], tally.as_dict() if tally else {}


def _again(
    evidence: Evidence, plugins: Plugins, name: str, beacon: str, number: int
) -> tuple[list[Remark], Tally | None]:
    if not (name := name or _bundled(evidence, plugins)):
        return [Unchecked("which model is it? name the one to replay with: --model NAME")], None
    spec = evidence.spec(name)
    model = assembly.load(plugins, name, **cast(ModelRef, spec.model).options)
    if model.digest != evidence.identity.model.digest:
        return [Unchecked(f"{name} has other weights than the run: --model NAME")], None
    if other := foreign(plugins, evidence.identity.editor):
        return [other], None
    editor = rebuilding.editor(evidence, plugins, model, spec)
    if isinstance(editor, Unchecked):
        return [editor], None
    judge = rebuilding.judge(evidence, plugins)
    asked = rebuilding.controls(evidence, plugins, model)
    lacking = [each for each in (judge, asked) if isinstance(each, Unchecked)]
    judging = None if isinstance(judge, Unchecked) else judge
    controls = [] if isinstance(asked, Unchecked) else asked
    ids, doubted = _drawable(evidence)
    visits = {_label(visit): visit for visit in evidence.controls if controls}
    digest = evidence.digests["SHA256SUMS"]
    chosen, besides = (drawn(beacon, digest, names, number) for names in (ids, [*visits]))
    more = [] if isinstance(judge, Unchecked) else doubted
    tally = Tally(beacon, number, chosen, len(ids), more, besides)
    comparison = Comparison(evidence, tally, judged=not isinstance(judge, Unchecked))
    wanted: set[str | Visit] = {*chosen, *more, *(visits[name] for name in besides)}
    steps = thinned(evidence.steps(controls), wanted, evidence.regime.mode)
    for record in measure.run(model, editor.value, steps, {}, judge=judging):
        comparison.add(record)
    code = rebuilding.other_code(evidence, editor)
    return [*_said(tally), *lacking, *([code] if code else [])], tally


def _drawable(evidence: Evidence) -> tuple[list[str], list[str]]:
    """Return the ids that cases are drawn from, and those of cases that the rows alone call invalid."""
    final = {record.case: record.status for record in evidence.records}
    usable = [name for name, status in final.items() if status != INVALID]
    doubted = [name for name, status in final.items() if status == INVALID]
    return usable, [name for name in doubted if not evidence.by_id[name].problem]


def _bundled(evidence: Evidence, plugins: Plugins) -> str:
    """Return the name of the bundled model with the weights of the run; empty if there is none."""
    digest = evidence.identity.model.digest
    for component in plugins.of_kind("model"):
        files = baselines.shipped(source_of(plugins, component.name))
        if any(baselines.header_of(file)["model"] == digest for file in files):
            return component.name
    return ""


def _label(visit: Visit) -> str:
    return "{} {}".format(*visit)


def thinned(steps: Sequence[Step], wanted: Collection[str | Visit], mode: str) -> list[Step]:
    """Return the steps that wanted cases, and visits of controls, depend on; only these are measured."""

    def measured(step: Step) -> tuple[Case, ...]:
        return tuple(c for c in step.measure if c.id in wanted or (c.id, step.state) in wanted)

    kept = [replace(step, measure=measured(step)) for step in steps]
    if mode == "sequential":
        return kept[: max((i for i, step in enumerate(kept, 1) if step.measure), default=0)]
    # Requests in turn are several steps of one state, of which the last measures.
    states = {each[1] for each in wanted if not isinstance(each, str)}
    edits = [not step.again and any(case.id in wanted for case in step.edit) for step in kept]
    return [step for step, own in zip(kept, edits, strict=True) if own or step.state in states]


@dataclass
class Comparison:
    """Adds records that were made here to a tally, each beside that of the bundle."""

    evidence: Evidence
    tally: Tally
    judged: bool
    """Whether texts were judged here, too."""

    @cached_property
    def _claimed(self) -> dict[Visit, Record]:
        return {record.visit: record for record in self.evidence.everything}

    @property
    def _tolerance(self) -> float:
        return tolerance_of(self.evidence.identity.model.dtype)

    def add(self, again: Record) -> None:
        """Compare the answers of a record, and the values that follow from them."""
        claimed = self._claimed[again.visit]
        if control.is_control(again.case):
            self._control(claimed, again)
            return
        if INVALID in (claimed.status, again.status):
            self.tally.note(INVALIDITY, again.case, claimed.status == again.status)
            return
        sides = (self._side(claimed, again, "before"), self._side(claimed, again, "after"))
        self._answers(claimed, again, sides[1])
        self._values(claimed, again, (sides[0], sides[1]))

    def _control(self, claimed: Record, again: Record) -> None:
        """Compare what a control's documents came to: there are no metrics of it."""
        label = _label(again.visit)
        self.tally.note(f"{again.case}, status", label, claimed.status == again.status)
        for side in effects.SIDES:
            theirs, ours = getattr(claimed, side), getattr(again, side)
            self.tally.note(f"{again.case}, {side}", label, len(theirs) == len(ours))
            for pair in zip(theirs, ours, strict=False):
                one, two = map(effects.graded, pair)
                for name, agrees in graded_alike(one, two, self._tolerance):
                    self.tally.note(f"{again.case}, {name} {side}", label, agrees)

    def _side(self, claimed: Record, again: Record, name: str) -> list[Answer | None]:
        """Return the answers of a side, as they were measured here, with what rounding decides as claimed."""
        pairs = zip_longest(getattr(claimed, name), getattr(again, name))
        found = [
            reconciled(decode_answer(one), decode_answer(two), self._tolerance, judged=self.judged)
            for one, two in pairs
        ]
        return found[: len(getattr(again, name))]

    def _answers(self, claimed: Record, again: Record, side: Sequence[Answer | None]) -> None:
        probes = self.evidence.by_id[again.case].probes
        whole = claimed.status == again.status and len(claimed.after) == len(side)
        for number, probe in enumerate(probes):
            off = math.inf
            if whole:
                off = distance(decode_answer(claimed.after[number]), side[number]) if side else 0.0
            if math.isfinite(off):
                self.tally.worst = max(self.tally.worst, off)
            self.tally.note(probe.role, again.case, off <= self._tolerance)

    def _values(self, claimed: Record, again: Record, sides: Any) -> None:
        """Compare what the metrics make of the answers here with the values that are claimed."""
        case = self.evidence.by_id[again.case]
        ours = values(case, sides, self.evidence.metrics, again.status)
        for metric, found in ours.items():
            theirs = claimed.values.get(metric, {})
            for name in sorted({*found, *theirs}):
                pair = theirs.get(name), found.get(name)
                good = None not in pair and same_value(*pair, self._tolerance)  # type: ignore[arg-type]
                self.tally.note(f"{metric}, {name}", again.case, good)


def _said(tally: Tally) -> Iterator[Remark]:
    for name, found in tally.groups.items():
        if sum(found) < SHARE * len(found):
            yield f"{shown(name)}: {sum(found)} of {len(found)} come out as submitted"
    if tally.others:
        run = len(tally.drawn) + len(tally.more) + len(tally.controls)
        what = "cases and controls" if tally.controls else "cases"
        yield Flag(
            f"{len(tally.others)} of {run} {what} do not come out as submitted, such as "
            f"{shown(min(tally.others))!r}"
        )
