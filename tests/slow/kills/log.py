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


def killed(parent: Path, kills: int, rng: random.Random) -> Counter[str]:
    """Write a folder to its end, by processes that are killed so often at most; return what became of it."""
    found: Counter[str] = Counter(folders=1)
    kept: set[str] = set()
    done = False
    while not done:
        last = found["kills"] >= kills
        after = None if last else (rng.randrange(MOST), rng.uniform(0, LONGEST))
        acknowledged, done = _writer(parent, after)
        now = cases(parent)
        found["kills"] += not done
        found["acknowledged"] += len(acknowledged)
        found["torn"] += samples(parent)[-1:] not in (b"", b"\n")
        found["twice"] += len(kept & acknowledged) + len(now) - len(set(now))
        kept |= acknowledged
        found["lost"] += len(kept - set(now))
    return found


def _writer(parent: Path, after: tuple[int, float] | None) -> tuple[set[str], bool]:
    """Run a writer, and kill it after so many rows and seconds; return what it said was kept, and whether it ended."""
    read, said = os.pipe()
    if (child := os.fork()) == 0:
        os.close(read)
        code = 1
        try:
            write(parent, said)
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
        acknowledged = set((heard + file.read()).decode().split())
    _, status = os.waitpid(child, 0)
    assert not (os.WIFEXITED(status) and os.WEXITSTATUS(status)), "a writer failed by itself"
    return acknowledged, os.WIFEXITED(status)


def write(parent: Path, said: int | None = None) -> None:
    """Write what a folder lacks, and say of each row that it is kept."""
    folder = RunFolder.open(parent, "run", IDENTITY, new=False)
    folder.write_manifest(with_entries(MANIFEST, visits=ROWS))
    with folder.writing() as writer:
        there = {record.case for record in folder.records()}
        for number in (number for number in range(ROWS) if str(number) not in there):
            text = "x" * SIZES[number % len(SIZES)]
            writer(Record(str(number), "ok", {"m": {"x": number / 7}}, after=[{"text": text}]))
            if said is not None:
                os.write(said, b"%d " % number)
    folder.write_results({"rows": ROWS})


def samples(parent: Path) -> bytes:
    """Return the log of the one run in a folder."""
    return b"".join(path.read_bytes() for path in parent.glob("run-*/samples.jsonl"))


def cases(parent: Path) -> list[str]:
    """Return the cases of all whole rows, without the reader that is tried here."""
    lines = samples(parent).splitlines(keepends=True)
    return [line.split(b'"')[11].decode() for line in lines if line.endswith(b"\n")]


@click.command()
@click.option("--kills", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
def main(kills: int, seed: int) -> None:
    """Kill, and say what was found; exit code 1 if anything was lost, doubled or changed."""
    start, rng = time.monotonic(), random.Random(seed)
    total = Counter(lost=0, twice=0, different=0)
    with tempfile.TemporaryDirectory() as temporary:
        write(whole := Path(temporary, "whole"))
        while total["kills"] < kills:
            folder = Path(temporary, str(total["folders"]))
            found = killed(folder, kills - total["kills"], rng)
            total.update(found, different=samples(folder) != samples(whole))
    told = ", ".join(f"{what} {number}" for what, number in total.items())
    print(f"{told}, {time.monotonic() - start:.0f} s, torch imported: {'torch' in sys.modules}")
    sys.exit(bool(total["lost"] or total["twice"] or total["different"]))


if __name__ == "__main__":
    main()
