"""Level 4: run some of a bundle's cases again on this machine, drawn when their submitter could not know.

It is the only check that meets numbers which were made up so that all others hold. The editor's code runs
here, with the rights of whoever runs it; the model is the verifier's, never one that a bundle names.
A text of a bundle may be the name of a file, of a pipe or of another machine: the only texts that a plugin
is given are its own, which are its defaults, its presets' values and the choices that it declares.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, replace
from typing import Any, Literal, get_args, get_origin

from msgspec import ValidationError, convert

from edit_harness.data import Answer, Case, Text, Visit
from edit_harness.errors import HarnessError, PluginError
from edit_harness.files import dumps
from edit_harness.folder.encoding import decode_answer
from edit_harness.folder.manifest import EditorId
from edit_harness.folder.record import INVALID, Record
from edit_harness.folder.table import cases_digest
from edit_harness.hookspecs import DISTRIBUTION
from edit_harness.interfaces import Judge
from edit_harness.model.model import Model
from edit_harness.registry import settings as fields
from edit_harness.registry.registry import Component
from edit_harness.registry.settings import Named
from edit_harness.run import assembly, controls
from edit_harness.run.clean import CleanPass
from edit_harness.run.measure import Work
from edit_harness.run.plan import Step, chunk_size, chunks
from edit_harness_plugins.controls.text import Text as ControlText
from edit_harness_plugins.loading import trial

from . import baseline
from .bundle import REPLAY, SUMS, CannotCheck, Draw, Finding, Rejected, Unchecked, findings, shown
from .evidence import Evidence

TOLERANCE = 10 * baseline.TOLERANCE
"""How far honest measurements may be apart, in nats: an edit adds to what machines differ by."""
SHARE = 0.95
"""How many of the probes of each role have to agree."""
INVALIDITY = "told as invalid"
"""The role of cases that the rows call invalid, or that are found so here."""


@dataclass
class Tally:
    """How what was run again compares with what is claimed."""

    judged: bool = True
    groups: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))
    """Whether each probe agrees, by its role; of a control, by its name."""
    others: set[str] = field(default_factory=set)
    """The cases that have a probe which does not."""
    worst: float = 0.0
    """The largest difference of a number of an answer, in nats."""

    def add(self, claimed: Record, again: Record, case: Case | None) -> None:
        """Compare the answers of a record with those that were measured here."""
        of = again.case if controls.is_control(again.case) else ""
        name = _label(again.visit) if of else again.case
        same = claimed.status == again.status
        if case is None or INVALID in (claimed.status, again.status):
            self._note(of or INVALIDITY, name, same)
            return
        for side in ("before", "after"):
            theirs, ours = getattr(claimed, side), getattr(again, side)
            pairs = zip(map(decode_answer, theirs), map(decode_answer, ours), strict=False)
            found = [distance(*pair, judged=self.judged) for pair in pairs]
            if not same or len(theirs) != len(ours):
                found = [math.inf] * len(case.probes)
            for probe, off in zip(case.probes, found, strict=False):
                self.worst = max(self.worst, off) if math.isfinite(off) else self.worst
                role = of or probe.role
                self._note(role if side == "after" else f"{role} before", name, off <= TOLERANCE)

    def _note(self, group: str, case: str, agrees: bool) -> None:
        self.groups[group].append(agrees)
        if not agrees:
            self.others.add(case)

    @property
    def remarks(self) -> list[str]:
        """The roles of which too few agree, which are reasons to reject."""
        return [
            f"{shown(name)}: {sum(found)} of {len(found)} come out as submitted"
            for name, found in self.groups.items()
            if sum(found) < SHARE * len(found)
        ]


def replayed(evidence: Evidence, draw: Draw) -> tuple[list[Finding], dict[str, Any]]:
    """Run cases again, and return what that comes to, also as JSON-ready data."""
    remarks: list[str] = []
    tally: dict[str, Any] = {}
    try:
        remarks, tally = _again(evidence, draw)
    except Rejected as error:
        remarks.append(str(error))
    except (CannotCheck, HarnessError) as error:
        remarks.append(Unchecked("; ".join(str(error).split("\n"))))
    except Exception as error:  # an editor may raise anything, and so may what a bundle leads to
        remarks.append(Unchecked(f"it failed with {type(error).__name__}: {shown(str(error))}"))
    return findings(*REPLAY, remarks), tally


def _again(evidence: Evidence, draw: Draw) -> tuple[list[str], dict[str, Any]]:
    identity = evidence.identity
    model = assembly.load(evidence.plugins, draw.model, dtype=identity.model.dtype)
    if model.digest != identity.model.digest:
        raise CannotCheck(f"{draw.model} has other weights than the run: --model NAME")
    editor = made_editor(evidence, model)
    lacking: list[str] = []
    tally, judge, controls = Tally(), None, []
    try:
        judge = made_judge(evidence)
    except CannotCheck as error:
        tally.judged = False
        lacking.append(Unchecked(str(error)))
    try:
        controls = made_controls(evidence, model)
    except CannotCheck as error:
        lacking.append(Unchecked(str(error)))
    usable = list(dict.fromkeys(r.case for r in evidence.records if r.status != INVALID))
    # Those that the rows alone call invalid are all run again.
    doubted = {r.case for r in evidence.records if r.status == INVALID and tally.judged}
    more = sorted(name for name in doubted if not evidence.by_id[name].problem)
    visits = {_label(visit): visit for visit in evidence.controls if controls}
    chosen, besides = (
        drawn(draw.beacon, evidence.digests[SUMS], names, draw.number)
        for names in (usable, list(visits))
    )
    wanted: set[str | Visit] = {*chosen, *more, *(visits[name] for name in besides)}
    steps = thinned(evidence.steps(controls), wanted, identity.regime.mode)
    claimed = {record.visit: record for record in evidence.everything}
    work = Work(CleanPass(model), editor.value, {}, judge)
    for chunk in chunks(steps, chunk_size(model)):
        for record in work.records(chunk):
            tally.add(claimed[record.visit], record, evidence.case(record))
    return [*tally.remarks, *lacking], {
        "beacon": draw.beacon,
        "asked": draw.number,
        "drawn": chosen,
        "more": more,
        "controls": besides,
        "cases": len(chosen),
        "of": len(usable),
        "agree": len({*chosen} - tally.others),
        "others": sorted(tally.others),
        "groups": {name: [sum(found), len(found)] for name, found in tally.groups.items()},
        "worst": tally.worst,
    }


def drawn(beacon: str, digest: str, ids: Sequence[str], number: int) -> list[str]:
    """Return so many ids, which nobody could choose who did not know both beacon and bundle."""
    seed = hmac.new(beacon.encode(), digest.encode(), hashlib.sha256).digest()
    return sorted(ids, key=lambda i: (hmac.digest(seed, i.encode(), "sha256"), i))[:number]


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


def distance(claimed: Answer | None, again: Answer | None, *, judged: bool = True) -> float:
    """Return how far two answers are apart, in nats; infinity for another text, token or verdict."""
    if isinstance(claimed, Text) and isinstance(again, Text):
        verdicts = [
            verdict and (verdict.status, verdict.score, verdict.reverted, verdict.ratings)
            for verdict in (claimed.verdict, again.verdict)
        ]
        same = claimed.text == again.text and (not judged or verdicts[0] == verdicts[1])
        return 0.0 if same else math.inf
    if claimed is None or again is None:
        return 0.0 if claimed is again else math.inf
    if any(getattr(claimed, n, 0) != getattr(again, n, 0) for n in ("argmax", "vocabulary")):
        return math.inf
    try:
        return trial.distance(claimed, again)
    except TypeError:  # None stands for a number that is not finite
        return 0.0 if claimed == again else math.inf


def made_editor(evidence: Evidence, model: Model) -> Named:
    """Return the editor as it was in the run. Raises `CannotCheck`, and `Rejected` for other fields."""
    said = evidence.identity.editor
    found = _component(evidence, "editor", said)
    if found.origin != said.version:
        why = f"is here of {found.origin}, and was of {shown(said.version)}"
        raise CannotCheck(f"editor {found.name} {why}")
    own = fields.field_types(found.load()).keys()
    if (other := sorted(own ^ said.fields.keys())) and found.distribution == DISTRIBUTION:
        has, told = ("has", ", not stated") if other[0] in own else ("has no", "")
        raise Rejected(f"editor {found.name} of {found.origin} {has} field {shown(other[0])}{told}")
    args, seed = given(found, said), evidence.identity.seed
    made, _ = assembly.make_editor(evidence.plugins, model, found.qualified, args, seed)
    _check_same(
        made, said, fields=fields.settings(made.value), provenance=fields.provenance(made.value)
    )
    return made


def made_judge(evidence: Evidence) -> Judge | None:
    """Return what judges the texts again; None if there is nothing to judge. Raises `CannotCheck`."""
    if not any(probe.key for case in evidence.cases for probe in case.probes):
        return None
    if not (said := evidence.manifest.judge):
        raise CannotCheck("the verdicts on texts are nobody's that is named")
    found = _component(evidence, "judge", said)
    if found.distribution != DISTRIBUTION or found.load().practical:
        why = "are not made again: it is no bundled rule"
        raise CannotCheck(f"the verdicts of judge {found.name} {why}")
    value: Judge = fields.build_component(found, given(found, said), evidence.identity.seed)
    made = Named(said.name, value.version, value, found.package)
    _check_same(made, said, **fields.described(made))
    return value


def made_controls(evidence: Evidence, model: Model) -> list[Case]:
    """Return what edited models were asked besides. Raises `CannotCheck` for all but the text."""
    asked = evidence.identity.controls
    if other := [each.name for each in asked if each.id != controls.ID]:
        raise CannotCheck(f"control {shown(other[0])} is not put again to edited models")
    if evidence.identity.regime.mode == "single" and not asked:
        return []
    case = controls.case(controls.ID, *ControlText().query(model))
    if asked and asked[0].asks != cases_digest([case]):
        raise CannotCheck("control text asks something else here than in the run")
    return [case]


def _component(evidence: Evidence, kind: str, said: EditorId) -> Component:
    try:
        return evidence.plugins.find(kind, said.name)
    except PluginError:
        where = f"it is in {shown(said.version)}, to be installed, or given by --plugin FILE"
        raise CannotCheck(f"{kind} {shown(said.name)} is not here: {where}") from None


def _check_same(made: Named, said: EditorId, **ours: Any) -> None:
    for part in ("version", "fields", "provenance"):
        if part in ours and json.loads(dumps(ours[part])) != getattr(said, part):
            raise CannotCheck(f"the {part} of {made.name} are others here than in the run")


def given(found: Component, said: EditorId) -> dict[str, Any]:
    """Return what a plugin is given of the settings that a bundle states. Raises `CannotCheck`."""
    if why := strange(found.load(), said.fields):
        raise CannotCheck(f"{found.kind} {found.name} is not made here: {why}")
    # JSON has lists only.
    return {name: tuple(v) if isinstance(v, list) else v for name, v in said.fields.items()}


def strange(factory: type, settings: Mapping[str, Any]) -> str:
    """Return which setting may not be given to a plugin of a class, and why; empty if all may be."""
    hints, usual = fields.field_types(factory), fields.defaults(factory)
    presets = getattr(factory, "presets", {}).values()
    for name, value in settings.items():
        if name not in hints:
            return f"it has no field {shown(name)}"
        own = [usual[name], *(preset.values.get(name) for preset in presets)]
        known = [dumps(each) for each in own if each is not MISSING]
        if dumps(value) not in known and not _leads_nowhere(value, hints[name]):
            return f"its {name} is {shown(value)}, which is none of its own values: nothing is opened for it"
    return ""


def _leads_nowhere(value: Any, hint: Any) -> bool:
    """Tell whether a setting is of its field's type, and of numbers, truths and declared choices alone."""
    try:
        convert(value, hint)
    except (ValidationError, TypeError):  # a TypeError is of a type that JSON does not have
        return False
    parts, choices = value if isinstance(value, list) else [value], list(_choices(hint))
    return all(part in choices or not isinstance(part, str | dict | list) for part in parts)


def _choices(hint: Any) -> Iterator[Any]:
    for argument in get_args(hint):
        if get_origin(hint) is Literal:
            yield argument
        else:
            yield from _choices(argument)
