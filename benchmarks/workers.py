"""What workers on Ray cost and bring: the bundled model in one process, and on workers of this machine.

python -m benchmarks.workers --cases 256

Start-up is from the start of the run to the last worker that is ready, with Ray itself; work is from
there to the end. Both are read from the runs' events, to the second. What a row takes on its way is
measured with rows of one such run that a worker sends again and again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from edit_harness.folder.records import Record
from edit_harness_plugins.commands.distributed.on_ray import Actors, Ray
from edit_harness_plugins.commands.distributed.worker import Batch, Came, Event, Finished, Ready

RUN = ("-e", "rome", "-t", "counterfactplus", "-q")
SENT = 2000
"""Rows that are sent to time one."""


class Echo:
    """Stands in for a worker: sends a row again and again."""

    def __init__(self, number: int, row: dict[str, Any]) -> None:
        self.number, self.record = number, Record.of(row)

    def start(self) -> Event:
        """Be ready: there is nothing to load."""
        return Ready(self.number, {})

    def run(self, batch: Batch) -> Iterator[Event]:
        """Yield the row again and again."""
        for _ in range(SENT):
            yield Came(self.number, [(0, self.record)])
        yield Finished(self.number)


def timed(output: Path, cases: int, workers: int) -> tuple[float, float]:
    """Run the command on so many workers, or in one process if 0; return start-up and work, seconds."""
    command = [sys.executable, "-m", "edit_harness", *RUN, "-L", str(cases), "-o", str(output)]
    if workers:
        command += ["--executor", "ray", "--executor-args", f"num_workers={workers}"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    (path,) = output.glob("*/events.jsonl")
    times: dict[str, datetime] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        times[event["kind"]] = datetime.fromisoformat(event["time"])
    ready = times.get("worker", times["start"])
    return (ready - times["start"]).total_seconds(), (times["stop"] - ready).total_seconds()


def row_of(output: Path) -> dict[str, Any]:
    """Return the first row of the run in a folder."""
    (path,) = output.glob("*/samples.jsonl")
    with path.open(encoding="utf-8") as lines:
        return dict(json.loads(next(lines)))


def sent(row: dict[str, Any]) -> float:
    """Return the seconds that a row takes from a worker to the driver, one after the other."""
    workers = Actors(Ray(num_workers=1), lambda number: Echo(number, row))
    try:
        workers.start()
        while not any(isinstance(event, Ready) for event in workers.events(1)):
            pass
        began = time.perf_counter()
        workers.send(0, Batch({}))
        while not any(isinstance(event, Finished) for event in workers.events(1)):
            pass
        return (time.perf_counter() - began) / SENT
    finally:
        workers.close()


@click.command()
@click.option("--cases", default=256, show_default=True, help="Chunks of 64, of which workers get whole ones.")  # fmt: skip
@click.option("--workers", type=int, multiple=True, default=(0, 1, 2), show_default=True)
def main(cases: int, workers: Sequence[int]) -> None:
    """Print start-up, throughput, and what a row takes on its way."""
    table = Table("workers", "start-up s", "work s", "cases/s", box=None, pad_edge=False)
    console = Console()
    with TemporaryDirectory() as folder:
        for number in workers:
            output = Path(folder) / str(number)
            start, work = timed(output, cases, number)
            table.add_row(str(number or "–"), f"{start:.0f}", f"{work:.0f}", f"{cases / work:.1f}")
        row = row_of(output)
    console.print(table)
    size = len(json.dumps(row))
    console.print(f"a row of {size:,} bytes takes {1000 * sent(row):.2f} ms on its way")


if __name__ == "__main__":
    main()
