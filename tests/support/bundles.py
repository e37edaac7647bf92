"""An honest bundle of a small benchmark on the bundled model, and forgeries of it with more or less care."""

from __future__ import annotations

import copy
import hashlib
import json
import zipfile
import zlib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import edit_harness as eh
from edit_harness import files
from edit_harness.folder.encoding import decode_answer, decode_case, encode_case
from edit_harness.folder.manifest import Manifest, as_json, decoded
from edit_harness.folder.record import INVALID, Record
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import make_metrics, source_of
from edit_harness.run.estimates import values
from edit_harness.run.results import Results
from edit_harness_plugins.commands.leaderboard import baseline, bundle, checks, submit
from edit_harness_plugins.commands.leaderboard.bundle import Report
from edit_harness_plugins.commands.leaderboard.evidence import Evidence

plugins = cache(Plugins.installed)
SAMPLE = Path(source_of(plugins(), "pocket").data["counterfact"])
METRICS = ("success", "magnitude", "accuracy", "nkl")
CASES = 12
SUBMISSION = {"contact": "a@example.org", "licence": "CC0", "source": "", "tuned_on": "pocket"}


@dataclass
class Forgery:
    """What a bundle says, as data; `members` writes it down, with all digests as they have to be."""

    manifest: dict
    results: dict
    submission: dict
    cases: list
    rows: list
    raw: dict = field(default_factory=dict)
    """Members as bytes, instead of what follows from the rest; None leaves one out."""

    def copy(self) -> Forgery:
        return copy.deepcopy(self)

    def row(self, case: str) -> dict:
        return next(row for row in self.rows if row.get("case") == case)

    def identify(self) -> None:
        """Let everything bear the fingerprint that follows from the identity."""
        mark = files.digest(self.manifest["identity"])
        self.manifest["fingerprint"] = self.submission["fingerprint"] = mark
        for row in self.rows:
            row["fp"] = mark[:12]

    def number(self) -> None:
        for seq, row in enumerate(self.rows):
            row["seq"] = seq

    def recompute(self, *, valued: bool = True) -> None:
        """Let values follow from answers, and results from values: what a careful cheat does."""
        metrics = make_metrics(plugins(), self.manifest["metrics"])
        known = {data["id"]: decode_case(data) for data in self.cases}
        for row in self.rows if valued else ():
            if row["status"] != INVALID and row["case"] in known:
                sides = tuple([decode_answer(a) for a in row[s]] for s in ("before", "after"))
                row["values"] = values(known[row["case"]], sides, metrics, row["status"])
        order = {data["id"]: i for i, data in enumerate(self.cases)}
        found = {
            (row["case"], row["state"]): Record.read(json.dumps(row).encode())
            for row in self.rows
            if "case" in row
        }
        everything = sorted(found.values(), key=lambda record: order.get(record.case, len(order)))
        run = Results(None, metrics, decoded(self.manifest, Manifest), everything)
        run.cases, run.by_id = list(known.values()), known
        self.results = run.results()

    def members(self) -> dict[str, bytes]:
        """Return the members, sealed: rows, cases and documents have the digests of what they say."""
        samples = b"".join(map(line, self.rows))
        cases = "".join(json.dumps(case, sort_keys=True) + "\n" for case in self.cases).encode()
        samples, cases = self.raw.get("samples.jsonl", samples), self.raw.get("cases.jsonl", cases)
        manifest = {**self.manifest, "cases_sha256": digest(cases or b"")}
        rest = {"samples": {"sha256": digest(samples or b""), "bytes": len(samples or b"")}}
        found = {
            "cases.jsonl": cases,
            "manifest.json": files.sealed(manifest),
            "results.json": files.sealed({**self.results, **rest}),
            "samples.jsonl": samples,
            "submission.json": document(self.submission),
            **self.raw,
        }
        return {name: data for name, data in found.items() if data is not None}

    def archive(self, path: Path) -> Path:
        """Write the bundle."""
        bundle.pack(self.members(), path)
        return path


def archive_of(path: Path, members: dict[str, bytes]) -> Path:
    """Write members as they are, checksums among them or not."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def sums(members: dict[str, bytes]) -> bytes:
    """Return the file of checksums of members."""
    return bundle.listed({name: digest(data) for name, data in members.items()})


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def document(data) -> bytes:
    return (json.dumps(data, indent=1, sort_keys=True) + "\n").encode()


def line(row: dict) -> bytes:
    """Return a row with its checksum."""
    body = json.dumps(row).removesuffix("}").encode()
    return body + b', "crc": "%08x"}\n' % zlib.crc32(body)


def framed(record: Record, seq: int, mark: str) -> dict:
    """Return a record as a row, but for its checksum."""
    return json.loads(json.dumps({"v": 4, "seq": seq, "fp": mark[:12], **record.row}))


def honest(folder: Path, **changes) -> tuple[Forgery, Path, Results]:
    """Return the bundle of a run of twelve cases, the baseline that it is checked against, and the run."""
    facts = folder / "facts.json"
    facts.write_text(json.dumps(json.loads(SAMPLE.read_text())[:CASES]))
    args = {"data": str(facts)}
    model = eh.load_model("pocket")
    made = {"task_args": args, "metrics": METRICS, "output": folder / "runs"}
    run = eh.evaluate("rome", "counterfactplus", model, **made, **changes)
    path = folder / "baseline.jsonl"
    baseline.write(path, *submit.of_run(run))
    manifest = json.loads(json.dumps(as_json(run.folder.planned())))
    mark = manifest["fingerprint"]
    return (
        Forgery(
            manifest,
            json.loads(json.dumps(run.results())),
            {**SUBMISSION, "editor": "rome", "model": "pocket", "fingerprint": mark},
            [json.loads(json.dumps(encode_case(case))) for case in run.cases],
            [framed(record, seq, mark) for seq, record in enumerate(run.everything)],
        ),
        path,
        run,
    )


def report(place: Path, path: Path, known: Path):
    """Return what the checks find, made in this process, with the content that they saw."""
    (place / "members").mkdir()
    evidence = Evidence(path, place / "members", plugins(), [known])
    found = list(checks.found(evidence, 3))
    return Report(str(path), 3, found, evidence.digests.get("SHA256SUMS", "")), evidence
