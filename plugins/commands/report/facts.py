"""What a reader must know of a run besides its numbers: what was run, what failed, what to doubt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from edit_harness.folder.record import INVALID, OK
from edit_harness.run.estimates import LEVEL
from edit_harness.run.results import Results
from edit_harness_plugins.controls.effects import side_effects

from . import remarks

T = TypeVar("T")
SHORT, DIGEST = 8, 16
"""Hex digits of a digest that tables and pages show."""
TELLING = (
    "Task", "Model", "Mode", "Judge", "Preset", "Fields", "Weights", "Tokenizer", "Seed", "Data",
    "Shard",
)  # fmt: skip
"""What may tell runs of one editor apart, in the order in which `labels` tries it."""


def facts(run: Results) -> dict[str, str]:
    """Return what a run's numbers depend on, as texts, by the heads that tables give them."""
    manifest, identity = run.manifest, run.manifest.identity
    model, judge = identity.model, run.judge
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
        "Shard": str(run.shard or "all"),
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
    judge = run.judge.version if run.judge else ""
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

    ``always`` are there in any case; the others where two runs differ that are equal in all those.
    Of fields only those are shown in which runs of one editor differ.
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
        alike = grouped(told, lambda own: tuple(own[each] for each in heads))
        if head not in heads and any(len({own[head] for own in some}) > 1 for some in alike):
            heads.append(head)
    if len(grouped(told, lambda own: tuple(own[head] for head in heads))) < len(told):
        heads.append("Run")
    return heads, [[own[head] for head in heads] for own in told]


def grouped(every: Sequence[T], kind: Callable[[T], object]) -> list[list[T]]:
    """Return things in groups that are alike in something, in the order of their first."""
    found: dict[object, list[T]] = {}
    for each in every:
        found.setdefault(kind(each), []).append(each)
    return list(found.values())


def sound(run: Results) -> bool:
    """Tell whether every case has a valid answer, every control a number, and enough texts a verdict."""
    return not (run.failures or run.pending or run.doubtful) and side_effects(run).whole


def caption(runs: Sequence[Results], *, data: bool = False) -> str:
    """Say what all numbers of a table are of, where that is the same for all; with their data, if asked."""
    told = [facts(run) for run in runs]
    forms = [
        ("task ", "{Task} {Version}" + " (data {Data})" * data),
        ("model ", "{Model} ({Weights})"),
        ("", "{Precision}"),
        ("", "{Mode}"),
        *([("shard ", "{Shard}")] if any(run.shard for run in runs) else []),
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
    rest = [*run.manifest.task.notes, *(text for _, text in remarks.remarks(run))]
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
