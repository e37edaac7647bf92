"""What a reader must know of a run besides its numbers: what was run, what failed, what to doubt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edit_harness.folder.record import INVALID, OK
from edit_harness.run import remarks as about
from edit_harness.run.outcome import Run

REASONS = 5
"""Different messages of one status that are listed."""
DIGEST = 16
"""Hex digits of a digest that are shown."""


@dataclass(frozen=True)
class Status:
    """How many cases ended in one way, and why."""

    name: str
    count: int
    counts: str
    """What became of them in the score."""
    reasons: Sequence[tuple[str, int]]


def provenance(run: Run) -> Iterator[tuple[str, list[str]]]:
    """Yield what identifies a run, a heading with its lines; nothing of the machine's folders."""
    identity, manifest = run.manifest.identity, run.manifest
    editor, task, model = identity.editor, identity.task, identity.model
    yield "Editor", [f"{run.label}, {editor.version}"]
    yield "Settings", _pairs(editor.fields) or ["none"]
    yield "Where they come from", [manifest.preset or "no preset"]
    if editor.provenance:
        yield "Statistics", [f"{k} {str(v)[:DIGEST]}" for k, v in editor.provenance.items()]
    yield "Task", [f"{task.name} {task.version}"]
    yield "Data", [manifest.task.origin or "its own data", f"sha256 {task.data[:DIGEST]}"]
    revision = manifest.model.revision
    yield "Model", [manifest.model.name, *([f"revision {revision}"] if revision else [])]
    yield "Weights", [f"sha256 {model.digest[:DIGEST]}", f"computed in {model.dtype}"]
    yield "Regime", [str(run.regime)]
    yield "Seed", [str(identity.seed)]
    yield "Cases", [f"{len(run.planned):,} planned, {len(run.records):,} measured"]
    if run.judge:
        yield "Judge", [f"{run.judge.name} {run.judge.version}", *run.served]
    yield "Code", [_code(part) for part in manifest.distributions]
    for part in manifest.segments:
        several = len(manifest.segments) > 1
        rows = f" rows {part.first} to {part.last or 'the end'}" if several else ""
        yield f"Machine{rows}", _pairs(part.environment)
    yield "Fingerprint", [manifest.fingerprint[:DIGEST]]


def _pairs(data: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {value}" for key, value in data.items() if value not in ("", [], ())]


def _code(part: Mapping[str, Any]) -> str:
    digest = str(part.get("digest", ""))[:DIGEST]
    return f"{part['name']} {part['version']}, sha256 {digest}"


def remarks(run: Run) -> Iterator[str]:
    """Yield what qualifies the numbers, a sentence each."""
    if note := run.manifest.model.note:
        yield f"Model: {note}"
    if preview := run.manifest.preview:
        yield _sentence(str(preview))
    yield from run.manifest.task.notes
    if run.missing > 0:
        yield f"Not finished: {run.missing:,} records are missing."
    for _, text in about.remarks(run):
        yield _sentence(text).replace("->", "→")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def statuses(run: Run) -> list[Status]:
    """Return how the cases ended, ``ok`` first."""
    counts = Counter(record.status for record in run.records)
    names = sorted(counts, key=lambda name: (name != OK, -counts[name], name))
    return [Status(name, counts[name], _counted(name), _reasons(run, name)) for name in names]


def _counted(status: str) -> str:
    if status == OK:
        return "measured"
    return "counted nowhere" if status == INVALID else "counted as failures"


def _reasons(run: Run, status: str) -> list[tuple[str, int]]:
    told = (r.message for r in run.records if r.status == status and r.message)
    return Counter(told).most_common(REASONS)
