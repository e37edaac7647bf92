"""Level 1, data: whether a bundle has every case of a published task, once, and no other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from edit_harness.folder.log import MARK
from edit_harness.folder.manifest import Manifest, fingerprint
from edit_harness.folder.record import INVALID, OK, STATUSES
from edit_harness.folder.table import cases_digest

from . import baselines
from .evidence import Evidence
from .findings import Check, Flag, Remark, Unchecked, shown
from .rows import history, visit_of

NO_BASELINE = (
    "no baseline of this model, dtype and task is known here: --baseline FILE, which "
    "`edit-harness leaderboard baseline -m MODEL -t TASK --out FILE` makes"
)


def identity(evidence: Evidence) -> Iterator[Remark]:
    """Check that the fingerprint follows from what the run depends on, and every row has it."""
    mark = fingerprint(evidence.identity)
    if evidence.manifest.fingerprint != mark:
        yield f"the fingerprint is {shown(evidence.manifest.fingerprint)}, and follows as {mark}"
    if other := [row["seq"] for row in evidence.rows.rows if row["fp"] != mark[:MARK]]:
        yield f"{len(other)} rows are of another run, such as row {other[0]}"


def log(evidence: Evidence) -> Iterator[Remark]:
    """Check that rows are whole and numbered without gaps; tries and withdrawals are what they can be."""
    rows = evidence.rows
    if rows.damaged:
        yield f"{len(rows.damaged)} rows are not as their crc says, such as line {rows.damaged[0]}"
    for number, row in enumerate(rows.rows):
        if row["seq"] != number:
            yield f"line {number + 1} has the number {row['seq']}, not {number}: rows are missing, or more"
            return
    by_visit: dict[object, list[dict[str, object]]] = {}
    for row in rows.kept():
        by_visit.setdefault(visit_of(row), []).append(row)
    for kept in by_visit.values():
        yield from history(kept)


def task(evidence: Evidence) -> Iterator[Remark]:
    """Check that the task, its version and its data are published, and this is no preview of a run."""
    if evidence.manifest.preview:
        yield "the run is a preview, in less precision than that of record"
    if evidence.baseline is not None:
        return
    model, dtype, name, version, data = baselines.place_of(evidence.identity)
    for path in evidence.baselines:
        header = baselines.header_of(path)
        if (header["model"], header["dtype"], header["task"]) == (model, dtype, name):
            yield (
                f"task {shown(name)} {shown(version)} with data {shown(data)[:12]} is not the one "
                f"published: {header['version']} with {header['data'][:12]}"
            )
            return
    yield Unchecked(NO_BASELINE)


def cases(evidence: Evidence) -> Iterator[Remark]:
    """Check that the cases are those that are published, in their order, with their content, and all of them."""
    ids = [case.id for case in evidence.cases]
    if ids != evidence.manifest.cases:
        yield "cases.jsonl has not the cases of manifest.json"
    if len(set(ids)) < len(ids):
        yield f"case {shown(Counter(ids).most_common(1)[0][0])!r} is there twice"
    if evidence.baseline is None:
        yield Unchecked(NO_BASELINE)
    else:
        yield from _against(evidence, list(evidence.baseline.lines))
    if cases_digest(evidence.cases) != evidence.identity.task.data:
        yield "the cases are not those of the task's data: their digest is another one"


def _against(evidence: Evidence, published: list[str]) -> Iterator[Remark]:
    assert evidence.baseline is not None
    lines = evidence.baseline.lines
    if missing := [name for name in published if name not in evidence.by_id]:
        yield f"{len(missing)} of {len(published)} cases are missing, such as {shown(missing[0])!r}"
    if more := [name for name in evidence.by_id if name not in lines]:
        yield f"{len(more)} cases are not in the task, such as {shown(more[0])!r}"
    known = [case for case in evidence.cases if case.id in lines]
    if other := [c.id for c in known if baselines.content_hash(c) != lines[c.id].hash]:
        yield f"{len(other)} cases are not as published, such as {shown(other[0])!r}"
    if not (missing or more) and [case.id for case in evidence.cases] != published:
        yield "the cases stand in another order than published"


def coverage(evidence: Evidence) -> Iterator[Remark]:
    """Check that every visit that the plan has is there, and no other."""
    planned = set(evidence.visits)
    made = {record.visit for record in evidence.records}
    if missing := sorted(planned - made):
        yield f"{len(missing)} of {len(planned)} visits have no row that counts, such as {shown(missing[0])}"
    if more := sorted(made - planned):
        yield f"{len(more)} rows are of no visit of the plan, such as {shown(more[0])}"
    wanted = evidence.controls
    controls = {record.visit for record in evidence.everything} - made
    if controls != wanted:
        yield f"controls have {len(controls)} rows, and {len(wanted)} that the plan asks for"
    visits = len(planned) + len(wanted)
    if evidence.manifest.visits != visits:
        yield f"manifest.json speaks of {shown(evidence.manifest.visits)} visits, not {visits}"


def statuses(evidence: Evidence) -> Iterator[Remark]:
    """Check that statuses are known ones, a case that failed is told as failed, and none is left out as invalid."""
    everything = evidence.everything
    if unknown := [record for record in everything if record.status not in STATUSES]:
        yield f"there is no status {shown(unknown[0].status)!r} (case {shown(unknown[0].case)!r})"
    for record in evidence.everything:
        case = evidence.case(record)
        judged = case is not None and any(probe.key for probe in case.probes)
        if case and record.status == INVALID and not case.problem and not judged:
            yield f"case {shown(record.case)!r} is told as invalid, and is not"
            break
        if case and case.problem and record.status != INVALID:
            yield f"case {shown(record.case)!r} cannot be used, and has the status {shown(record.status)}"
            break
    if doubted := {r.case for r in evidence.records if r.status == INVALID} & _usable(evidence):
        yield Flag(
            f"{len(doubted)} cases are told as invalid for their keys, such as "
            f"{shown(min(doubted))!r}: a replay runs them all again"
        )
    told = evidence.results.get("failed")
    final = {record.case: record.status for record in evidence.records}
    failed = {case: status for case, status in final.items() if status != OK}
    if told != failed:
        yield f"results.json does not tell the {len(failed)} cases that failed in the rows"


def tuning(evidence: Evidence) -> Iterator[Remark]:
    """Check that a tuning that the run tells of is told."""
    if tuned := kept_quiet(evidence.manifest, evidence.submission["tuned_on"]):
        yield f"submission.json says tuned_on: none, and the run of its settings: {shown(tuned)}"


def kept_quiet(manifest: Manifest, said: str) -> str:
    """Return what a run tells of a tuning of which its submitter says none; empty if nothing."""
    preset = manifest.preset
    tuned = manifest.tuned or preset.startswith("tuned")
    return (preset or "tuned") if tuned and said.strip().lower() == "none" else ""


def _usable(evidence: Evidence) -> set[str]:
    return {case.id for case in evidence.cases if not case.problem}


CHECKS = (
    Check("1.1", "identity", identity),
    Check("1.2", "log", log),
    Check("1.3", "task", task),
    Check("1.4", "cases", cases),
    Check("1.5", "coverage", coverage),
    Check("1.6", "statuses", statuses),
    Check("1.7", "tuning", tuning),
)
