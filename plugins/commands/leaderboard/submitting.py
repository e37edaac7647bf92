"""The command ``submit``: the bundle of a finished run, and what its submitter should know before sending it."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edit_harness import durable
from edit_harness.errors import ResourceError, RunFolderError, UsageError
from edit_harness.folder.folder import RunFolder
from edit_harness.folder.manifest import Manifest, as_json, decoded
from edit_harness.folder.table import cases_digest
from edit_harness.registry.plugins import Plugins
from edit_harness.registry.uninstalled import UNVERSIONED
from edit_harness.run.outcome import Run
from edit_harness.run.rereading import own_metrics

from ..run.console import err, out
from . import bundle, verifying
from .data import NO_BASELINE, kept_quiet
from .findings import Report
from .inspecting import inspect

LEVEL = 2
"""What a bundle has to pass before it is worth sending."""
KEYS = re.compile(
    rb"\bsk-[A-Za-z0-9_-]{20,}|\bhf_[A-Za-z0-9]{30,}|\bgh[pousr]_[A-Za-z0-9]{36}"
    rb"|\bAKIA[0-9A-Z]{16}\b|\bxox[abps]-[A-Za-z0-9-]{20,}|-----BEGIN [A-Z ]*PRIVATE KEY"
)
"""What keys of common services look like."""
HOMES = re.compile(rb"/(?:home|Users)/[^/\"\\ ]+|/root/|[A-Z]:\\\\+Users\\\\+[^\"\\]+")


@dataclass(frozen=True, kw_only=True)
class Flags:
    """The flags of ``submit``, as they were parsed."""

    run: str
    out: str | None
    contact: str
    licence: str
    source: str
    tuned_on: str
    baseline: tuple[str, ...] = ()
    debug: bool = False


def submit(plugins: Plugins, flags: Flags) -> int:
    """Make the bundle, say what is in it, check it, and return the exit code. Raises `HarnessError`."""
    for name in ("contact", "licence", "tuned_on"):
        if not getattr(flags, name).strip():
            raise UsageError(
                f"--{name.replace('_', '-')} is empty", "none, if there is nothing to say"
            )
    folder = RunFolder.at(flags.run)
    run = Run.read(folder, own_metrics(plugins, folder))
    check(run)
    if tuned := kept_quiet(run.manifest, flags.tuned_on):
        raise UsageError(
            f"--tuned-on none is not what the run says of its settings: {tuned}",
            "say on which data they were chosen: --tuned-on TEXT",
        )
    content = members(run, flags)
    if found := [(name, KEYS.search(data)) for name, data in content.items() if KEYS.search(data)]:
        raise UsageError(
            f"{found[0][0]} has what looks like a key ({found[0][1].group()[:6].decode()}...)",  # type: ignore[union-attr]
            "take it back where it was issued, remove it from the run, and submit again",
        )
    path = Path(flags.out or f"{folder.path.resolve().name}.zip")
    try:
        bundle.pack(content, path)
    except OSError as error:
        raise ResourceError(f"{path} cannot be written: {error.strerror}", "--out FILE") from None
    _tell(path, content, run)
    report = _verified(path, flags, run)
    return verifying.GOOD if report.good else verifying.REJECTED


def check(run: Run) -> None:
    """Raise `RunFolderError` for a run that is not finished, `UsageError` for one that is no submission."""
    run.check_finished()
    path = run.folder.path
    if run.shard:
        raise UsageError(
            f"{path} is shard {run.shard} of a run, and a submission is a whole one",
            "join the shards first: edit-harness merge SHARD…",
        )
    if run.pending:
        raise RunFolderError(
            f"{path} is not finished: {run.pending} texts wait for a judge",
            f"edit-harness score {path}",
        )
    if some := [name for name, digest in run.manifest.identity.code if UNVERSIONED in digest]:
        raise UsageError(
            f"{path} is of {some[0]}, a class that no file has, so that nobody can run it again",
            "put it into a file, and run it with --plugin FILE",
        )
    if run.manifest.preview:
        raise UsageError(
            f"{path} is a preview in {run.manifest.identity.model.dtype}",
            "run it in the precision of record: --dtype float32",
        )
    if cases_digest(run.cases) != run.manifest.identity.task.data:
        raise UsageError(
            f"{path} has {len(run.cases)} of the cases, and a submission has all",
            f"run it without --limit and --samples: {_goes_on(run)}",
        )


def _goes_on(run: Run) -> str:
    """Say where a run of all cases goes; that edits share a model, or controls, makes it another run."""
    alone = run.regime.mode == "single" and not run.manifest.identity.asked
    return "the same folder goes on" if alone else "it is another run, in a folder of its own"


def members(run: Run, flags: Flags) -> dict[str, bytes]:
    """Return the files of a run's bundle, but for their checksums; its numbers are computed anew.

    Home folders are left out of the manifest where nothing depends on them.
    """
    folder = run.folder.path
    samples, cases = ((folder / name).read_bytes() for name in ("samples.jsonl", "cases.jsonl"))
    said = as_json(run.manifest) | {"cases_sha256": bundle.digest(cases)}
    said = {k: v if k == "identity" else _without_home(v) for k, v in said.items()}
    manifest = decoded(said, Manifest)
    shown = Run(run.folder, run.metrics, manifest, run.everything)
    results = {
        **shown.results(),
        "samples": {"sha256": bundle.digest(samples), "bytes": len(samples)},
    }
    submission = {
        "contact": flags.contact,
        "editor": run.label,
        "fingerprint": manifest.fingerprint,
        "licence": flags.licence,
        "model": manifest.model.name,
        "source": flags.source,
        "tuned_on": flags.tuned_on,
    }
    content = {
        "cases.jsonl": cases,
        "manifest.json": durable.sealed(as_json(manifest)),
        "results.json": durable.sealed(results),
        "samples.jsonl": samples,
        "submission.json": _document(submission),
    }
    events = folder / "events.jsonl"
    return {**content, "events.jsonl": events.read_bytes()} if events.is_file() else content


def _document(data: Mapping[str, Any]) -> bytes:
    return (json.dumps(data, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def _without_home(value: Any) -> Any:
    """Return JSON-ready data in which the user's home folder is a tilde."""
    if isinstance(value, str):
        home = str(Path.home())
        return value.replace(home, "~") if len(home) > 1 else value
    if isinstance(value, Mapping):
        return {key: _without_home(item) for key, item in value.items()}
    return [_without_home(item) for item in value] if isinstance(value, list | tuple) else value


def _tell(path: Path, content: Mapping[str, bytes], run: Run) -> None:
    """Say what will be public, and what in it may not be meant to be."""
    err.print(f"saved    {path}  ({path.stat().st_size:,} bytes)", markup=False)
    err.print("         all of it will be public:")
    for name, data in sorted(content.items()):
        err.print(f"         {name}  {len(data):,} bytes", markup=False)
    if notes := sorted({m.decode() for data in content.values() for m in HOMES.findall(data)}):
        err.print(f"note     it names folders of people: {', '.join(notes[:3])}", markup=False)
    if run.failures:
        err.print(f"note     {len(run.failures)} cases failed, and count as failures")


def _verified(path: Path, flags: Flags, run: Run) -> Report:
    """Check the bundle as a board does, and print what it comes to and the command that does it."""
    with tempfile.TemporaryDirectory(prefix="edit-harness-") as folder:
        report = inspect(path, LEVEL, Path(folder), verifying.existing(flags.baseline))
    for finding in (*report.failed, *report.unchecked):
        said = f"{finding.outcome}: check {finding.check}, {finding.name}: {finding.text}"
        err.print(said, markup=False, highlight=False, soft_wrap=True)
    given = list(flags.baseline)
    if NO_BASELINE in [finding.text for finding in report.unchecked]:
        given.append(_baseline(path, run))
    command = " ".join(["edit-harness verify", str(path), *(f"--baseline {b}" for b in given)])
    out.print(command, markup=False, highlight=False, soft_wrap=True)
    return report


def _baseline(path: Path, run: Run) -> str:
    """Say how the baseline is made that is missing, and return the name of its file."""
    identity = run.manifest.identity
    file = str(path.with_suffix(".baseline.jsonl"))
    model, task = run.manifest.model.path, identity.task.name
    err.print(
        "note     nobody can check it in full without the values of the unedited model; make them,\n"
        "         and send them along (with --task-args and --model-args as the run had them):\n"
        f"         edit-harness leaderboard baseline -m {model} -t {task} "
        f"--dtype {identity.model.dtype} --out {file}",
        markup=False, highlight=False, soft_wrap=True,
    )  # fmt: skip
    return file
