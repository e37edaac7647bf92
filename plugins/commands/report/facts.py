"""What a reader must know of a run besides its numbers: what was run, what failed, what to doubt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

from edit_harness.data import Case, Text
from edit_harness.errors import counted
from edit_harness.folder.encoding import decode_answer
from edit_harness.folder.record import INVALID, OK
from edit_harness.run.estimates import LEVEL, usable
from edit_harness.run.results import Results
from edit_harness_plugins.composition import among
from edit_harness_plugins.controls.collapse import COLLAPSE, collapsed, perplexity
from edit_harness_plugins.controls.effects import ENOUGH as MODELS
from edit_harness_plugins.controls.effects import side_effects
from edit_harness_plugins.segments import software

T = TypeVar("T")
SHORT, DIGEST = 8, 16
"""Hex digits of a digest that tables and pages show."""
UNPARSED = 0.02
"""The share of texts without a verdict above which judged numbers are not to be trusted."""
IDLE = "the judge is asked nothing here: answers in the wild ask one with --task-args judged=true"
KNOWS = 0.2
"""The share of right answers below which a model cannot do a task."""
WHAT: Mapping[str, Sequence[str]] = {"Task": (), "Model": (), "Data": ("Task",)}
"""What no reader may overlook where it differs, of runs that are alike in others."""
TELLING = (
    "Task", "Model", "Mode", "Judge", "Preset", "Fields", "Weights", "Tokenizer", "Seed", "Data",
    "Shard",
)  # fmt: skip
"""What may tell runs of one editor apart, in the order in which `labels` tries it."""


def facts(run: Results) -> dict[str, str]:
    """Return what a run's numbers depend on, as texts, by the heads that tables give them."""
    manifest, identity = run.manifest, run.manifest.identity
    model, judge = identity.model, run.manifest.judge
    return {
        "Editor": run.label,
        "Preset": manifest.preset.partition(" ")[0] or "none",
        "Fields": _settings(identity.editor.fields),
        "Task": identity.task.name,
        "Version": identity.task.version,
        "Data": identity.task.data[:SHORT],
        "Model": manifest.model.name,
        "Weights": model.digest[:SHORT],
        "Tokenizer": model.tokenizer[:SHORT],
        "Precision": model.dtype,
        "Mode": str(run.regime),
        "Judge": ", ".join([judge.name, *run.served]) if judge else "none",
        "Seed": str(identity.seed),
        "Shard": str(run.manifest.shard or "all"),
        "Run": manifest.fingerprint[:SHORT],
    }


def _settings(fields: Mapping[str, Any]) -> str:
    shown = {name: value for name, value in fields.items() if value not in ("", [], None)}
    return " ".join(
        f"{name}={'/'.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in shown.items()
    )


def carried(run: Results) -> dict[str, Any]:
    """Return what every number of a run carries, as cells."""
    own = {head.lower(): text for head, text in facts(run).items()}
    return {**own, "cases": len(run.records), "failed": len(run.failures)}


def provenance(run: Results) -> Iterator[tuple[str, list[str]]]:
    """Yield what identifies a run, a heading with its lines; nothing of the machine's folders."""
    identity, manifest = run.manifest.identity, run.manifest
    for head, text in facts(run).items():
        yield head, [text]
    yield "Where its data is from", [manifest.task.origin or "its own data"]
    yield "Where its settings are from", [manifest.preset or "no preset"]
    judge = run.manifest.judge.version if run.manifest.judge else ""
    versions = {"editor": identity.editor.version, "model": manifest.model.revision, "judge": judge}
    yield "Versions", _pairs(versions)
    yield "Digests", _pairs({"data": identity.task.data, **identity.editor.provenance})
    for part in manifest.distributions:
        digest = str(part.get("digest", ""))[:DIGEST]
        yield "Code", [f"{part['name']} {part['version']}, sha256 {digest}"]
    for segment in manifest.segments:
        yield f"Machine from row {segment.first} on", _pairs(segment.environment)
    yield "Fingerprint", [manifest.fingerprint[:DIGEST]]


def _pairs(data: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {value}" for key, value in data.items() if value not in ("", [], (), None)]


def labels(
    runs: Sequence[Results], always: Sequence[str] = ("Editor",)
) -> tuple[list[str], list[list[str]]]:
    """Return the heads that tell runs apart, and what each run has there.

    ``always`` are there in any case, `WHAT` where runs differ in it, the others where two runs differ that
    are equal in all those. Of fields only those are shown in which runs of one editor differ.
    """
    told = [facts(run) for run in runs]
    for run, own in zip(runs, told, strict=True):
        fields = [
            other.manifest.identity.editor.fields for other in runs if other.label == run.label
        ]
        kept = run.manifest.identity.editor.fields.items()
        own["Fields"] = _settings({k: v for k, v in kept if any(f.get(k) != v for f in fields)})
    heads = list(always)
    for head in TELLING:
        alike = grouped(told, partial(_cells, WHAT.get(head, heads)))
        if head not in heads and any(len({own[head] for own in some}) > 1 for some in alike):
            heads.append(head)
    if len(grouped(told, partial(_cells, heads))) < len(told):
        heads.append("Run")
    return heads, [[*_cells(heads, own)] for own in told]


def _cells(heads: Sequence[str], own: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(own[head] for head in heads)


def grouped(every: Sequence[T], kind: Callable[[T], object]) -> list[list[T]]:
    """Return things in groups that are alike in something, in the order of their first."""
    found: dict[object, list[T]] = {}
    for each in every:
        found.setdefault(kind(each), []).append(each)
    return list(found.values())


def sound(run: Results) -> bool:
    """Tell whether every case has a valid answer, every control a number, and enough texts a verdict."""
    return not (run.failures or run.pending or doubtful(run)) and side_effects(run).whole


def caption(runs: Sequence[Results], *, data: bool = False) -> str:
    """Say what all numbers of a table are of, where that is the same for all; with their data, if asked."""
    told = [facts(run) for run in runs]
    forms = [
        ("task ", "{Task} {Version}" + " (data {Data})" * data),
        ("model ", "{Model} ({Weights})"),
        ("", "{Precision}"),
        ("", "{Mode}"),
        *([("shard ", "{Shard}")] if any(run.manifest.shard for run in runs) else []),
    ]
    common = [
        label + " and ".join(dict.fromkeys(form.format(**own) for own in told))
        for label, form in forms
    ]
    kinds = {run.estimated_by.intervals_are for run in runs} - {"student"}
    return ", ".join([*common, " ".join([f"{LEVEL:.0%}", *kinds, "intervals"])])


def caveats(run: Results) -> list[str]:
    """Return what qualifies a run's numbers, a line each."""
    own = [failed(run), run.manifest.model.note, str(run.manifest.preview or "")]
    rest = [*run.manifest.task.notes, *(text for _, text in remarks(run))]
    return [*filter(None, own), *rest]


def shared_caveats(runs: Sequence[Results]) -> list[str]:
    """Return the caveats of several runs, each with whose it is; what is so of all stands once."""
    said: dict[str, list[str]] = {}
    for run in runs:
        for text in caveats(run):
            said.setdefault(text, []).append(run.label)
    return [
        text if len(whose) == len(runs) else f"{', '.join(dict.fromkeys(whose))}: {text}"
        for text, whose in said.items()
    ]


def failed(run: Results) -> str:
    """Say how many cases have no valid answer, by status; empty if all have one."""
    found = Counter(run.failures.statuses)
    invalid, count, parts = found.pop(INVALID, 0), len(run.records), []
    if found:
        fate = "count as failures" if found.total() < count else "nothing was measured after"
        by_status = ", ".join(f"{n} {status}" for status, n in sorted(found.items()))
        parts.append(f"{found.total()} of {count} cases failed and {fate}: {by_status}")
    if invalid:
        parts.append(f"{invalid} of {count} cases could not be used and count nowhere")
    return "; ".join(parts)


def statuses(run: Results) -> list[tuple[str, int, str]]:
    """Return how the cases ended, ``ok`` first: how many did, and what became of them in the score."""
    counts = Counter(run.records.statuses)
    fates = {OK: "measured", INVALID: "counted nowhere"}
    order = sorted(counts.items(), key=lambda one: (one[0] != OK, -one[1], one[0]))
    return [(name, n, fates.get(name, "counted as failures")) for name, n in order]


def remarks(run: Results) -> Iterator[tuple[str, str]]:
    """Yield the remarks on a run: a label of a few letters, and a line of text."""
    if part := run.manifest.shard:
        own, all_ = len(run.planned), len(part.cases)
        yield (
            "shard",
            f"numbers of shard {run.manifest.shard} only: {own:,} of the run's {all_:,} cases",
        )
    if len(run.planned) < len(run.by_id):
        yield "note", f"{len(run.planned):,} of the {len(run.by_id):,} cases in this folder"
    yield from _of_segments(run)
    if run.covers:
        yield "note", run.covers
    marks = run.manifest.tuned.marks if run.manifest.tuned else ()
    if tuned := len(among(marks, run.cases) if marks else ()):
        these = counted(len(run.planned), "case")
        yield "TUNED", f"fields were chosen by {tuned} of these {these}: the numbers flatter them"
    task = run.manifest.task
    if task.conflicts:
        yield "conflict", task.conflicts
    if found := perplexity(run):
        old, new = found
        yield "control", f"perplexity of a text that no edit is about: {old:.4g} -> {new:.4g}"
    elif run.regime.mode != "single":
        yield "control", "the text could not be asked, so that a collapse may go unseen"
    yield from _of_controls(run)
    if lost := collapsed(run):
        text = f"at {min(lost)}: the perplexity is {COLLAPSE:g} times as high, or infinite"
        yield "collapse", text
    yield from _of_judge(run)
    yield from _known(run)
    edits = usable(run.records)
    if edits.noops:
        yield "no-op", f"{edits.noops} of {counted(len(edits), 'edit')} changed no answer"


def _known(run: Results) -> Iterator[tuple[str, str]]:
    shares = {
        name: estimate.value
        for name, measure in run.measures.items()
        if measure.known and (estimate := run.estimates.get(f"pre_{name}"))
    }
    told = "has " + ", ".join(f"{name} {mean:.1%}" for name, mean in shares.items())
    if not shares:
        known = knows(run)
        shares = {role: right / judged for role, (right, judged) in known.items()}
        parts = (f"{right} of {judged} {role}" for role, (right, judged) in known.items())
        told = f"answers {', '.join(parts)} prompts as is right without the edit"
    if low := [name for name, share in shares.items() if share < KNOWS]:
        told += f"; it cannot do the task before any edit ({', '.join(low)} under {KNOWS:.0%}), "
        told += "so the numbers say little about the editor"
    if shares:
        yield "before", f"the unedited model {told}"


def _of_segments(run: Results) -> Iterator[tuple[str, str]]:
    for before, now in pairwise(run.manifest.segments):
        if changed := software(before.environment, now.environment):
            again = "no finished case could be asked again"
            if asked := now.asked:
                cases = counted(asked.cases, "finished case")
                again = f"{cases} asked again differ by {asked.apart:.1g} nats at most"
            yield "note", f"from row {now.first} on made with {'; '.join(changed)}: {again}"


def _of_controls(run: Results) -> Iterator[tuple[str, str]]:
    found = side_effects(run)
    if any(each.over == "models" for each in found.effects):
        edits = f"{len(usable(run.records))} edits, a sample"
        of = "batches" if run.regime.mode == "batch" else edits
        most = max(each.models for each in found.effects)
        over = "their intervals are over these"
        over = over if most >= MODELS else f"below {MODELS} models there is no interval"
        yield "control", f"controls were put to {most} of {of}; {over}"
    elif found.effects:
        yield "control", "intervals of controls are over the documents of one edited model"
    for name, whys in found.uncompared.items():
        for measure, why in whys.items():
            yield "control", f"left out: {measure or 'a part'} of {name}: {why}"
    for name in found.numberless:
        yield "control", f"no number at all of {name}"
    for name, rows in found.unmeasured.items():
        why, models = f"{rows[0].status}: {rows[0].message}", counted(len(rows), "edited model")
        yield "control", f"no answer of {models} to {name}, left out here; the first: {why}"


def _of_judge(run: Results) -> Iterator[tuple[str, str]]:
    if not asked(run.cases):
        if run.manifest.judge:
            yield "judge", IDLE
        return  # nothing was to be judged; to count verdicts takes a walk over all answers
    if run.pending:
        waiting = counted(run.pending, "text")
        yield "pending", f"{waiting} without a judge's word so far: counted nowhere"
    if len(run.served) > 1:
        yield "judged", "more than one model judged: its server has changed"
    found, texts = run.records.verdicts, judged(run)
    if undecided := found["undecided"]:
        yield "judged", f"{undecided} of {texts} texts undecided; they count as wrong"
    if unparsed := found["unparsed"]:
        text = f"{unparsed} of {texts} texts without a verdict; they count nowhere"
        many = f": more than {UNPARSED:.0%}, the judged numbers are not to be trusted"
        yield "judged", text + (many if doubtful(run) else "")


def asked(cases: Iterable[Case]) -> bool:
    """Tell whether any text of these cases is for a judge."""
    return any(probe.key for case in cases for probe in case.probes)


def judged(run: Results) -> int:
    """Return how many texts of the final records have a verdict, before the edits and after."""
    found = run.records.verdicts
    return found.total() - found["pending"]


def doubtful(run: Results) -> bool:
    """Tell whether too many texts have no verdict to trust judged numbers."""
    return run.records.verdicts["unparsed"] > UNPARSED * judged(run)


def why_pending(run: Results) -> str:
    """Return why the first pending text has no verdict, in the judge's words."""
    return next((str(v["note"]) for v in run.verdicts if v["status"] == "pending"), "")


def knows(run: Results) -> dict[str, tuple[int, int]]:
    """Return, by role, how many of the unedited model's replies are right without the edit, of how many."""
    found: dict[str, tuple[int, int]] = {}
    for record in run.records.judged:
        probes = run.by_id[record.case].probes
        for probe, answer in zip(probes, map(decode_answer, record.before), strict=False):
            verdict = answer.verdict if isinstance(answer, Text) else None
            if probe.key and probe.key.old and verdict and verdict.counts:
                right, judged = found.get(probe.role, (0, 0))
                found[probe.role] = right + verdict.reverted, judged + 1
    return found
