"""Level 4: some of a bundle's cases run again on this machine, drawn when their submitter could not know.

It is the only check that meets numbers which were made up so that all others hold. The editor's code runs
here, with the rights of whoever runs it; the model is the verifier's, never one that a bundle names.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edit_harness import assembly, baselines, plan, runner
from edit_harness.cases import Case, Divergence, Scores, Visit
from edit_harness.components import Named, source_of
from edit_harness.encoding import decode_answer, dumps
from edit_harness.errors import PluginError
from edit_harness.fields import settings
from edit_harness.leaderboard.checks import REPLAY
from edit_harness.leaderboard.evidence import Evidence
from edit_harness.leaderboard.findings import Check, Finding, Flag, Remark, Unchecked, shown
from edit_harness.model import Model
from edit_harness.plan import Step
from edit_harness.plugins import Plugins
from edit_harness.records import INVALID, Record

LOOSER = 10
"""How many times the tolerance of a baseline an answer may be off: an edit adds to what machines differ by."""
SHARE = 0.95
"""How many of the probes of each role have to agree."""
ALTERED = (0.01, 0.05)
"""Shares of altered cases of which it is said how likely one is drawn."""


@dataclass
class Tally:
    """What the cases that were run again came to."""

    cases: int
    of: int
    roles: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))
    """Whether each probe agrees, by its role."""
    others: set[str] = field(default_factory=set)
    """The cases that have a probe which does not."""
    worst: float = 0.0
    """The largest difference of a number, in nats."""

    @property
    def detection(self) -> dict[str, float]:
        """How likely a case is drawn that was altered, by the share of such cases in per cent."""
        return {f"{100 * f:g}": 1 - (1 - f) ** self.cases for f in ALTERED}

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready data."""
        return {
            "cases": self.cases,
            "of": self.of,
            "agree": self.cases - len(self.others),
            "others": sorted(self.others),
            "roles": {role: [sum(found), len(found)] for role, found in self.roles.items()},
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
    editor = _editor(evidence, plugins, model)
    if isinstance(editor, Unchecked):
        return [editor], None
    ids = [record.case for record in evidence.records if record.status != INVALID]
    ids = list(dict.fromkeys(ids))
    chosen = drawn(beacon, evidence.digests["SHA256SUMS"], ids, number)
    tally = Tally(len(chosen), len(ids))
    for record in _run(evidence, model, editor, chosen):
        _compare(evidence, record, tally)
    return list(_said(tally)), tally


def _bundled(evidence: Evidence, plugins: Plugins) -> str:
    """Return the name of the bundled model with the weights of the run; empty if there is none."""
    digest = evidence.identity["model"]["digest"]
    for component in plugins.of_kind("model"):
        files = baselines.shipped(source_of(plugins, component.name))
        if any(baselines.header_of(file)["model"] == digest for file in files):
            return component.name
    return ""


def _editor(evidence: Evidence, plugins: Plugins, model: Model) -> Named | Unchecked:
    """Return the editor as it was in the run, or why it is not here."""
    said = evidence.identity["editor"]
    try:
        found = plugins.find("editor", said["name"])
    except PluginError:
        return Unchecked(
            f"editor {shown(said['name'])} is not installed: it is in {shown(said['version'])}"
        )
    if found.origin != said["version"]:
        return Unchecked(
            f"editor {found.name} is here of {found.origin}, and was of {shown(said['version'])}"
        )
    fields = {key: tuple(v) if isinstance(v, list) else v for key, v in said["fields"].items()}
    editor, _ = assembly.make_editor(
        plugins, model, found.qualified, fields, evidence.identity["seed"]
    )
    ours = {"fields": settings(editor.value), "provenance": dict(editor.value.provenance)}
    for part, values in json.loads(dumps(ours)).items():
        if values != said[part]:
            return Unchecked(f"the {part} of editor {found.name} are others here than in the run")
    return editor


def _run(
    evidence: Evidence, model: Model, editor: Named, chosen: Collection[str]
) -> Iterator[Record]:
    """Yield what the chosen cases come to: with the whole of their batch, or the sequence before them."""
    planned = [case for case in evidence.cases if not case.problem]
    steps = thinned(list(plan.steps(planned, evidence.regime)), set(chosen), evidence.regime.mode)
    yield from runner.run(model, editor.value, steps, {})


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


def _compare(evidence: Evidence, again: Record, tally: Tally) -> None:
    """Add to the tally which probes of a record agree with those of the bundle."""
    claimed = _by_visit(evidence)[again.visit]
    tolerance = LOOSER * baselines.TOLERANCE.get(evidence.identity["model"]["dtype"], 0.0)
    whole = claimed.status == again.status and len(claimed.after) == len(again.after)
    probes = evidence.by_id[again.case].probes
    for number, probe in enumerate(probes):
        off = math.inf
        if whole:
            pair = ((side[number] if side else None) for side in (claimed.after, again.after))
            off = distance(*pair)
        tally.roles[probe.role].append(off <= tolerance)
        if math.isfinite(off):
            tally.worst = max(tally.worst, off)
        if off > tolerance:
            tally.others.add(again.case)


def _by_visit(evidence: Evidence) -> Mapping[Visit, Record]:
    return {record.visit: record for record in evidence.records}


def distance(claimed: Any, again: Any) -> float:
    """Return how far two stored answers are apart, in nats; infinity for another text or token."""
    one, two = decode_answer(claimed), decode_answer(again)
    if isinstance(one, Scores) and isinstance(two, Scores) and one.tokens == two.tokens:
        sides = [[_sum(part) for part in answer.logprobs] for answer in (one, two)]
        return max(abs(x - y) if x != y else 0.0 for x, y in zip(*sides, strict=True))
    if isinstance(one, Divergence) and isinstance(two, Divergence):
        pairs = ((one.forward, two.forward), (one.reverse, two.reverse))
        return max(0.0 if x == y else _difference(x, y) for x, y in pairs)
    same = getattr(one, "text", one) == getattr(two, "text", two)
    return 0.0 if same else math.inf


def _sum(logprobs: Sequence[float | None]) -> float:
    return -math.inf if None in logprobs else math.fsum(logprobs)  # type: ignore[arg-type]


def _difference(one: float | None, two: float | None) -> float:
    return math.inf if one is None or two is None else abs(one - two)


def _said(tally: Tally) -> Iterator[Remark]:
    for role, found in tally.roles.items():
        if sum(found) < SHARE * len(found):
            yield f"{shown(role)}: {sum(found)} of {len(found)} probes come out as submitted"
    if tally.others:
        yield Flag(
            f"{len(tally.others)} of {tally.cases} cases do not come out as submitted, such as "
            f"{shown(min(tally.others))!r}"
        )
