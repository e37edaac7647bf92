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
from typing import Any

from edit_harness import assembly, baselines, plan, runner
from edit_harness.cases import Answer, Case, Visit
from edit_harness.components import source_of
from edit_harness.encoding import decode_answer
from edit_harness.leaderboard import rebuilding
from edit_harness.leaderboard.agreement import distance, reconciled, same_value
from edit_harness.leaderboard.checks import REPLAY
from edit_harness.leaderboard.evidence import Evidence
from edit_harness.leaderboard.findings import Check, Finding, Flag, Remark, Unchecked, shown
from edit_harness.outcome import values
from edit_harness.plan import Step
from edit_harness.plugins import Plugins
from edit_harness.records import INVALID, Record

LOOSER = 10
"""How many times the tolerance of a baseline an answer may be off: an edit adds to what machines differ by."""
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
    model = assembly.load(plugins, name, dtype=evidence.identity["model"]["dtype"])
    if model.digest != evidence.identity["model"]["digest"]:
        return [Unchecked(f"{name} has other weights than the run: --model NAME")], None
    editor = rebuilding.editor(evidence, plugins, model)
    if isinstance(editor, Unchecked):
        return [editor], None
    judge = rebuilding.judge(evidence, plugins)
    lacking = [judge] if isinstance(judge, Unchecked) else []
    ids, doubted = _drawable(evidence)
    chosen = drawn(beacon, evidence.digests["SHA256SUMS"], ids, number)
    more = [] if lacking else doubted
    tally = Tally(beacon, number, chosen, len(ids), more)
    comparison = Comparison(evidence, tally, judged=not lacking)
    planned = [case for case in evidence.cases if not case.problem]
    steps = list(plan.steps(planned, evidence.regime))
    steps = thinned(steps, {*chosen, *more}, evidence.regime.mode)
    judging = None if isinstance(judge, Unchecked) else judge
    for record in runner.run(model, editor.value, steps, {}, judge=judging):
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
    digest = evidence.identity["model"]["digest"]
    for component in plugins.of_kind("model"):
        files = baselines.shipped(source_of(plugins, component.name))
        if any(baselines.header_of(file)["model"] == digest for file in files):
            return component.name
    return ""


def thinned(steps: Sequence[Step], chosen: Collection[str], mode: str) -> list[Step]:
    """Return the steps that the chosen cases depend on, in which only they are measured."""

    def concerns(cases: Sequence[Case]) -> bool:
        return any(case.id in chosen for case in cases)

    if mode == "sequential":
        last = max((i for i, step in enumerate(steps) if concerns(step.measure)), default=-1)
        needed = list(steps[: last + 1])
    else:
        needed = [step for step in steps if concerns(step.edit)]
    return [
        replace(step, measure=tuple(case for case in step.measure if case.id in chosen))
        for step in needed
    ]


@dataclass
class Comparison:
    """Adds records that were made here to a tally, each beside that of the bundle."""

    evidence: Evidence
    tally: Tally
    judged: bool
    """Whether texts were judged here, too."""

    @cached_property
    def _claimed(self) -> dict[Visit, Record]:
        return {record.visit: record for record in self.evidence.records}

    @property
    def _tolerance(self) -> float:
        dtype = self.evidence.identity["model"]["dtype"]
        return LOOSER * baselines.TOLERANCE.get(dtype, 0.0)

    def add(self, again: Record) -> None:
        """Compare the answers of a record, and the values that follow from them."""
        claimed = self._claimed[again.visit]
        if INVALID in (claimed.status, again.status):
            self.tally.note(INVALIDITY, again.case, claimed.status == again.status)
            return
        sides = (self._side(claimed, again, "before"), self._side(claimed, again, "after"))
        self._answers(claimed, again, sides[1])
        self._values(claimed, again, (sides[0], sides[1]))

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
        run = len(tally.drawn) + len(tally.more)
        yield Flag(
            f"{len(tally.others)} of {run} cases do not come out as submitted, such as "
            f"{shown(min(tally.others))!r}"
        )
