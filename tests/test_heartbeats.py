"""Who is silent, told without waiting: the clock and the alarm are given."""

import hashlib
import signal
import threading
import time

import pytest

from edit_harness import allowance
from edit_harness.allowance import Allowance, Expired
from edit_harness_plugins.commands.distributed.heartbeats import BEATS, Pulse, Roll


def test_a_pulse_beats_at_once_and_goes_on():
    beats = threading.Semaphore(0)
    Pulse(beats.release, patience=0.01 * BEATS).start()
    assert all(beats.acquire(timeout=5) for _ in range(3))


def test_what_a_beat_raises_does_not_end_the_pulse():
    def fail():
        raise ConnectionError("nobody listens")

    Pulse(fail, patience=60).once()


def test_nothing_beats_while_an_alarm_is_unheard():
    beats, deaf = [], [True, False]
    pulse = Pulse(lambda: beats.append(len(deaf)), patience=60, unheard=lambda: deaf.pop(0))
    pulse.once()
    assert beats == []
    pulse.once()
    assert beats == [0]


def test_the_roll_says_how_long_each_has_been_silent():
    now = [100.0]
    roll = Roll(clock=lambda: now[0])
    roll.beat(0)
    now[0] = 130.0
    roll.beat(1)
    now[0] = 131.5
    assert roll.silences() == {0: 31.5, 1: 1.5}
    roll.beat(0)
    assert roll.silences() == {0: 0.0, 1: 1.5}


def _deaf() -> None:
    hashlib.pbkdf2_hmac("sha256", b"", b"", 1_000_000)
    time.sleep(5)  # here it is heard


def test_an_alarm_is_unheard_while_the_main_thread_is_in_compiled_code():
    heard: list[bool] = []
    ended = threading.Event()

    def watch():
        while not ended.wait(0.01):
            heard.append(allowance.unheard())

    watcher = threading.Thread(target=watch)
    watcher.start()
    with pytest.raises(Expired), Allowance(0.05).spent_on(1):
        _deaf()
    ended.set()
    watcher.join()
    assert True in heard
    assert heard[0] is False


def test_without_an_allowance_there_is_no_alarm_to_hear():
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    assert not allowance.unheard()
    with Allowance(100).spent_on(1):
        assert not allowance.unheard()
