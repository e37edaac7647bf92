"""Judges replies in a process of its own, which ends itself at a reply that takes too long.

Algebra does not let itself be interrupted, and its memory is limited there. The process is started
as a command, not with `multiprocessing`, which would import the main program anew.
"""

from __future__ import annotations

import faulthandler
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any

from edit_harness import DataError, PluginError, Verdict

COMMAND = (sys.executable, "-P", "-m", "edit_harness_plugins.judges.symbolic.pool")
MEMORY = 2 << 30
"""Bytes of address space, where the platform has such a limit."""


class Worker:
    """Judges replies one after another, from any thread, and remembers the verdicts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._end: Callable[[], object] = lambda: None
        self._known: dict[str, Verdict] = {}

    def judge(self, request: Mapping[str, Any], seconds: float) -> Verdict:
        """Return a verdict; a reply that ends two processes, or takes too long, is undecided.

        Raises `DataError` for a key that cannot be read, and `PluginError` if no process starts.
        """
        name = json.dumps([seconds, request], sort_keys=True)
        with self._lock:
            if name not in self._known:
                self._known[name] = self._judged(json.dumps([seconds, request]), seconds)
            return self._known[name]

    def _judged(self, line: str, seconds: float) -> Verdict:
        for _ in range(2):
            process = self._process or self._started()
            began = time.monotonic()
            try:
                answer = _asked(process, line)
            except BaseException:
                # An answer that is still to come would be taken for that of the next reply.
                self.stop()
                raise
            if "bad key" in answer:
                raise DataError(answer["bad key"], "correct the key's formula in the task's data")
            if answer:
                return Verdict(**answer)
            self.stop()
            if time.monotonic() - began >= seconds:
                return Verdict("undecided", 0.0, note=f"took longer than {seconds:g} s")
        return Verdict("undecided", 0.0, note="the process that judged it ended, twice")

    def _started(self) -> subprocess.Popen[str]:
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                text=True,
                encoding="utf-8",
            )
            self._end = weakref.finalize(self, partial(_end, process))
            assert process.stdout
            if not process.stdout.readline():
                self.stop()
                errors.seek(0)
                said = errors.read().decode(errors="replace").strip().splitlines()
                raise PluginError(
                    f"the process of the judge 'symbolic' does not start: {(said or ['no word'])[-1]}",
                    f"try {' '.join(COMMAND)}",
                )
        self._process = process
        return process

    def stop(self) -> None:
        """End the process; the next reply starts another."""
        self._process = None
        self._end()


def _asked(process: subprocess.Popen[str], line: str) -> dict[str, Any]:
    """Return what the process answers; nothing if it has ended."""
    assert process.stdin
    assert process.stdout
    try:
        process.stdin.write(f"{line}\n")
        process.stdin.flush()
        answer: dict[str, Any] = json.loads(process.stdout.readline() or "{}")
    except OSError:
        return {}
    return answer


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    with suppress(OSError):  # half a line may wait for somebody who is gone
        process.communicate()


@lru_cache(maxsize=1)
def shared(process_id: int) -> Worker:
    """Return the worker of this process; one that was forked has its own."""
    return Worker()


def main() -> None:
    """Judge what comes in, a line of JSON for each reply, until there is no more."""
    from .verdicts import answer  # with sympy, before anybody is told that the process is ready

    _limit_memory()
    print("ready", flush=True)
    for line in sys.stdin:
        seconds, request = json.loads(line)
        faulthandler.dump_traceback_later(seconds, exit=True)
        told = json.dumps(answer(request))
        faulthandler.cancel_dump_traceback_later()
        print(told, flush=True)


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


if __name__ == "__main__":
    main()
