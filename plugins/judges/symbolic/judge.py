"""Tells by algebra whether a formula, a number or a description is right.

Deterministic, and never by evaluating a text: a grammar of our own reads replies, sympy compares them. What
cannot be read is ``undecided``, which counts as wrong. Algebra does not let itself be interrupted: a process
does it that ends itself at a reply that takes too long, and whose memory is limited. It is started as a
command, since `multiprocessing` would import the main program anew.
"""

from __future__ import annotations

import faulthandler
import json
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from typing import Any, ClassVar

from edit_harness import DataError, Judge, Key, PluginError, Reply, Verdict
from edit_harness.registry.settings import Positive

from ..keys import check, refuse

COMMAND = (sys.executable, "-P", "-m", "edit_harness_plugins.judges.symbolic.judge")
MEMORY = 2 << 30
"""Bytes of address space, where the platform has such a limit."""
FORMULA = "lhs, variables (name: meaning), derived (name: formula), constraints"
NEEDS: Mapping[str, Mapping[str, type]] = {
    "formula": {"lhs": str, "variables": dict},
    "description": {"lhs": str, "variables": dict},
    "number": {},
}
"""What `Key.about` must have, by kind."""


@dataclass
class Symbolic(Judge):
    """Formulas are compared as algebra, numbers within a tolerance.

    A reply is right if it equals the key at 20 fixed points within 1e-9, in whatever letters; a
    number within 1e-6, or 1e-2 if the key is irrational.
    """

    seconds: Positive = 5.0
    """How long a reply may take; then it is undecided."""

    version: ClassVar[str] = "1"
    citation: ClassVar[str] = "Meurer et al., 2017 (sympy)"
    kinds: ClassVar[Mapping[str, str]] = {
        "formula": FORMULA,
        "description": FORMULA,
        "number": "unit; steps: whether the reply is a worked solution, whose final value counts",
        "same": "of: formula, description or number, and what that needs; right is another reply",
    }

    @property
    def provenance(self) -> Mapping[str, str]:
        """The version of the library that compares."""
        return {"sympy": version("sympy")}

    def judge(self, replies: Sequence[Reply]) -> list[Verdict]:
        """Return a verdict for each reply."""
        for reply in replies:
            _check(reply.key)
        worker = shared(os.getpid())
        return [
            worker.judge(
                {**vars(r.key), "about": dict(r.key.about), "text": r.text, "prompt": r.prompt},
                self.seconds,
            )
            for r in replies
        ]


def _check(key: Key) -> None:
    kind = key.about.get("of", "") if key.kind == "same" else key.kind
    if key.kind == "same" and kind not in NEEDS:
        refuse(key, "of", Symbolic.kinds)
    check(key, "the judge 'symbolic'", Symbolic.kinds, NEEDS.get(kind, {}))


class Worker:
    """Judges replies one after another, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def judge(self, request: Mapping[str, Any], seconds: float) -> Verdict:
        """Return a verdict; a reply that ends two processes, or takes too long, is undecided."""
        with self._lock:
            for _ in range(2):
                process = self._process = self._process or _started(self)
                began = time.monotonic()
                answer = self._asked(process, json.dumps([seconds, request]))
                if "bad key" in answer:
                    raise DataError(
                        answer["bad key"], "correct the key's formula in the task's data"
                    )
                if answer:
                    return Verdict(**answer)
                if time.monotonic() - began >= seconds:
                    return Verdict("undecided", 0.0, note=f"took longer than {seconds:g} s")
        return Verdict("undecided", 0.0, note="the process that judged it ended, twice")

    def _asked(self, process: subprocess.Popen[str], line: str) -> dict[str, Any]:
        """Return what the process answers; nothing if it has ended."""
        answer = ""
        try:
            assert process.stdin
            assert process.stdout
            with suppress(OSError):
                print(line, file=process.stdin, flush=True)
                answer = process.stdout.readline()
        finally:
            # After an interruption too: the next reply must not get the answer to this one.
            if not answer:
                self.stop()
        return dict(json.loads(answer or "{}"))

    def stop(self) -> None:
        """End the process; the next reply starts another."""
        if self._process:
            _end(self._process)
        self._process = None


def _started(worker: Worker) -> subprocess.Popen[str]:
    """Return a process that is ready to judge, and ends with its worker."""
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        COMMAND, stdin=pipe, stdout=pipe, stderr=pipe, env={**os.environ, **path}, encoding="utf-8"
    )
    weakref.finalize(worker, _end, process)
    assert process.stdout
    if not process.stdout.readline():
        told = process.communicate()[1].strip().splitlines()
        raise PluginError(
            f"the process of the judge 'symbolic' does not start: {(told or ['no word'])[-1]}",
            f"try {' '.join(COMMAND)}",
        )
    return process


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    with suppress(OSError, ValueError):  # half a line may wait for somebody who is gone
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
    with suppress(ImportError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


if __name__ == "__main__":
    main()
