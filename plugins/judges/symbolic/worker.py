"""A process that judges, as the run sees it: asked with a time limit, replaced when it is exceeded.

Started as a command, not with `multiprocessing`, which would import the main program anew.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping
from functools import lru_cache
from typing import IO, Any

from edit_harness import DataError, PluginError, Verdict

STARTING = 120.0
"""Seconds in which the process has to be ready; it imports sympy."""
COMMAND = (sys.executable, "-P", "-m", "edit_harness_plugins.judges.symbolic.child")


class Gone(Exception):
    """The process ended without an answer."""


class Late(Exception):
    """There was no answer in time."""


class Process:
    """One process, and the lines that it has written."""

    def __init__(self) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self.popen = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            text=True,
            encoding="utf-8",
        )
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.listener = threading.Thread(
            target=_listen, args=(self.popen.stdout, self.lines), daemon=True
        )
        self.listener.start()

    def ask(self, request: Mapping[str, Any] | None, seconds: float) -> dict[str, Any]:
        """Return the answer to a request, or the first line; raises `Gone` or `Late`."""
        assert self.popen.stdin
        try:
            if request is not None:
                self.popen.stdin.write(json.dumps(request) + "\n")
                self.popen.stdin.flush()
            line = self.lines.get(timeout=seconds)
        except OSError:
            raise Gone from None
        except queue.Empty:
            raise Late from None
        if not line:
            raise Gone
        answer: dict[str, Any] = json.loads(line)
        return answer

    def complaint(self) -> str:
        """Return the last line of what the process wrote about its end."""
        self.errors.seek(0)
        return (self.errors.read().decode(errors="replace").strip().splitlines() or ["no word"])[-1]

    def close(self) -> None:
        """End the process and wait for its end."""
        self.popen.kill()
        self.popen.wait()
        self.listener.join()
        for stream in (self.popen.stdin, self.popen.stdout, self.errors):
            _close(stream)


def _listen(stream: IO[str], lines: queue.SimpleQueue[str]) -> None:
    """Pass lines on, and an empty one at the end."""
    for line in stream:
        lines.put(line)
    lines.put("")


def _close(stream: IO[Any] | None) -> None:
    """Close a stream whose other end may be gone with half a line in between."""
    try:
        if stream:
            stream.close()
    except OSError:
        pass


class Worker:
    """Judges replies one after another, from any thread, and remembers the verdicts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: Process | None = None
        self._close = weakref.finalize(self, lambda: None)
        self._known: dict[str, Verdict] = {}

    def judge(self, request: Mapping[str, Any], seconds: float) -> Verdict:
        """Return a verdict; a reply that ends two processes, or takes too long, is undecided.

        Raises `DataError` for a key that cannot be read, and `PluginError` if no process starts.
        """
        name = json.dumps([seconds, request], sort_keys=True)
        with self._lock:
            if name not in self._known:
                self._known[name] = self._judged(request, seconds)
            return self._known[name]

    def _judged(self, request: Mapping[str, Any], seconds: float) -> Verdict:
        for _ in range(2):
            try:
                return _verdict(self._started().ask(request, seconds))
            except Late:
                self.stop()
                return Verdict("undecided", 0.0, note=f"took longer than {seconds:g} s")
            except Gone:
                self.stop()
            except BaseException:
                # An answer that is still to come would be taken for that of the next reply.
                self.stop()
                raise
        return Verdict("undecided", 0.0, note="the process that judged it ended, twice")

    def _started(self) -> Process:
        """Return the process, started if there is none."""
        if self._process is None:
            process = Process()
            self._close = weakref.finalize(self, process.close)
            try:
                process.ask(None, STARTING)
            except (Gone, Late):
                cause = process.complaint()
                self._close()
                raise PluginError(
                    f"the process of the judge 'symbolic' does not start: {cause}",
                    f"try {' '.join(COMMAND)}",
                ) from None
            self._process = process
        return self._process

    def stop(self) -> None:
        """End the process; the next reply starts another."""
        self._process = None
        self._close()


def _verdict(answer: Mapping[str, Any]) -> Verdict:
    if "bad key" in answer:
        raise DataError(answer["bad key"], "correct the key's formula in the task's data")
    return Verdict(**answer)


@lru_cache(maxsize=1)
def shared(process_id: int) -> Worker:
    """Return the worker of this process; one that was forked has its own."""
    return Worker()
