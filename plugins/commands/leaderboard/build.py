"""The commands of ``leaderboard``: ``build`` makes a site of the bundles that pass, ``baseline`` asks an unedited model."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

from edit_harness.data import Answer, Case, is_finite
from edit_harness.errors import DataError, ResourceError, UsageError, one_line
from edit_harness.files import digest
from edit_harness.folder.manifest import Identity, Manifest, TaskInfo, as_json
from edit_harness.hookspecs import DISTRIBUTION
from edit_harness.model.model import Model
from edit_harness.model.tokens import TooLongError
from edit_harness.model.weights import of_config
from edit_harness.registry import selection, settings
from edit_harness.registry.registry import Plugins
from edit_harness.run import assembly
from edit_harness.run.assembly import Benchmark
from edit_harness.run.clean import CleanPass
from edit_harness.run.results import Run

from ..run.console import err
from ..run.console import out as console
from ..run.flags import LoadingFlags
from . import baseline as known_answers
from . import replay, sandbox, site, verify
from .bundle import SUMS, Report
from .checks import HIGHEST
from .evidence import Evidence
from .site import Entry

TOGETHER = 32
"""Cases that are asked at once."""


def build(folder: str, out: str, title: str, baseline: Sequence[str], reports: str | None) -> int:
    """Check the bundles, write the site, and return the exit code: 6 if a bundle was left out.

    ``reports`` is a folder with what ``verify --level 4 --json`` printed, the badges of bundles that
    were replayed. Raises `UsageError`, and `DataError` for a report that is none.
    """
    bundles = _found(folder)
    known = verify.existing(baseline)
    replays = _replays(Path(reports)) if reports else {}
    rejected: list[tuple[str, str]] = []
    entries: list[Entry] = []
    names: dict[str, str] = {}
    with ExitStack() as stack:
        stack.enter_context(
            selection.chosen(plugin=(), include_path=(), only=[DISTRIBUTION], block=())
        )
        plugins = Plugins.installed()
        for bundle in bundles:
            # The site reads a run's folder as it is written, so all of them stay until then.
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="edit-harness-")))
            report = sandbox.inspect(bundle, HIGHEST, place, known)
            first = names.setdefault(report.digest or bundle.name, bundle.name)
            if not report.good:
                rejected.append((bundle.name, why(report)))
            elif first != bundle.name:
                rejected.append((bundle.name, f"the same bundle as {first}"))
            else:
                digests = {SUMS: report.digest}
                evidence = Evidence(bundle, place / "members", plugins, known, digests)
                entries.append(_entry(report, evidence, badge(replays.get(report.digest))))
        entries, told = side_by_side(entries)
        unshown = site.write(entries, rejected, Path(out), title)
    rejected, shown = [*rejected, *unshown], len(entries) - len(unshown)
    for line in [*told, *(f"left out {name}: {reason}" for name, reason in rejected)]:
        err.print(one_line(line), soft_wrap=True)
    err.print(f"saved    {out}  ({shown} runs, {len(rejected)} left out)")
    return verify.REJECTED if rejected else verify.GOOD


def _found(folder: str) -> list[Path]:
    """Return the bundles of a folder, by name. Raises `UsageError` if there are none."""
    place = Path(folder)
    if not place.is_dir():
        raise UsageError(f"there is no folder {folder}", "name the folder with the bundles")
    bundles = sorted(path for path in place.iterdir() if path.suffix.lower() == ".zip")
    if others := sorted(path.name for path in place.iterdir() if path not in bundles):
        err.print(f"skipped  {len(others)} files that are no .zip, such as {one_line(others[0])}")
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


def _entry(report: Report, evidence: Evidence, badge: str) -> Entry:
    manifest = _vouched(evidence)
    run = Run(evidence.run.folder, evidence.metrics, manifest, evidence.everything)
    submitted = as_json(evidence.submission)
    for name, own in (("editor", manifest.label), ("model", manifest.model.name)):
        if (text := submitted.pop(name)) != own:
            submitted[f"{name}, as submitted"] = text
    notes = [f"{finding.name}: {finding.text}" for finding in report.having("flag")]
    return Entry(run, submitted, badge, notes, report.bundle)


def _vouched(evidence: Evidence) -> Manifest:
    """Return a manifest in which names are those of the run, and words of its submitter are left out.

    The editor has the name that the fingerprint covers, the model that under which its weights are
    published.
    """
    said, editor = evidence.manifest, evidence.identity.editor
    variant = ""
    with suppress(Exception):  # an editor is made of numbers that a stranger chose, or is not here
        found = evidence.plugins.find("editor", editor.name)
        variant = settings.build(found.load(), replay.given(found, editor), "editor").variant
    model = evidence.baseline.header["name"] or said.identity.model.digest[:12]
    return structs.replace(
        said,
        label=f"{editor.name}[{variant}]" if variant else editor.name,
        preset="as submitted" if said.preset else "",
        model=structs.replace(said.model, name=model, note="", revision=""),
        task=TaskInfo(),
    )


def side_by_side(entries: Sequence[Entry]) -> tuple[list[Entry], list[str]]:
    """Return the entries, those that claim the same run marked, and lines that say so.

    None takes the place of another: which is right shows in a replay, and nobody knows whose was first.
    """
    claims: dict[str, list[Entry]] = {}
    for entry in entries:
        claims.setdefault(claim(entry.run.manifest.identity), []).append(entry)
    shown, lines = [], []
    for same in claims.values():
        if len(same) > 1:
            names = ", ".join(Path(entry.bundle).name for entry in same)
            lines.append(f"rivals   {names}: the same run, all are shown")
            same = [replace(each, rival=f"one of {len(same)} of the same run") for each in same]
        shown += same
    return shown, lines


def claim(identity: Identity) -> str:
    """Return a digest of what a run says that it is, but for digests that are its submitter's word alone.

    Of several with one claim, at most one set of answers is right but for what machines differ by.
    """
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
    source = assembly.checked_source(plugins, model)
    benchmark = assembly.make_benchmark(plugins, task, args, source)
    loaded = assembly.load(plugins, model, **how.model_options)
    if loaded.precision != known_answers.PRECISION:
        raise UsageError(
            f"{loaded.precision} is no dtype to compare in", f"known: {known_answers.PRECISION}"
        )
    try:
        known_answers.write(path, header(loaded, benchmark), measured(loaded, benchmark.cases))
    except OSError as error:
        raise ResourceError(f"{path} cannot be written: {error.strerror}", "--out FILE") from None
    err.print(f"saved    {path}  ({len(benchmark.cases):,} cases, {path.stat().st_size:,} bytes)")
    console.print(str(path))
    return 0


def header(model: Model, benchmark: Benchmark) -> dict[str, str]:
    """Return what a baseline of this model and these cases says that it is of."""
    return {
        "name": model.name,
        "model": model.digest,
        "config": of_config(model.module.config),
        "tokenizer": model.tokens.digest,
        "dtype": model.precision,
        "task": benchmark.task.name,
        "version": benchmark.task.version,
        "data": benchmark.digest,
    }


def measured(model: Model, cases: Sequence[Case]) -> Iterator[known_answers.Line]:
    """Yield the line of each case. Raises `DataError` if the model answers with NaN."""
    before = CleanPass(model)
    for start in range(0, len(cases), TOGETHER):
        chunk = cases[start : start + TOGETHER]
        before.turn_to(start)
        usable = [case for case in chunk if not case.problem]
        answers = dict(zip([case.id for case in usable], _answers(before, usable), strict=True))
        for case in chunk:
            found = answers.get(case.id, [])
            if not all(map(is_finite, found)):
                raise DataError(
                    f"the model answers case {case.id} with NaN or infinity",
                    "check the weights, or load it with --dtype float32",
                )
            yield known_answers.line(case, found)


def _answers(before: CleanPass, cases: Sequence[Case]) -> list[list[Answer]]:
    """Return the answers of each case, none of one that is too long; asked together if they can be."""
    try:
        before.ask(cases, [])
    except TooLongError:
        alone = len(cases) == 1
        return [[]] if alone else [each for case in cases for each in _answers(before, [case])]
    return [before.answers(case) for case in cases]
