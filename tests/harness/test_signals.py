"""What ends a run from outside: the code, what is kept, and that a second signal waits for nothing."""

import os
import signal
import subprocess
import sys
import time

import pytest

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143}
STUBBORN = """
import signal, time
from edit_harness.cli import handle_signals
handle_signals()
try:
    print("ready", flush=True)
    time.sleep(60)
finally:
    print("caught", flush=True)
    time.sleep(60)
"""

HELD = """
import os, signal

from edit_harness.errors import Terminated
from edit_harness.cli import handle_signals
from edit_harness_plugins.commands.distributed.on_ray import held

handle_signals()
try:
    with held():
        os.kill(os.getpid(), signal.SIGTERM)
        print("behind", flush=True)
    print("never")
except Terminated:
    print("raised", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
print("never")
"""


def started(*command, ignoring=(), **options):
    def dispose():
        # Under nohup SIGHUP is ignored, in a shell's background SIGINT, and children inherit that.
        for number in CODES:
            signal.signal(number, signal.SIG_IGN if number in ignoring else signal.SIG_DFL)

    return subprocess.Popen(
        [sys.executable, *command],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=dispose,  # noqa: PLW1509
        **options,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_an_interrupted_run_keeps_what_is_done(tmp_path, number):
    command = ("-m", "edit_harness", "-e", "ft", "-t", "counterfact", "-o", "out")
    process = started(*command, cwd=tmp_path, ignoring=[signal.SIGINT])
    samples = None
    while process.poll() is None:
        time.sleep(0.02)
        samples = next(tmp_path.glob("out/*/samples.jsonl"), None)
        if samples and samples.stat().st_size:
            break
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == CODES[number], errors
    kept = len(samples.read_text().splitlines())
    assert f"kept: {kept} of" in errors
    assert "same command" in " ".join(errors.split())
    assert "Traceback" not in errors


@pytest.mark.parametrize("second", CODES, ids=lambda number: number.name)
def test_a_second_signal_ends_it_at_once(second):
    process = started("-c", STUBBORN)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "caught\n"
    process.send_signal(second)
    process.communicate(timeout=20)
    assert process.returncode == CODES[second]


def test_a_signal_waits_for_the_end_of_a_block():
    process = started("-c", HELD)
    assert process.communicate(timeout=20)[0] == "behind\nraised\n"
    assert process.returncode == CODES[signal.SIGTERM]


def test_a_closed_terminal_does_not_end_what_nohup_started():
    process = started("-c", STUBBORN, ignoring=[signal.SIGHUP])
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "caught\n"
    process.kill()
    process.communicate(timeout=20)
