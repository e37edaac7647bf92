"""An import that prints, changes the process or takes its time."""

import logging
import os
import random
import signal
import sys
import warnings

import numpy as np
import pytest
import torch

from edit_harness import guard, process


def test_what_is_printed_is_caught_and_noted(capsys):
    with guard.importing() as went:
        print("hello")
        print("trouble", file=sys.stderr)
    assert capsys.readouterr() == ("", "")
    assert list(went.notes) == ["printed while it was loaded: hello trouble"]


def test_a_logger_that_was_set_up_meanwhile_writes_afterwards(capsys):
    with guard.importing():
        handler = logging.StreamHandler()
    handler.emit(logging.makeLogRecord({"msg": "later"}))
    assert capsys.readouterr().err == "later\n"


CHANGES = {
    "the working directory": lambda: os.chdir("/"),
    "the environment": lambda: os.environ.update(EDIT_HARNESS_CACHE="/nowhere", NEW="1"),
    "Python's random state": lambda: random.seed(7),
    "numpy's random state": lambda: np.random.seed(7),
    "torch's random state": lambda: torch.manual_seed(7),
    "the signal handlers": lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "the default dtype": lambda: torch.set_default_dtype(torch.float64),
    "gradient mode": lambda: torch.set_grad_enabled(False),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("fails", [False, True])
def test_what_an_import_changes_is_put_back_and_named(name, fails):
    before = process.read()
    try:
        with guard.importing() as went:
            CHANGES[name]()
            if fails:
                raise ImportError
    except ImportError:
        assert fails
    assert not process.changes(before, process.read())
    assert list(went.notes) == [f"changed {name} while it was loaded; that was put back"]


def test_what_libraries_do_is_not_held_against_a_plugin():
    with guard.importing() as went:
        warnings.simplefilter("ignore")
        sys.path.append("/nowhere")
    sys.path.remove("/nowhere")
    assert not list(went.notes)


def test_an_import_that_changes_nothing_has_no_notes():
    with guard.importing() as went:
        pass
    assert not list(went.notes)
    assert 0 <= went.seconds < guard.SLOW


def test_a_slow_import_is_noted():
    (said,) = guard.Import(guard.SLOW, seconds=3.25).notes
    assert said.startswith("took 3.2 s to load")
    assert not list(guard.Import(seconds=3.25).notes)


def test_a_user_is_told_once(caplog):
    for _ in range(2):
        guard.note("this is said once")
    assert [record.message for record in caplog.records] == ["this is said once"]
