"""The editor, the judge and the controls of a bundle's run, made here from what it states, or why they cannot be.

Their code is of what is installed here; the bundle gives names, and numbers to run them with.
"""

from __future__ import annotations

import json

from edit_harness.cases import Case, Examined
from edit_harness.encoding import dumps
from edit_harness.errors import HarnessError, PluginError
from edit_harness.folder.manifest import EditorId, JudgeId
from edit_harness.folder.table import cases_digest
from edit_harness.hookspecs import DISTRIBUTION
from edit_harness.interfaces import Judge
from edit_harness.model.model import Model
from edit_harness.registry.components import Named, build_component, described, provenance
from edit_harness.registry.fields import settings
from edit_harness.registry.plugins import Component, Plugins
from edit_harness.run import assembly, control, examining
from edit_harness.run.spec import RunSpec

from .evidence import Evidence
from .findings import Flag, Unchecked, shown
from .stated import given, strange


def editor(evidence: Evidence, plugins: Plugins, model: Model, spec: RunSpec) -> Named | Unchecked:
    """Return the editor as it was in the run, or why it is not here. Raises `HarnessError`."""
    said = evidence.identity.editor
    found = _component(plugins, "editor", said)
    if isinstance(found, Unchecked):
        return found
    made, _ = assembly.make_editor(plugins, model, found.qualified, spec.editor_args, spec.seed)
    ours = {"fields": settings(made.value), "provenance": provenance(made.value)}
    for part, values in json.loads(dumps(ours)).items():
        if values != getattr(said, part):
            return Unchecked(f"the {part} of editor {found.name} are others here than in the run")
    return made


def judge(evidence: Evidence, plugins: Plugins) -> Judge | Unchecked | None:
    """Return what judges the texts again, None if there is nothing to judge, or why nothing can here."""
    if not any(probe.key for case in evidence.cases for probe in case.probes):
        return None
    said = evidence.manifest.judge
    if not said:
        return Unchecked("the verdicts on texts are nobody's that is named")
    if isinstance(found := _component(plugins, "judge", said, versioned=False), Unchecked):
        return found
    if found.distribution != DISTRIBUTION or found.load().practical:
        return Unchecked(
            f"the verdicts of judge {found.name} are not made again: it is no bundled rule"
        )
    made = _made(found, said, evidence.identity.seed)
    judging: Judge | Unchecked = made if isinstance(made, Unchecked) else made.value
    return judging


def controls(evidence: Evidence, plugins: Plugins, model: Model) -> list[Case] | Unchecked:
    """Return what edited models were asked besides, or why it cannot be asked here."""
    single = evidence.regime.mode == "single"
    cases = [] if single else [control.control(model.source, model.tokens.leaves_room)]
    for said in evidence.identity.controls:
        if isinstance(found := _component(plugins, "control", said, versioned=False), Unchecked):
            return found
        if isinstance(made := _made(found, said, evidence.identity.seed), Unchecked):
            return made
        made.value.prepare(model)
        case = examining.case(model, made)
        asks = "" if isinstance(case, Examined) else cases_digest([case])
        if (case.id, asks) != (said.id, said.asks):
            return Unchecked(f"control {found.name} asks something else here than in the run")
        cases += [case] if case.id not in [each.id for each in cases] else []
    return cases


def _made(found: Component, said: JudgeId, seed: int) -> Named | Unchecked:
    """Return a judge or a control as it was in the run, or why it is not here."""
    try:
        value = build_component(found, given(said.fields), seed)
        if found.kind == "control":
            value.load()
        made = Named(said.name, value.version, value, found.package)
        ours = json.loads(dumps(described(made)))
    except HarnessError as error:
        return Unchecked(f"{found.kind} {found.name} cannot be made here: {error.cause}")
    if other := [p for p in ("version", "fields", "provenance") if ours[p] != getattr(said, p)]:
        return Unchecked(
            f"the {other[0]} of {found.kind} {found.name} is another here than in the run"
        )
    return made


def _component(
    plugins: Plugins, kind: str, said: EditorId, *, versioned: bool = True
) -> Component | Unchecked:
    """Return what a bundle names, if it is here, and may be given the settings that the bundle states."""
    name, version = said.name, shown(said.version)
    if kind == "control":  # lm_eval:TASK
        name = name.partition(":")[0].replace("_", "-")
    try:
        found = plugins.find(kind, name)
    except PluginError:
        where = f"it is in {version}, to be installed, or given by --plugin FILE"
        return Unchecked(f"{kind} {shown(name)} is not here: {where}")
    if versioned and found.origin != said.version:
        return Unchecked(f"{kind} {found.name} is here of {found.origin}, and was of {version}")
    if why := strange(found.load(), said.fields):
        return Unchecked(f"{kind} {found.name} is not made here: {why}")
    return found


def other_code(evidence: Evidence, made: Named) -> Flag | None:
    """Return a remark if the editor's code is another here than the run says it was."""
    package = made.package
    if package is None or (package.name, package.digest) in evidence.identity.code:
        return None
    return Flag(f"the code of {package.name} is another here than in the run, by its digest")
