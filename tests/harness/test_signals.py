"""What comes from outside a run: signals that end it, and another writer of its folder."""

import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from edit_harness.errors import ResourceError, RunFolderError
from edit_harness.files import locked

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


def test_a_closed_terminal_does_not_end_what_nohup_started():
    process = started("-c", STUBBORN, ignoring=[signal.SIGHUP])
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "caught\n"
    process.kill()
    process.communicate(timeout=20)


HERE = socket.gethostname()
WRITER = """
import sys
from pathlib import Path
from edit_harness.files import locked
with locked(Path(sys.argv[1]), "wait"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_one_at_a_time(tmp_path):
    with locked(tmp_path, "wait for it"):
        with pytest.raises(RunFolderError) as error, locked(tmp_path, "wait for it"):
            pass
        assert f"in use by pid {os.getpid()} on host {HERE} since " in error.value.cause
        assert error.value.code == 7
        assert error.value.remedy.startswith("wait for it")
    with pytest.raises(KeyError), locked(tmp_path, ""):
        raise KeyError
    with locked(tmp_path, ""):
        pass


def test_another_process_is_kept_away_until_it_is_killed(tmp_path):
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(RunFolderError, match=f"pid {process.pid} on"), locked(tmp_path, ""):
            pass
        process.kill()
        process.wait()
        with locked(tmp_path, ""):
            pass


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.ENOLCK])
def test_where_there_are_no_locks_it_goes_on_without(tmp_path, monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with locked(tmp_path, ""):
        pass


def test_a_lock_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "lock").mkdir()
    told = "lock cannot be written: Is a directory"
    with pytest.raises(ResourceError, match=told), locked(tmp_path, ""):
        pass
