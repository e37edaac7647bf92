"""Remarks: what qualifies a run's numbers, but for failed cases, for the terminal, reports and pages alike."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from edit_harness.data import Text
from edit_harness.errors import counted
from edit_harness.folder.encoding import decode_answer
from edit_harness.folder.manifest import software
from edit_harness.run.results import Results
from edit_harness_plugins.composition import among
from edit_harness_plugins.controls.collapse import COLLAPSE, collapsed, perplexity
from edit_harness_plugins.controls.effects import ENOUGH as MODELS
from edit_harness_plugins.controls.effects import side_effects

NONFINITE = 0.05
"""The share of broken models above which a remark says so."""
UNPARSED = 0.02
"""The share of texts without a verdict above which judged numbers are not to be trusted."""
KNOWS = 0.2
"""The share of right answers below which a model cannot do a task."""
ENOUGH = 20
"""The least number of cases for a share."""


def remarks(run: Results) -> Iterator[tuple[str, str]]:
    """Yield the remarks on a run: a label of a few letters, and a line of text."""
    if part := run.manifest.shard:
        own, all_ = len(run.planned), len(part.cases)
        yield "shard", f"numbers of shard {run.shard} only: {own:,} of the run's {all_:,} cases"
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
    if task.trimmed:
        texts = counted(task.trimmed, "text")
        yield "note", f"{texts} had white space at an end, which was left out"
    if found := perplexity(run):
        old, new = found
        yield "control", f"perplexity of a text that no edit is about: {old:.4g} -> {new:.4g}"
    elif run.regime.mode != "single":
        yield "control", "the text could not be asked, so that a collapse may go unseen"
    yield from _of_controls(run)
    if lost := collapsed(run):
        yield (
            "collapse",
            f"at {min(lost)}: the perplexity is {COLLAPSE:g} times as high, or infinite",
        )
    broken = sum(record.status == "nonfinite" for record in run.records)
    if len(run.records) >= ENOUGH and broken > NONFINITE * len(run.records):
        share = f"{broken / len(run.records):.0%} of the edited models answer with NaN or infinity"
        yield "BROKEN", f"{share}: the numbers say little of an editor that works"
    yield from _of_judge(run)
    yield from _known(run)
    if noop := sum(record.noop for record in run.records):
        yield "no-op", f"{noop} of {counted(len(run.records), 'edit')} changed no answer"


def _known(run: Results) -> Iterator[tuple[str, str]]:
    """Yield how much of the task the unedited model can do: by metrics, or else by the keys of texts."""
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
        of = "batches" if run.regime.mode == "batch" else f"{len(run.records)} edits, a sample"
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
    if not run.judge and not any(probe.key for case in run.cases for probe in case.probes):
        return  # nothing was to be judged; to count verdicts takes a walk over all answers
    if run.pending:
        texts = counted(run.pending, "text")
        yield "pending", f"{texts} without a judge's word so far: counted nowhere"
    if len(run.served) > 1:
        yield "judged", "more than one model judged: its server has changed"
    found, texts = run.records.verdicts, judged(run)
    if undecided := found["undecided"]:
        yield "judged", f"{undecided} of {texts} texts undecided; they count as wrong"
    if unparsed := found["unparsed"]:
        text = f"{unparsed} of {texts} texts without a verdict; they count nowhere"
        many = f": more than {UNPARSED:.0%}, the judged numbers are not to be trusted"
        yield "judged", text + (many if doubtful(run) else "")


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
