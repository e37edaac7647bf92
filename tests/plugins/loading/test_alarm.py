"""The alarm of chat templates; times are short, and nothing here waits for more than half a second."""

import signal
import threading
import time

import pytest

from edit_harness_plugins.loading.chat import within


def test_what_takes_too_long_is_ended():
    start = time.monotonic()
    with pytest.raises(TimeoutError, match=r"longer than 0\.05 s"), within(0.05):
        time.sleep(5)
    assert time.monotonic() - start < 2


def test_an_error_of_the_work_stays_what_it_is():
    with pytest.raises(ValueError, match="own"), within(5):
        raise ValueError("own")


def test_no_alarm_is_left_and_the_handler_is_back():
    handler = signal.getsignal(signal.SIGALRM)
    with within(5):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 4
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is handler


def test_in_another_thread_there_is_no_alarm():
    seen = []

    def work():
        with within(1e-3):
            time.sleep(0.02)
            seen.append(signal.getitimer(signal.ITIMER_REAL)[0])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(5)
    assert seen == [0.0]
