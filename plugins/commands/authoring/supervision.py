"""Runs a process that checks a package, and starts it again where a check takes it down.

All that is known of the process is its ledger: a check that has begun and not ended when the process is
gone, or when nothing was written for too long, is the one to blame.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .ledger import Finding, Ledger

POLL = 0.05
"""Seconds between two looks at the ledger."""
STARTUP = 120.0
"""Seconds that it may be silent between checks, as while it imports torch."""
FAREWELL = 10.0
"""Seconds that a process may take to end once all is done."""
STARTING = Finding("package", "lets the checks start", "What happens before the first check.")
"""Stands for what happens before the first check."""


@dataclass(frozen=True)
class Supervised:
    """A command that keeps a ledger, and picks up where the ledger ends."""

    command: Sequence[str]
    ledger: Ledger
    log: Path
    """What it prints."""
    limit: float
    """Seconds that a check may take."""

    def findings(self) -> Iterator[Finding]:
        """Yield what is found, as it is found, until all checks are done or nothing goes on."""
        self.ledger.path.touch()
        seen = 0
        while True:
            process = self._start()
            try:
                for finding in self._follow(process, seen):
                    seen += 1
                    yield finding
                state = self.ledger.read()
                if state.complete:
                    return
                culprit = state.open or STARTING
                blamed = culprit.ended(
                    "failed", self._why(process, culprit), raised=True, fatal=True
                )
            finally:
                _kill(process)
            self.ledger.end(blamed)
            if culprit is STARTING:
                yield blamed
                return

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment(),
                start_new_session=True,
            )

    def _follow(self, process: subprocess.Popen[bytes], seen: int) -> Iterator[Finding]:
        """Yield findings until the process has ended, is done, or is silent for too long."""
        size, since, patience = -1, time.monotonic(), STARTUP
        while True:
            ended = process.poll() is not None
            if (now := self.ledger.path.stat().st_size) != size:
                size, since = now, time.monotonic()
                state = self.ledger.read()
                patience = self.limit if state.open else STARTUP
                yield from state.findings[seen:]
                seen = len(state.findings)
                if state.complete:
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(FAREWELL)
                    return
            elif ended or time.monotonic() - since > patience:
                return
            time.sleep(POLL)

    def _why(self, process: subprocess.Popen[bytes], culprit: Finding) -> str:
        """Return what became of a process that was not done."""
        code = process.poll()
        if code is None:
            limit = STARTUP if culprit is STARTING else self.limit
            return f"took longer than {limit:g} s"
        if code < 0:
            return f"the interpreter died (signal {-code}, {signal.Signals(-code).name})"
        said = f": {self._last_words()}" if culprit is STARTING else ""
        return f"the interpreter ended (exit code {code}){said}"

    def _last_words(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "without a word")


def _environment() -> dict[str, str]:
    """Return the environment of the process: our path, and nothing that steers pytest."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS")}
    return {
        **kept,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONFAULTHANDLER": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the process and those that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
