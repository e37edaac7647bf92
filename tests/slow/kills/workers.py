"""Kill workers of a run at random moments, until it has ended all the same, and compare with a run in one process.

    python -m tests.slow.kills.workers --kills 20

A real Ray cluster of two nodes on this machine, with two workers each. Each run is of a folder anew, and loses workers
at random moments until it ends; there are as many runs as the kills take. Who only starts is spared: three of these in
a row end a run, as they should. A case of which two workers died one after the other counts as one whose device fails,
and three of these end a run: it is then gone on with by --retry-failed, and how often that was so is printed.

It fails, with exit code 1, if a run ends otherwise than so, if a row is lost or there twice, or if one differs from that
of the run in one process: in its status, in a decision, or in a number by more than 1e-4 nats. How many rows are the
same to the byte is printed too.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

RUN = ("-e", "rome", "-t", "counterfactplus")
SECONDS = 6000.0
"""How long a run may take."""
TIMINGS = ("seconds", "crc", "seq", "try")
"""What of a row depends on how long something took, on who came first, or on how often."""
CLOSE = 1e-4
"""Nats by which numbers may differ that come from batches of another size."""
GIVEN_UP = (1, 5)
"""Exit codes of runs that had cases whose device failed, and that had too many of them."""
AGAIN = 3
SHOWN, WIDTH = 10, 120
STORE = 2**27


def main() -> int:
    """Run the script, print a line for each run, and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument(
        "--per-run", type=float, default=5.0, help="kills in the time that one process takes"
    )
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args()
    draw = random.Random(flags.seed)
    with TemporaryDirectory() as folder, cluster() as address:
        alone = Path(folder) / "alone"
        code, seconds = run(start(alone, flags.cases))
        assert code == 0, code
        print(f"one process: {seconds:.0f} s", flush=True)
        kills, found, runs = 0, 0, 0
        while kills < flags.kills:
            output = Path(folder) / f"killed-{runs}"
            on_ray = "--executor", "ray", "--executor-args", f"address={address},num_workers=4"
            process = start(output, flags.cases, *on_ray)
            killed = kill_some(process, draw, seconds / flags.per_run, flags.kills - kills)
            code, again = run(process)[0], 0
            while code in GIVEN_UP and again < AGAIN:
                code, again = (
                    run(start(output, flags.cases, *on_ray, "--retry-failed"))[0],
                    again + 1,
                )
            problems = [*([f"ended with {code}"] if code else []), *differences(alone, output)]
            print(f"run {runs}: {killed} kills, gone on with {again} times, {told(alone, output)}, {len(problems)} problems", flush=True)  # fmt: skip
            for problem in problems[:SHOWN]:
                print(f"  {problem[:WIDTH]}")
            kills, found, runs = kills + killed, found + len(problems), runs + 1
    print(f"{kills} kills in {runs} runs of {flags.cases} cases, {found} problems")
    return 1 if found else 0


@contextmanager
def cluster() -> Iterator[str]:
    """Start two nodes with two CPUs each on this machine; yield their address."""
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 2, "object_store_memory": STORE, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=node)
    try:
        made.add_node(num_cpus=2, object_store_memory=STORE)
        yield made.address
    finally:
        made.shutdown()


def start(output: Path, cases: int, *more: str) -> subprocess.Popen[bytes]:
    """Start the command."""
    arguments = [*RUN, "-L", str(cases), "-q", "-o", str(output), *more]
    return subprocess.Popen(
        [sys.executable, "-m", "edit_harness", *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
    )


def run(process: subprocess.Popen[bytes]) -> tuple[int, float]:
    """Wait for a command; return its exit code and what it took."""
    began = time.monotonic()
    return process.wait(SECONDS), time.monotonic() - began


def kill_some(
    process: subprocess.Popen[bytes], draw: random.Random, every: float, most: int
) -> int:
    """Kill one of the workers at random moments while a command runs; return how many were killed.

    Whether they are at work or wait for it is left to chance.
    """
    killed = 0
    while killed < most and process.poll() is None:
        time.sleep(draw.expovariate(1 / every))
        if hands := [*workers("ray::WorkerActor"), *workers("ray::WorkerActor.run")]:
            draw.choice(hands).kill()
            killed += 1
    return killed


def workers(title: str) -> list[psutil.Process]:
    """Return the processes of workers that this process's nodes have started, by pid.

    Ray has those that wait called ``ray::WorkerActor``, and those at work ``ray::WorkerActor.run``.
    """
    found = []
    for child in psutil.Process().children(recursive=True):
        try:
            said = " ".join(child.cmdline()).split()
        except psutil.Error:
            continue
        if said[:1] == [title]:
            found.append(child)
    return sorted(found, key=lambda child: child.pid)


def told(alone: Path, killed: Path) -> str:
    """Say what a run went through, and how many of its rows are those of one process to the byte."""
    (path,) = killed.glob("*/events.jsonl")
    dead = sum(json.loads(line)["kind"] == "worker died" for line in path.open())
    again = sum(json.loads(line)["try"] > 1 for line in samples(killed).splitlines())
    ours, theirs = rows(alone), rows(killed)
    same = sum(theirs.get(visit) == row for visit, row in ours.items())
    return (
        f"{dead} deaths told, {again} rows made again, {same} of {len(ours)} the same to the byte"
    )


def rows(output: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the rows of a run by their visits, without what depends on timing."""
    read = map(json.loads, samples(output).splitlines())
    return {
        (row["case"], row["state"]): {k: v for k, v in row.items() if k not in TIMINGS}
        for row in read
    }


def samples(output: Path) -> str:
    """Return the log of the one run in a folder."""
    (path,) = output.glob("*/samples.jsonl")
    return path.read_text(encoding="utf-8")


def differences(alone: Path, killed: Path) -> Iterator[str]:
    """Yield what was lost, doubled or changed."""
    written = map(json.loads, samples(killed).splitlines())
    visits = Counter((row["case"], row["state"], row["try"]) for row in written)
    yield from (f"{visit} is there {n} times" for visit, n in visits.items() if n > 1)
    ours, theirs = rows(alone), rows(killed)
    yield from (f"{visit} is lost" for visit in ours.keys() - theirs.keys())
    yield from (f"{visit} was never planned" for visit in theirs.keys() - ours.keys())
    for visit in ours.keys() & theirs.keys():
        yield from (f"{visit}: {what}" for what in unlike(ours[visit], theirs[visit]))


def unlike(one: Any, other: Any, where: str = "") -> Iterator[str]:
    """Yield where two rows differ by more than rounding does."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in one.keys() | other.keys():
            yield from unlike(one.get(key), other.get(key), f"{where}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from unlike(a, b, f"{where}[{i}]")
    elif isinstance(one, float) and isinstance(other, float):
        if not abs(one - other) <= CLOSE:
            yield f"{where} is {other}, not {one}"
    elif one != other:
        yield f"{where} is {other}, not {one}"


if __name__ == "__main__":
    sys.exit(main())
