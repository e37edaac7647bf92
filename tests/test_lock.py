"""One writer at a time: who holds a folder, what is left of the dead, and locks that do not lock."""

import fcntl
import json
import os
import socket
import subprocess
import sys

import pytest

from edit_harness.errors import RunFolderError
from edit_harness.lock import held

HERE = socket.gethostname()
WRITER = """
import sys
from pathlib import Path
from edit_harness.lock import held
with held(Path(sys.argv[1]), "wait"):
    print("held", flush=True)
    sys.stdin.read()
"""


def dead():
    """Return the number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def owner(pid, host=HERE):
    return json.dumps({"pid": pid, "host": host, "since": "2026-01-01 12:01"})


@pytest.fixture(params=["flock", "no flock", "a flock that does nothing"])
def locks(request, monkeypatch):
    def refuse(*_):
        raise OSError(95, "Operation not supported")

    if request.param != "flock":
        nothing = refuse if request.param == "no flock" else lambda *_: None
        monkeypatch.setattr(fcntl, "flock", nothing)
    return request.param


def test_one_at_a_time(tmp_path, locks):
    with held(tmp_path, "wait for it"):
        with pytest.raises(RunFolderError) as error, held(tmp_path, "wait for it"):
            pass
        assert f"in use by pid {os.getpid()} on host {HERE} since " in error.value.cause
        assert error.value.code == 7
        assert error.value.remedy.startswith("wait for it")
    with held(tmp_path, "") as notes:
        assert notes == []


def test_an_error_inside_leaves_no_lock(tmp_path, locks):
    with pytest.raises(KeyError), held(tmp_path, ""):
        raise KeyError
    with held(tmp_path, "") as notes:
        assert notes == []


def test_another_process_is_kept_away_until_it_is_killed(tmp_path):
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(RunFolderError, match=f"pid {process.pid} on"), held(tmp_path, ""):
            pass
        process.kill()
        process.wait()
        with held(tmp_path, "") as notes:
            assert notes[0].startswith(f"took over from pid {process.pid} on host {HERE}")


def test_the_file_of_a_dead_process_is_taken_over(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    pid = dead()
    (tmp_path / "lock.owner").write_text(owner(pid))
    with held(tmp_path, "") as notes:
        assert notes == [
            f"took over from pid {pid} on host {HERE} since 2026-01-01 12:01, which is gone"
        ]
    assert not list(tmp_path.glob("lock.owner*"))


@pytest.mark.parametrize("text", [owner(1), owner(2, "elsewhere"), "", "[]", '{"pid": "x"}'])
def test_the_file_of_a_process_that_may_live_is_not(tmp_path, monkeypatch, text):
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    (tmp_path / "lock.owner").write_text(text)
    with pytest.raises(RunFolderError) as error, held(tmp_path, "wait"):
        pass
    assert error.value.remedy == (
        f"wait; if that process is gone, remove {tmp_path / 'lock.owner'}"
    )
    assert (tmp_path / "lock.owner").read_text() == text


def test_of_eight_that_start_at_once_one_writes(tmp_path):
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    started = [
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        for _ in range(8)
    ]
    said = [process.stdout.readline() for process in started]
    for process in started:
        process.communicate(timeout=60)
    assert sorted(said) == [b""] * 7 + [b"held\n"]
