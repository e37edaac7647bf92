"""Kill the whole command at random moments, repeat it until it ends, and compare with a run that nobody killed.

    python -m tools.kills --kills 50

It fails, with exit code 1 and the folder's name, if a row that was written is lost or another one afterwards, if a case
is there twice, or if rows or results differ from those of the run that nobody killed, in anything but seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

RUNS: dict[str, Sequence[str]] = {
    "single": ("-e", "ft", "-t", "counterfact", "-L", "60"),
    "batch": ("-e", "ft", "-t", "counterfact", "-L", "40", "--edit-mode", "batch", "--edit-batch-size", "10"),
    "sequential": ("-e", "prompt", "-t", "counterfact", "-L", "24", "--edit-mode", "sequential", "--edit-batch-size", "8",
                   "--eval-at", "each"),
    "beside": ("-e", "none,prompt", "-t", "counterfactplus", "-L", "40"),
}  # fmt: skip
"""Commands on the bundled model, one for each way in which edits share it."""
SECONDS = 300.0
"""How long one start may take."""
TIMINGS = ("seconds", "crc")
"""What of a row depends on how long something took."""
ROUNDS = 100


def main() -> int:
    """Run the script, print a line for each run, and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--beside", type=int, default=2, help="how many are killed at a time")
    flags = parser.parse_args()
    with TemporaryDirectory() as folder:
        wanted = {name: _whole(name, Path(folder)) for name in RUNS}
        shares = Counter(name for name, _ in zip(cycle(RUNS), range(flags.kills), strict=False))
        jobs = [(name, kills, Path(folder), flags.seed) for name, kills in shares.items()]
        with ThreadPoolExecutor(flags.beside) as pool:
            found = list(pool.map(lambda job: _killed(*job, wanted[job[0]]), jobs))
    print(
        f"{sum(kills for kills, _ in found)} kills, {sum(map(len, (p for _, p in found)))} problems"
    )
    return 1 if any(problems for _, problems in found) else 0


def _whole(name: str, parent: Path) -> tuple[float, dict[str, Any]]:
    """Run a command undisturbed; return from when to when it writes, and what it leaves."""
    output = parent / f"{name}-whole"
    began = time.monotonic()
    process = _start(name, output)
    process.wait(SECONDS)
    assert process.returncode == 0, process.returncode
    return time.monotonic() - began, _left(output)


def _killed(
    name: str, kills: int, parent: Path, seed: int, wanted: tuple[float, dict[str, Any]]
) -> tuple[int, list[str]]:
    """Kill a command so many times, each time it is all done in a folder anew; return the problems."""
    draw = random.Random(f"{seed} {name}")
    done, problems, rounds = 0, [], 0
    while done < kills:
        output = parent / f"{name}-{rounds}"
        rounds += 1
        before: dict[str, list[bytes]] = {}
        while done < kills and (process := _start(name, output)):
            if not _kill(process, output, draw, wanted[0]):
                break
            done += 1
            problems += _lost(before, now := _rows(output))
            before = now
        process = _start(name, output)
        if process.wait(SECONDS):
            problems.append(f"{output}: ended with {process.returncode}")
        problems += _lost(before, _rows(output))
        problems += [] if _left(output) == wanted[1] else [f"{output}: not what a whole run leaves"]
    print(f"{name:11}{done:4} kills in {rounds} folders, {len(problems)} problems", flush=True)
    for problem in problems:
        print(f"  {problem}")
    return done, problems


def _start(name: str, output: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "edit_harness", *RUNS[name], "-q", "-o", str(output)]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def _kill(
    process: subprocess.Popen[bytes], output: Path, draw: random.Random, whole: float
) -> bool:
    """Kill a process: anywhere in its time, or as often soon after its next row; False if it has ended before."""
    size = _size(output)
    by_row = draw.random() < 0.5
    until = time.monotonic() + (SECONDS if by_row else whole * draw.random())
    while time.monotonic() < until and process.poll() is None:
        if by_row and _size(output) > size:
            time.sleep(0.3 * draw.random())
            break
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    return process.wait(SECONDS) == -signal.SIGKILL


def _size(output: Path) -> int:
    return sum(path.stat().st_size for path in output.glob("*/samples.jsonl"))


def _rows(output: Path) -> dict[str, list[bytes]]:
    """Return the whole rows of each folder, as they are on disk."""
    found = {}
    for path in output.glob("*/samples.jsonl"):
        whole, _, _ = path.read_bytes().rpartition(b"\n")
        found[path.parent.name] = whole.split(b"\n") if whole else []
    return found


def _lost(before: dict[str, list[bytes]], now: dict[str, list[bytes]]) -> Iterator[str]:
    """Yield the folders of which a row is gone, or another one."""
    for name, rows in before.items():
        if now.get(name, [])[: len(rows)] != rows:
            yield f"{name}: rows were lost or changed"


def _left(output: Path) -> dict[str, Any]:
    """Return what a command leaves, but for timings: rows and results, by folder."""
    found = {}
    for name, rows in _rows(output).items():
        results = json.loads((output / name / "results.json").read_text())
        kept = {k: v for k, v in results.items() if k not in ("samples", "sha256")}
        found[name] = [_untimed(json.loads(row)) for row in rows], kept
    return found


def _untimed(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in TIMINGS}


if __name__ == "__main__":
    sys.exit(main())
