"""The commands of ``leaderboard``: ``build`` makes a site of the bundles that pass, ``baseline`` asks an unedited model."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

from edit_harness import Regime, evaluate
from edit_harness.data import is_finite
from edit_harness.errors import DataError, ResourceError, UsageError, one_line
from edit_harness.files import digest
from edit_harness.folder.encoding import decode_answer
from edit_harness.folder.manifest import Identity, Manifest, TaskInfo, as_json
from edit_harness.hookspecs import DISTRIBUTION
from edit_harness.registry import selection, settings
from edit_harness.registry.registry import Plugins
from edit_harness.run import assembly
from edit_harness.run.results import Results

from ..run.console import err
from ..run.console import out as console
from ..run.flags import LoadingFlags
from . import baseline as baselines
from . import replay, sandbox, site, verify
from .bundle import Report
from .checks import HIGHEST
from .evidence import Evidence
from .site import Entry


def build(folder: str, out: str, title: str, baseline: Sequence[str], reports: str | None) -> int:
    """Check the bundles, write the site, and return the exit code: 6 if a bundle was left out.

    ``reports`` is a folder with what ``verify --level 4 --json`` printed. Raises `HarnessError`.
    """
    bundles = _found(folder)
    known = verify.existing(baseline)
    replays = _replays(Path(reports)) if reports else {}
    rejected: list[tuple[str, str]] = []
    entries: list[Entry] = []
    with ExitStack() as stack:
        stack.enter_context(
            selection.chosen(plugin=(), include_path=(), only=[DISTRIBUTION], block=())
        )
        plugins = Plugins.installed()
        for bundle in bundles:
            # The site reads a run's folder as it is written, so all of them stay until then.
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="edit-harness-")))
            report = sandbox.inspect(bundle, HIGHEST, place, known)
            if not report.good:
                rejected.append((bundle.name, why(report)))
                continue
            evidence = Evidence(bundle, place / "members", plugins, known)
            entries.append(_entry(evidence, badge(replays.get(report.digest))))
        entries, told = side_by_side(entries)
        rejected += site.write(entries, rejected, Path(out), title)
    for line in [*told, *(f"left out {name}: {reason}" for name, reason in rejected)]:
        err.print(one_line(line), soft_wrap=True)
    shown = len(bundles) - len(rejected)
    err.print(f"saved    {out}  ({shown} runs, {len(rejected)} left out)")
    return verify.REJECTED if rejected else verify.GOOD


def _found(folder: str) -> list[Path]:
    """Return the bundles of a folder, by name. Raises `UsageError` if there are none."""
    place = Path(folder)
    if not place.is_dir():
        raise UsageError(f"there is no folder {folder}", "name the folder with the bundles")
    bundles = sorted(path for path in place.iterdir() if path.suffix.lower() == ".zip")
    if not bundles:
        raise UsageError(f"{folder} has no bundles", "edit-harness submit RUN makes one")
    return bundles


def _replays(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what came of replays, by the digest of the bundle. Raises `DataError`."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            for report in json.loads(path.read_text(encoding="utf-8")):
                if report["good"] and report["replay"]:
                    found[report["digest"]] = report["replay"]
        except (OSError, ValueError, KeyError, TypeError):
            raise DataError(
                f"{path} is no report of a replay", "verify --level 4 --json prints one"
            ) from None
    return found


def why(report: Report) -> str:
    """Return why a bundle is left out, in a line."""
    first = [*report.having("failed"), *report.having("unchecked")][0]
    return f"check {first.check}, {first.name}: {first.text}"


def badge(tally: dict[str, Any] | None) -> str:
    """Return what a bundle may be called: as far as somebody else has come to the same."""
    if tally is None:
        return "recomputed"
    agree, of = tally["agree"], tally["of"]
    return "reproduced" if agree == of else f"replayed {agree}/{of}"


def _entry(evidence: Evidence, badge: str) -> Entry:
    manifest = _vouched(evidence)
    run = Results(evidence.run.folder, evidence.metrics, manifest, evidence.everything)
    submitted = as_json(evidence.submission)
    for name, own in (("editor", manifest.label), ("model", manifest.model.name)):
        if (text := submitted.pop(name)) != own:
            submitted[f"{name}, as submitted"] = text
    return Entry(run, submitted, badge, evidence.bundle.name)


def _vouched(evidence: Evidence) -> Manifest:
    """Return a manifest with names that the fingerprint or the baseline vouches for, and no others."""
    said, editor = evidence.manifest, evidence.identity.editor
    variant = ""
    with suppress(Exception):  # an editor is made of numbers that a stranger chose, or is not here
        found = evidence.plugins.find("editor", editor.name)
        variant = settings.build(found.load(), replay.given(found, editor), "editor").variant
    model = evidence.baseline.header.name or said.identity.model.digest[:12]
    return structs.replace(
        said,
        label=f"{editor.name}[{variant}]" if variant else editor.name,
        preset="as submitted" if said.preset else "",
        model=structs.replace(said.model, name=model, note="", revision=""),
        task=TaskInfo(),
    )


def side_by_side(entries: Sequence[Entry]) -> tuple[list[Entry], list[str]]:
    """Return the entries, those that claim the same run marked, and lines that say so.

    None takes another's place: nobody knows whose was first, and a replay shows which is right.
    """
    claims: dict[str, list[Entry]] = {}
    for entry in entries:
        claims.setdefault(claim(entry.run.manifest.identity), []).append(entry)
    shown, lines = [], []
    for same in claims.values():
        if len(same) > 1:
            names = ", ".join(entry.bundle for entry in same)
            lines.append(f"rivals   {names}: the same run, all are shown")
            same = [replace(each, rival=f"one of {len(same)} of the same run") for each in same]
        shown += same
    return shown, lines


def claim(identity: Identity) -> str:
    """Return a digest of what a run says that it is, without what is its submitter's word alone."""
    said = as_json(identity)
    for part in (said["editor"], said["judge"] or {}, *said.get("controls", ())):
        part |= {"version": "", "provenance": {}}
    said["model"] |= {"config": "", "tokenizer": ""}
    return digest({**said, "metrics": sorted(identity.metrics), "together": "", "code": []})


def measure(
    plugins: Plugins, model: str, task: str, args: Mapping[str, str], file: str, how: LoadingFlags
) -> int:
    """Measure and write a baseline, and return the exit code. Raises `HarnessError`."""
    path = Path(file)
    loaded = assembly.load(plugins, model, **how.model_options)
    with tempfile.TemporaryDirectory(prefix="edit-harness-") as folder:
        run = evaluate("none", task, loaded, task_args=args, regime=Regime(), output=folder)
        header, lines = of_run(run)
    try:
        baselines.write(path, header, lines)
    except OSError as error:
        raise ResourceError(f"{path} cannot be written: {error.strerror}", "--out FILE") from None
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
