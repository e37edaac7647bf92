"""An import that prints, changes the process or takes its time."""

import logging
import os
import random
import signal
import sys

import pytest
import torch

from edit_harness import guard


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
    "the random state": lambda: random.seed(7),
    "signal handlers": lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "torch's default dtype": lambda: torch.set_default_dtype(torch.float64),
}


def test_all_that_is_looked_at_is_tried_here():
    assert CHANGES.keys() == guard.STATE.keys()


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("fails", [False, True])
def test_what_an_import_changes_is_put_back_and_named(name, fails):
    look = {key: get for key, (get, _) in guard.STATE.items()}
    before = {key: get() for key, get in look.items()}
    try:
        with guard.importing() as went:
            CHANGES[name]()
            if fails:
                raise ImportError
    except ImportError:
        assert fails
    assert {key: get() for key, get in look.items()} == before
    assert list(went.notes) == [f"changed {name} while it was loaded; that was put back"]


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
