"""Workers that are real processes: one is killed between its rows, and an edit kills whoever makes it."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any

from support.commands import stored
from support.local_workers import CHUNK, INVALID, POISON, Bench, Some, rows, statuses
from support.saboteurs import Honest

from edit_harness.run import plan
from edit_harness_plugins.commands.distributed.worker import (
    Batch,
    Came,
    Died,
    Event,
    Order,
    Ready,
    Worker,
)


@dataclass
class Poison(Honest):
    """Kills the process that edits one subject."""

    def edit(self, model: Any, requests: Any) -> Any:
        if requests[0].subject == POISON:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().edit(model, requests)


def _serve(order: Order, pipe: Connection, worker: int, chunk: int) -> None:
    """Be a worker, in a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    plan.CHUNKS = ((10**9, chunk),)
    made = Worker(worker, order)
    pipe.send(started := made.start())
    while isinstance(started, Ready):
        for event in made.run(pipe.recv()):
            pipe.send(event)


class Processes:
    """Workers that are processes; ``before`` is called with each event, and may kill some."""

    def __init__(
        self, order: Order, size: int, chunk: int, before: Callable[[Processes, Event], None]
    ) -> None:
        self.order, self.size, self.chunk, self.before = order, size, chunk, before
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["edit_harness_plugins.commands.distributed.worker"])
        self.processes: dict[int, Any] = {}
        self.pipes: dict[Connection, int] = {}
        self.started = 0

    def start(self) -> int:
        self.started += 1
        here, there = self.context.Pipe()
        given = self.order, there, self.started, self.chunk
        process = self.context.Process(target=_serve, args=given, daemon=True)
        process.start()
        there.close()
        self.processes[self.started], self.pipes[here] = process, self.started
        return self.started

    def send(self, worker: int, batch: Batch) -> None:
        (pipe,) = (pipe for pipe, of in self.pipes.items() if of == worker)
        with suppress(BrokenPipeError):  # that it died is told by its pipe
            pipe.send(batch)

    def events(self, timeout: float) -> Iterator[Event]:
        for pipe in wait(list(self.pipes), timeout):
            worker = self.pipes[pipe]
            try:
                event = pipe.recv()
            except (EOFError, ConnectionResetError):
                del self.pipes[pipe]
                self.processes[worker].join()
                yield Died(worker, f"exit code {self.processes[worker].exitcode}")
            else:
                self.before(self, event)
                yield event

    def kill(self, worker: int) -> None:
        self.processes[worker].kill()

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.join()


def test_processes_that_are_killed_lose_and_double_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "CHUNKS", ((10**9, CHUNK),))
    bench, killed = Bench(stored(tmp_path), tmp_path), []

    def before(processes, event):
        if isinstance(event, Came) and not killed:
            killed.append(event.worker)
            processes.processes[event.worker].kill()

    bench.task = Some(9)
    workers = partial(Processes, size=1, chunk=CHUNK, before=before)
    (folder,) = bench.run(workers, editors=(Poison(),))
    assert statuses(folder) == INVALID | {POISON.lower(): "device_error"}
    assert len(rows(folder)) == 9
    assert killed == [1]
    assert bench.workers.started in (5, 6)
    assert not any(process.is_alive() for process in bench.workers.processes.values())
