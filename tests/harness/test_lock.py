"""One writer at a time: who holds a folder, and what is left of the dead."""

import errno
import fcntl
import os
import socket
import subprocess
import sys

import pytest

from edit_harness.errors import ResourceError, RunFolderError
from edit_harness.files import locked

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
