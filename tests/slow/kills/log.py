"""Kill a process that writes rows, at any moment, until all rows are there; then look at them.

    python -m tests.slow.kills.log --kills 1000

The process is forked from one that has no torch, so that a kill costs milliseconds. It says of each
row when it is kept: those rows must be there in the end, each once, and the log must be the one of a
process that nobody killed. Rows are of very different sizes, since a large one can be torn.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import click

from edit_harness.folder.folder import RunFolder
from edit_harness.folder.record import Record
from tests.support.builders import IDENTITY, MANIFEST, with_entries

ROWS = 60
SIZES = (10, 500, 10_000, 400_000)
"""Numbers of characters that a row may have beside its frame."""
MOST, LONGEST = 20, 0.006
"""A process is killed after so many rows at most and so many seconds more, however slow it is."""


@dataclass
class Tally:
    """What became of the kills so far."""

    kills: int = 0
    folders: int = 0
    acknowledged: int = 0
    torn: int = 0
    lost: int = 0
    twice: int = 0
    different: int = 0

    @property
    def clean(self) -> bool:
        """Whether nothing was lost, doubled or changed."""
        return self.lost == self.twice == self.different == 0


def kill(kills: int, seed: int, rows: int = ROWS) -> Tally:
    """Kill writers so often, in as many folders as they fill, and return what was found."""
    rng, tally = random.Random(seed), Tally()
    with tempfile.TemporaryDirectory() as temporary:
        whole = Path(temporary, "whole")
        write(whole, rows)
        expected = samples(whole).read_bytes()
        while tally.kills < kills:
            fill(Path(temporary, str(tally.folders)), rows, kills, rng, tally)
            tally.different += samples(Path(temporary, str(tally.folders))).read_bytes() != expected
            tally.folders += 1
    return tally


def fill(parent: Path, rows: int, kills: int, rng: random.Random, tally: Tally) -> None:
    """Write a folder to its end, by processes that are killed as long as kills are left."""
    kept: set[str] = set()
    done = False
    while not done:
        last = tally.kills >= kills
        after = None if last else (rng.randrange(MOST), rng.uniform(0, LONGEST))
        acknowledged, done = _killed(parent, rows, after)
        tally.kills += not done
        tally.acknowledged += len(acknowledged)
        tally.torn += _torn(parent)
        tally.twice += len(kept & set(acknowledged))
        kept |= set(acknowledged)
        tally.lost += len(kept - set(cases(parent)))
    tally.twice += sum(count - 1 for count in Counter(cases(parent)).values())


def _killed(parent: Path, rows: int, after: tuple[int, float] | None) -> tuple[list[str], bool]:
    """Run a writer and kill it; return what it said was kept, and whether it was faster.

    ``after`` is the number of rows to wait for, and the seconds from then on.
    """
    read, said = os.pipe()
    if (child := os.fork()) == 0:
        os.close(read)
        code = 1
        try:
            write(parent, rows, said)
            code = 0
        finally:
            os._exit(code)
    os.close(said)
    heard = b""
    if after is not None:
        while heard.count(b" ") < after[0] and (more := os.read(read, 1)):
            heard += more
        time.sleep(after[1])
        os.kill(child, signal.SIGKILL)
    with os.fdopen(read, "rb") as file:
        acknowledged = (heard + file.read()).decode().split()
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise AssertionError("a writer failed by itself")
    return acknowledged, os.WIFEXITED(status)


def write(parent: Path, rows: int, said: int | None = None) -> None:
    """Write what a folder lacks, and say of each row that it is kept."""
    folder = RunFolder.open(parent, "run", IDENTITY, new=False)
    folder.write_manifest(with_entries(MANIFEST, visits=rows))
    with folder.writing() as writer:
        there = {record.case for record in folder.records()}
        for number in range(rows):
            if str(number) not in there:
                writer(_record(number))
                if said is not None:
                    os.write(said, b"%d " % number)
    folder.write_results({"rows": rows})


def _record(number: int) -> Record:
    size = SIZES[number % len(SIZES)]
    return Record(str(number), "ok", {"m": {"x": number / 7}}, after=[{"text": "x" * size}])


def samples(parent: Path) -> Path:
    """Return the log of the one run in a folder."""
    return next(parent.glob("run-*"), parent / "none") / "samples.jsonl"


def cases(parent: Path) -> list[str]:
    """Return the cases of all whole rows, without the reader that is tried here."""
    path = samples(parent)
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [line.split(b'"')[11].decode() for line in lines if line.endswith(b"\n")]


def _torn(parent: Path) -> bool:
    path = samples(parent)
    data = path.read_bytes() if path.exists() else b""
    return bool(data) and not data.endswith(b"\n")


@click.command()
@click.option("--kills", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
def main(kills: int, seed: int) -> None:
    """Kill, and say what was found; exit code 1 if anything was lost, doubled or changed."""
    start = time.monotonic()
    tally = kill(kills, seed)
    print(f"{tally}, {time.monotonic() - start:.0f} s, torch imported: {'torch' in sys.modules}")
    sys.exit(not tally.clean)


if __name__ == "__main__":
    main()
