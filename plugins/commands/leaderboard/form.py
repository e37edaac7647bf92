"""Level 0, form: whether a bundle is one, before anything of it is believed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from edit_harness import durable
from edit_harness.folder.manifest import Manifest, fingerprint

from . import bundle
from .evidence import Evidence
from .findings import Check, Rejected, Remark, shown
from .limits import MEMBERS, SUMS, Limits

SUBMISSION = ("contact", "editor", "fingerprint", "licence", "model", "source", "tuned_on")


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
    raw = (evidence.folder / SUMS).read_bytes()
    if b"\r" in raw and raw.replace(b"\r\n", b"\n") == bundle.listed(covered):
        yield f"{SUMS} has the line ends of Windows, CRLF: it has to have LF, as submit writes it"
    elif raw != bundle.listed(covered):
        said = raw.decode("ascii", "replace")
        other = [name for name, digest in covered.items() if f"{digest}  {name}\n" not in said]
        yield f"{SUMS} does not say what {', '.join(other) or 'the files'} are"


def strictness(evidence: Evidence) -> Iterator[Remark]:
    """Check that every file is strict JSON, with rows, texts, numbers and depths within the limits."""
    readers: dict[str, Callable[[], object]] = {
        "submission.json": lambda: evidence.submission,
        "manifest.json": lambda: evidence.document("manifest.json"),
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
    yield from _submission(evidence.submission, evidence.limits)
    if evidence.manifest.shard:
        yield "manifest.json is of a shard of a run: merge makes the whole of it"
    yield from _names(evidence.manifest, evidence.limits)


def _submission(submission: Mapping[str, Any], limits: Limits) -> Iterator[Remark]:
    if missing := [n for n in SUBMISSION if not isinstance(submission.get(n), str)]:
        yield f"submission.json has no text {missing[0]!r}"
    if unknown := [n for n in submission if n not in SUBMISSION and not n.startswith("x_")]:
        yield f"submission.json has a field {shown(unknown[0])!r}, which is none"
    if empty := [n for n in ("contact", "licence", "tuned_on") if submission.get(n) == ""]:
        yield f"submission.json has an empty {empty[0]!r}"
    for name in SUBMISSION:
        most = limits.name if name in ("editor", "model") else limits.word
        if len(str(submission.get(name, ""))) > most:
            yield f"submission.json: {name} has more than {most:,} characters"


def _names(manifest: Manifest, limits: Limits) -> Iterator[Remark]:
    """Yield what is too long for the places of pages that are made for names."""
    identity, judge = manifest.identity, manifest.identity.judge
    names = {
        "label": manifest.label,
        "fingerprint": manifest.fingerprint,
        "model.name": manifest.model.name,
        "model.revision": manifest.model.revision or "",
        "identity.editor.name": identity.editor.name,
        "identity.editor.version": identity.editor.version,
        "identity.task.name": identity.task.name,
        "identity.task.version": identity.task.version,
        "identity.model.dtype": identity.model.dtype,
        "identity.judge.name": judge.name if judge else "",
        "identity.judge.version": judge.version if judge else "",
    }
    for name, text in names.items():
        if len(text) > limits.name:
            yield f"manifest.json: {name} has more than {limits.name} characters"


def digests(evidence: Evidence) -> Iterator[Remark]:
    """Check that the digests in manifest.json and results.json are of what they say."""
    for name in ("manifest.json", "results.json"):
        data = evidence.document(name)
        rest = {key: value for key, value in data.items() if key != durable.SEAL}
        if data.get(durable.SEAL) != durable.digest(rest):
            yield f"{name} is not as its own sha256 says"
    if evidence.manifest.cases_sha256 != evidence.digests["cases.jsonl"]:
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
