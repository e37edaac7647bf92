"""Level 0, form: whether a bundle is one, before anything of it is believed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from edit_harness import durable
from edit_harness.leaderboard import bundle
from edit_harness.leaderboard.evidence import Evidence
from edit_harness.leaderboard.findings import Check, Rejected, Remark, shown
from edit_harness.leaderboard.limits import MEMBERS, SUMS
from edit_harness.outcome import MANIFEST
from edit_harness.records import fingerprint

SUBMISSION = ("contact", "editor", "fingerprint", "licence", "model", "source", "tuned_on")
IDENTITY: Mapping[str, Any] = {
    "schema": int, "editor": dict, "task": dict, "metrics": list, "model": dict, "regime": dict,
    "seed": int, "code": list,
}  # fmt: skip
TEXTS: Mapping[str, tuple[str, ...]] = {
    "editor": ("name", "version"),
    "task": ("name", "version", "data"),
    "model": ("digest", "config", "tokenizer", "dtype"),
}
"""The texts that have to be in parts of the identity."""
FIELDS: Mapping[str, Any] = {
    "cases": list, "fingerprint": str, "identity": dict, "label": str, "metrics": list,
    "model": dict, "preset": str, "visits": int,
}  # fmt: skip


def container(evidence: Evidence) -> Iterator[Remark]:
    """Check that it is a .zip or a folder of regular files with known names, within the limits of size."""
    evidence.digests.update(bundle.unpack(evidence.bundle, evidence.folder, evidence.limits))
    yield from ()


def members(evidence: Evidence) -> Iterator[Remark]:
    """Check that all files are there."""
    if missing := [name for name in (*MEMBERS, SUMS) if name not in evidence.digests]:
        yield f"there is no {', no '.join(missing)}"


def checksums(evidence: Evidence) -> Iterator[Remark]:
    """Check that SHA256SUMS covers every file, and every file is as it says."""
    covered = {name: digest for name, digest in evidence.digests.items() if name != SUMS}
    if (evidence.folder / SUMS).read_bytes() != bundle.listed(covered):
        said = (evidence.folder / SUMS).read_bytes().decode("ascii", "replace")
        other = [name for name, digest in covered.items() if f"{digest}  {name}\n" not in said]
        yield f"{SUMS} does not say what {', '.join(other) or 'the files'} are"


def strictness(evidence: Evidence) -> Iterator[Remark]:
    """Check that every file is strict JSON, with rows, texts, numbers and depths within the limits."""
    readers: dict[str, Callable[[], object]] = {
        "submission.json": lambda: evidence.submission,
        "manifest.json": lambda: evidence.manifest,
        "results.json": lambda: evidence.results,
        "cases.jsonl": lambda: evidence.cases,
        "samples.jsonl": lambda: evidence.rows,
        "events.jsonl": lambda: evidence.events,
    }
    for name in sorted(readers.keys() & evidence.digests.keys()):
        try:
            readers[name]()
        except Rejected as error:
            raise Rejected(f"{name}: {error}") from None
    yield from ()


def schema(evidence: Evidence) -> Iterator[Remark]:
    """Check that every file has the fields that it has to have, of their types."""
    manifest, submission = evidence.manifest, evidence.submission
    if missing := [n for n in SUBMISSION if not isinstance(submission.get(n), str)]:
        yield f"submission.json has no text {missing[0]!r}"
    if unknown := [n for n in submission if n not in SUBMISSION and not n.startswith("x_")]:
        yield f"submission.json has a field {shown(unknown[0])!r}, which is none"
    if empty := [n for n in ("contact", "licence", "tuned_on") if submission.get(n) == ""]:
        yield f"submission.json has an empty {empty[0]!r}"
    if absent := sorted(MANIFEST - manifest.keys()):
        yield f"manifest.json has no {absent[0]!r}"
        return
    yield from _wrong("manifest.json", manifest, FIELDS)
    if isinstance(manifest["identity"], dict):
        yield from _identity(manifest["identity"])
    for name in ("cases", "metrics"):
        if not all(isinstance(item, str) for item in manifest[name]):
            yield f"manifest.json: {name} are no texts"


def _identity(identity: Mapping[str, Any]) -> Iterator[Remark]:
    yield from _wrong("the identity of manifest.json", identity, IDENTITY)
    for part, names in TEXTS.items():
        held = identity.get(part)
        texts = held if isinstance(held, dict) else {}
        for name in names:
            if not isinstance(texts.get(name), str):
                yield f"the identity of manifest.json has no text {part}.{name}"


def _wrong(where: str, data: Mapping[str, Any], kinds: Mapping[str, Any]) -> Iterator[Remark]:
    for name, kind in kinds.items():
        if type(data.get(name)) is not kind:
            yield f"{where}: {name} is {shown(data.get(name))}, no {kind.__name__}"


def digests(evidence: Evidence) -> Iterator[Remark]:
    """Check that the digests in manifest.json and results.json are of what they say."""
    for name in ("manifest.json", "results.json"):
        data = evidence.document(name)
        rest = {key: value for key, value in data.items() if key != durable.SEAL}
        if data.get(durable.SEAL) != durable.digest(rest):
            yield f"{name} is not as its own sha256 says"
    if evidence.manifest.get("cases_sha256") != evidence.digests["cases.jsonl"]:
        yield "manifest.json names other cases than cases.jsonl: cases_sha256"
    size = (evidence.folder / "samples.jsonl").stat().st_size
    if evidence.results.get("samples") != {
        "sha256": evidence.digests["samples.jsonl"],
        "bytes": size,
    }:
        yield "results.json was not made from this samples.jsonl: samples"
    if evidence.submission["fingerprint"] != fingerprint(evidence.identity):
        yield "submission.json is of another run: fingerprint"


CHECKS = (
    Check("0.1", "container", container),
    Check("0.2", "members", members),
    Check("0.3", "checksums", checksums),
    Check("0.4", "strictness", strictness),
    Check("0.5", "schema", schema),
    Check("0.6", "digests", digests),
)
