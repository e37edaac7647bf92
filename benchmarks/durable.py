"""What it takes to read a large run folder: the scan before a run goes on, the numbers, the report.

    python -m benchmarks.durable --rows 22000
    python -m benchmarks.durable --rows 1000000 --probes 2

A synthetic run of CounterFact+'s shape: each case has so many probes of two candidates, asked before
and after. Seconds are of the processor; memory is the most that the process had above what importing
took. The folder is written by the benchmark itself, as the log would.
"""

from __future__ import annotations

import os
import random
import resource
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any
from zlib import crc32

import click

from edit_harness import files
from edit_harness.data import Answers, Case, Choose, Probe, Request, Scores
from edit_harness.files import dumps
from edit_harness.folder import log
from edit_harness.folder.encoding import encode_answer, encode_case
from edit_harness.folder.folder import RunFolder
from edit_harness.folder.manifest import Manifest, decoded
from edit_harness.folder.record import OK, Record
from edit_harness.interfaces import Metric
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import make_metrics
from edit_harness.run.estimates import values
from edit_harness.run.results import Results
from edit_harness_plugins.reading import statuses_of

ROLES = (
    "efficacy",
    "paraphrase",
    "paraphrase",
    *["neighborhood"] * 10,
    *["neighborhood-plus"] * 10,
)
DISTINCT = 50
"""Cases whose answers differ; the others repeat them under other ids."""
NAMED = {"name": "synthetic", "version": "1"}
IDENTITY = {
    "schema": log.VERSION, "regime": {"mode": "single"}, "judge": None, "seed": 0, "metrics": [], "together": "",
    "editor": {**NAMED, "fields": {}, "provenance": {}}, "task": {**NAMED, "data": ""}, "code": [],
    "model": {"digest": "", "config": "", "tokenizer": "", "dtype": "float32"},
}  # fmt: skip


@click.command()
@click.option("--rows", type=click.IntRange(1), default=22_000, show_default=True)
@click.option("--probes", type=click.IntRange(1, len(ROLES)), default=len(ROLES), show_default=True)
@click.option("--keep", type=click.Path(path_type=Path), help="Make the folder here, or find it.")
def main(rows: int, probes: int, keep: Path | None) -> None:
    """Make a folder, read it in a process of its own, and print what that took."""
    with TemporaryDirectory() as temporary:
        path = (keep or Path(temporary)) / f"{rows}-{probes}"
        if not path.exists():
            start = process_time()
            make(path, rows, probes)
            print(f"written in {process_time() - start:.1f} CPU s")
        size = (path / "samples.jsonl").stat().st_size
        print(f"{rows} rows, {size / rows:.0f} bytes each, {size / 1e6:.0f} MB", flush=True)
        if (child := os.fork()) == 0:
            read(path)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.exit(os.waitstatus_to_exitcode(status))


def make(path: Path, rows: int, probes: int) -> None:
    """Write a run folder of so many rows, without syncing."""
    path.mkdir(parents=True)
    folder = RunFolder(path)
    names = [str(number) for number in range(rows)]
    cases = [_case(number, probes) for number in range(DISTINCT)]
    with open(path / "cases.jsonl", "wb") as file:
        file.writelines(_cases(cases, names))
    folder.write_manifest(
        decoded(
            {
                "cases": names, "identity": IDENTITY, "label": "synthetic", "metrics": list(measured_by()),
                "model": {"name": "none", "path": "none"}, "preset": "", "preview": None, "visits": rows,
                "cases_sha256": files.sha256_of(path / "cases.jsonl"),
            },
            Manifest,
        )
    )  # fmt: skip
    with open(folder.samples, "wb") as file:
        file.writelines(_lines(cases, names, folder.mark))


def _cases(cases: Sequence[Case], names: Sequence[str]) -> Iterator[bytes]:
    """Yield the lines of cases of these names, each after one of some."""
    lines = [dumps(encode_case(case)).partition(f'"{case.id}"')[::2] for case in cases]
    for number, name in enumerate(names):
        yield f'"{name}"'.join(lines[number % len(lines)]).encode() + b"\n"


def _lines(cases: Sequence[Case], names: Sequence[str], mark: str) -> Iterator[bytes]:
    """Yield the lines of a log with a row for each name; what they say is encoded once for each case."""
    ends = [log.encoded(0, mark, row).partition(b'"case": "')[2] for row in map(_row, cases)]
    ends = [end[end.index(b'"') : -log.CHECK] for end in ends]
    for seq, name in enumerate(names):
        start = f'{{"v": {log.VERSION}, "seq": {seq}, "fp": "{mark}", "case": "{name}'
        body = start.encode() + ends[seq % len(ends)]
        yield body + b', "crc": "%08x"}\n' % crc32(body)


def _row(case: Case) -> dict[str, Any]:
    answers = _answers(case, int(case.id))
    before, after = (list(map(encode_answer, side)) for side in answers)
    found = values(case, answers, measured_by(), OK)
    seconds = {"edit": 0.5, "evaluate": 0.25}
    return Record(case.id, OK, found, before=before, after=after, seconds=seconds).row


def _case(number: int, probes: int) -> Case:
    request = Request("The mother tongue of {} is", f"Person {number}", "English", "French")
    queries = (
        Choose(f"Text {i} about person {number} is", ("English", "French")) for i in range(probes)
    )
    return Case(str(number), (request,), tuple(map(Probe, ROLES, queries)))


def _answers(case: Case, seed: int) -> Answers:
    rng = random.Random(seed)
    sides = ([_scores(rng) for _ in case.probes] for _ in range(2))
    before, after = sides
    return before, after


def _scores(rng: random.Random) -> Scores:
    logprobs = tuple((-rng.expovariate(1.0),) for _ in range(2))
    return Scores(((1356,), (1250,)), logprobs, ((1356,), (1250,)))


def measured_by() -> dict[str, Metric]:
    """Return the metrics of CounterFact+ that need no divergence."""
    return dict(make_metrics(Plugins.installed(), ["success", "magnitude"]))


def read(path: Path) -> None:
    """Read a folder as a run that goes on does, then as a report does, and print what each took."""
    metrics, base = measured_by(), peak()
    for what, took in _steps(path, metrics):
        print(f"{what:<10} {took:6.2f} CPU s   {(peak() - base) / 1e6:5.0f} MB at most", flush=True)


def _steps(path: Path, metrics: dict[str, Metric]) -> Iterator[tuple[str, float]]:
    start = process_time()
    with RunFolder(path).writing():
        known = statuses_of(RunFolder(path))
    yield "resume", process_time() - start
    assert known
    del known
    start = process_time()
    run = Results.read(RunFolder(path), metrics)
    yield "read", process_time() - start
    start = process_time()
    assert run.estimates
    yield "aggregate", process_time() - start
    start = process_time()
    assert run.results()
    assert run.table()
    yield "report", process_time() - start


def peak() -> int:
    """Return the most memory that this process had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
