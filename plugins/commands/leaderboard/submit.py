"""The commands ``submit`` and ``leaderboard baseline``: the bundle of a finished run, and an unedited model's answers."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from edit_harness import Regime, evaluate, files
from edit_harness.data import is_finite
from edit_harness.errors import DataError, RunFolderError, UsageError
from edit_harness.files import dumps
from edit_harness.folder.encoding import decode_answer
from edit_harness.folder.folder import RunFolder
from edit_harness.folder.manifest import Manifest, as_json, decoded
from edit_harness.registry.packages import UNVERSIONED
from edit_harness.registry.registry import Plugins
from edit_harness.run import assembly
from edit_harness.run.results import Results
from edit_harness_plugins.reading import check_finished, own_metrics

from ..report import written
from ..run.console import err
from ..run.console import out as console
from ..run.flags import LoadingFlags
from . import baseline as baselines
from . import bundle

KEYS = re.compile(
    rb"\bsk-[A-Za-z0-9_-]{20,}|\bhf_[A-Za-z0-9]{30,}|\bgh[pousr]_[A-Za-z0-9]{36}"
    rb"|\bAKIA[0-9A-Z]{16}\b|\bxox[abps]-[A-Za-z0-9-]{20,}|-----BEGIN [A-Z ]*PRIVATE KEY"
)
"""What keys of common services look like."""


def submit(
    plugins: Plugins, run: str, out: str | None, baseline: Sequence[str], **said: str
) -> int:
    """Make the bundle with what the submitter says, print how it is checked, and return the exit code."""
    folder = RunFolder.at(run)
    made = Results.read(folder, own_metrics(plugins, folder))
    check(made)
    tuned = made.manifest.preset if made.manifest.preset.startswith("tuned") else ""
    if said["tuned_on"].strip().lower() == "none" and (made.manifest.tuned or tuned):
        raise UsageError(
            f"--tuned-on none is not what the run says of its settings: {tuned or 'tuned'}",
            "say on which data they were chosen: --tuned-on TEXT",
        )
    content = members(made, said)
    for member, data in content.items():
        if key := KEYS.search(data):
            raise UsageError(
                f"{member} has what looks like a key ({key.group()[:6].decode()}...)",
                "take it back where it was issued, remove it from the run, and submit again",
            )
    path = Path(out or f"{folder.path.resolve().name}.zip")
    if path.exists():
        raise UsageError(f"{path} is there already", "delete it, or name another: --output FILE")
    with written(path, "--output FILE"):
        bundle.pack(content, path)
    err.print(f"saved    {path}  ({path.stat().st_size:,} bytes)")
    err.print("         all of it will be public:")
    for member, data in sorted(content.items()):
        err.print(f"         {member}  {len(data):,} bytes")
    # A board does so before it takes it.
    known = "".join(f" --baseline {each}" for each in baseline)
    console.print(f"edit-harness leaderboard verify {path}{known}", soft_wrap=True)
    return 0


def check(run: Results) -> None:
    """Raise `RunFolderError` for a run that is not finished, `UsageError` for one that is no submission."""
    check_finished(run)
    path = run.folder.path
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


def members(run: Results, said: Mapping[str, str]) -> dict[str, bytes]:
    """Return the files of a run's bundle, but for their checksums; its numbers are computed anew."""
    folder = run.folder.path
    samples, cases = ((folder / name).read_bytes() for name in ("samples.jsonl", "cases.jsonl"))
    own = as_json(run.manifest) | {"cases_sha256": hashlib.sha256(cases).hexdigest()}
    rest, home = dumps({**own, "identity": None}), dumps(str(Path.home()))[1:-1]
    rest = rest.replace(home, "~") if len(home) > 1 else rest
    manifest = decoded({**json.loads(rest), "identity": own["identity"]}, Manifest)
    results = Results(run.folder, run.metrics, manifest, run.everything).results()
    made_of = {"sha256": hashlib.sha256(samples).hexdigest(), "bytes": len(samples)}
    submission = {
        **said, "editor": run.label, "fingerprint": manifest.fingerprint,
        "model": manifest.model.name,
    }  # fmt: skip
    return {
        "cases.jsonl": cases,
        "manifest.json": files.sealed(as_json(manifest)),
        "results.json": files.sealed({**results, "samples": made_of}),
        "samples.jsonl": samples,
        "submission.json": (json.dumps(submission, indent=1, sort_keys=True) + "\n").encode(),
    }


def measure(
    plugins: Plugins, model: str, task: str, args: Mapping[str, str], file: str, how: LoadingFlags
) -> int:
    """Measure and write a baseline, and return the exit code. Raises `HarnessError`."""
    path = Path(file)
    loaded = assembly.load(plugins, model, **how.model_options)
    with tempfile.TemporaryDirectory(prefix="edit-harness-") as folder:
        run = evaluate("none", task, loaded, task_args=args, regime=Regime(), output=folder)
        header, lines = of_run(run)
    with written(path, "--output FILE"):
        baselines.write(path, header, lines)
    err.print(f"saved    {path}  ({len(lines):,} cases, {path.stat().st_size:,} bytes)")
    console.print(str(path))
    return 0


def of_run(run: Results) -> tuple[baselines.Header, list[baselines.Line]]:
    """Return the baseline that a run's answers before its edits are. Raises `DataError` for NaN among them."""
    identity = run.manifest.identity
    model, task = identity.model, identity.task
    header = baselines.Header(
        name=run.manifest.model.name, model=model.digest, config=model.config,
        tokenizer=model.tokenizer, dtype=model.dtype,
        task=task.name, version=task.version, data=task.data,
    )  # fmt: skip
    before = {each.case: [decode_answer(answer) for answer in each.before] for each in run.records}
    for case, answers in before.items():
        if not all(answer is None or is_finite(answer) for answer in answers):
            raise DataError(
                f"the model answers case {case} with NaN or infinity",
                "check the weights, or load it with --dtype float32",
            )
    return header, [baselines.line(case, before.get(case.id, [])) for case in run.cases]
