"""The crew on Ray, on one real cluster of two nodes for all tests; a stand-in works, and loads nothing."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import clerks
import psutil
import pytest
from clerks import (
    DIES,
    FAILS,
    HAS_A_BUG,
    HEARS_NO_ALARM,
    HOLDS_THE_LOCK,
    IS_SLOW,
    IS_STOPPED,
    PLAIN,
    Clerk,
)
from kills.workers import differences, rows, workers

import edit_harness as eh
from edit_harness.errors import HarnessError, ResourceError
from edit_harness_plugins.commands.distributed import connection, rays
from edit_harness_plugins.commands.distributed.crew import (
    Came,
    Died,
    Event,
    Failed,
    Finished,
    Ready,
    Unit,
)
from edit_harness_plugins.commands.distributed.places import Settings

SECONDS = 60.0
"""How long anything may take here; a busy machine starts processes slowly."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of two nodes with two CPUs each, which this process is connected to."""
    ray = pytest.importorskip("ray", reason="the extra ray is not installed")
    from ray.cluster_utils import Cluster

    ray.cloudpickle.register_pickle_by_value(clerks)
    os.environ |= {"EDIT_HARNESS_SAID": "by the driver", "OMP_NUM_THREADS": "1"}
    node = {"num_cpus": 2, "object_store_memory": 2**27, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=node)
    made.add_node(num_cpus=2, object_store_memory=2**27)
    try:
        handler = signal.getsignal(signal.SIGTERM)
        with connection.connected(Settings(address=made.address)):
            assert signal.getsignal(signal.SIGTERM) is handler, "Ray's own is not kept"
            yield made.address
    finally:
        del os.environ["EDIT_HARNESS_SAID"]
        made.shutdown()


def staff(make=Clerk, **settings) -> rays.Actors:
    return rays.staff(make, Settings(**settings))


@pytest.fixture(scope="module")
def pair(cluster: str) -> Iterator[rays.Actors]:
    """A crew of two, one on each node; a test leaves two that are free."""
    crew = staff(num_workers=2)
    hired(crew, 2)
    yield crew
    crew.close()


def heard(crew: rays.Actors, enough: Callable[[list[Event]], Any] = bool) -> list[Event]:
    """Return events until there are enough of them."""
    events: list[Event] = []
    until = time.monotonic() + SECONDS
    while not enough(events) and time.monotonic() < until:
        events += crew.events(0.2)
    assert enough(events), events
    return events


def hired(crew: rays.Actors, workers: int = 1) -> list[Ready]:
    """Hire some, and return them when they are ready."""
    for _ in range(workers):
        crew.hire()
    events = heard(crew, lambda events: len(events) >= workers)
    ready = [event for event in events if isinstance(event, Ready)]
    assert len(ready) == workers, events
    return ready


def kinds(events: list[Event], wanted: type) -> list[Any]:
    return [event for event in events if isinstance(event, wanted)]


def through(events: list[Event]) -> list[Any]:
    return kinds(events, Finished)


def free(crew: rays.Actors) -> list[int]:
    return sorted(crew._hired)


def unit(what: int, number: int = 0) -> Unit:
    return Unit(number=8 * number + what, visits={}, work=1.0)


def _gone(pids: set[int]) -> bool:
    until = time.monotonic() + SECONDS
    while any(map(psutil.pid_exists, pids)) and time.monotonic() < until:
        time.sleep(0.1)
    return not any(map(psutil.pid_exists, pids))


def test_workers_are_as_work_needs_them(cluster):
    crew = staff(num_workers=1, cpus_per_worker=0)
    try:
        (ready,) = hired(crew)
        assert ready.card["main"], "alarms ring in the main thread only"
        assert ready.card["interrupts"], "Ctrl-C is the driver's"
        assert ready.card["folder"] == os.getcwd()
        assert ready.card["said"] == "by the driver"
        assert ready.card["threads"] == "1"
        assert ready.card["pid"] != os.getpid()
    finally:
        crew.close()
    assert _gone({ready.card["pid"]}), "nothing is left of a crew that is closed"


def test_rows_stream_back_in_order_as_they_are_made(pair):
    assert pair.size == 2
    one, other = free(pair)
    pair.send(one, unit(PLAIN, 1))
    pair.send(other, unit(IS_SLOW, 2))
    events = heard(pair, lambda events: any(e.worker == other for e in events))
    assert all(e.worker == one for e in through(events)), "rows come before the unit is through"
    if len(through(events)) < 2:
        events += heard(pair, lambda more: len(through(events + more)) == 2)
    for worker, number in ((one, 8 + PLAIN), (other, 16 + IS_SLOW)):
        mine = [event for event in events if event.worker == worker]
        assert mine[-1] == Finished(worker, number)
        rows = [came.records[0][1].case for came in kinds(mine, Came)]
        assert rows == [f"{number}-{i}" for i in range(clerks.ROWS)]


def test_who_is_killed_is_told_as_dead_and_replaced(pair, capfd):
    victim = free(pair)[0]
    pair.send(victim, unit(DIES))
    events = heard(pair, lambda events: kinds(events, Died))
    assert events[-1] == Died(victim, "its process ended")
    assert len(kinds(events, Came)) <= 1
    (ready,) = hired(pair)
    assert ready.worker not in (victim, *free(pair)[:-1]), "numbers are never used again"
    pair.send(ready.worker, unit(PLAIN))
    heard(pair, through)
    assert capfd.readouterr() == ("", ""), "what Ray has to say of it goes to its files"


def test_an_error_comes_as_it_was_and_the_worker_lives_on(pair):
    worker = free(pair)[0]
    pair.send(worker, unit(FAILS))
    failed = heard(pair, lambda events: kinds(events, Failed))[-1]
    assert isinstance(failed, Failed)
    assert failed.unit == FAILS
    assert type(failed.error) is ResourceError
    assert (failed.error.cause, failed.error.remedy) == ("its memory is full", "free some")
    pair.send(worker, unit(PLAIN))
    heard(pair, through)


def test_a_bug_is_said_as_one(pair):
    worker = free(pair)[0]
    pair.send(worker, unit(HAS_A_BUG))
    failed = heard(pair, lambda events: kinds(events, Failed))[-1]
    assert isinstance(failed, Failed)
    assert type(failed.error) is HarnessError
    assert failed.error.cause == "internal error in a worker: KeyError: 'a bug'"


WAITS = """
import sys, time
from functools import partial
from edit_harness import signals
from edit_harness_plugins.commands.distributed import rays
from edit_harness_plugins.commands.distributed.places import Settings

crew = rays.staff(partial(time.sleep, 60), Settings(sys.argv[1], num_workers=1, cpus_per_worker=0))
signals.install()
try:
    crew.hire()
    print("waits", flush=True)
    while True:
        assert not list(crew.events(1.0))
finally:
    crew.close()
"""


def test_a_signal_while_ray_waits_is_the_error_that_it_is_elsewhere(cluster):
    waits = [sys.executable, "-c", WAITS, cluster]
    with subprocess.Popen(
        waits, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as driver:
        assert driver.stdout.readline() == "waits\n"
        time.sleep(1)
        driver.terminate()
        _, told = driver.communicate(timeout=SECONDS)
    assert told.splitlines()[-1] == "edit_harness.errors.Terminated"


@pytest.mark.slow
def test_who_is_silent_is_killed(cluster):
    """Stopped; with Python's lock for good; deaf to its alarm in compiled code: all at once."""
    crew = staff(num_workers=3, cpus_per_worker=0, heartbeat=3)
    try:
        ready = hired(crew, 3)
        for worker, what in enumerate((IS_STOPPED, HOLDS_THE_LOCK, HEARS_NO_ALARM)):
            crew.send(worker, unit(what))
        died = kinds(heard(crew, lambda events: len(kinds(events, Died)) == 3), Died)
    finally:
        crew.close()
    assert {event.worker for event in died} == {0, 1, 2}
    for event in died:
        assert re.fullmatch(r"it was silent for \d+ s and was killed", event.why)
    assert _gone({event.card["pid"] for event in ready}), "even who is stopped ends"


def test_who_cannot_start_says_why(cluster):
    crew = staff(clerks.broken, num_workers=1, cpus_per_worker=0)
    try:
        crew.hire()
        (failed,) = heard(crew)
    finally:
        crew.close()
    assert isinstance(failed, Failed)
    assert failed.unit is None
    assert type(failed.error) is ResourceError
    assert failed.error.cause == "the model does not fit (worker on a host)"


def test_who_dies_while_it_starts_is_dead(cluster):
    crew = staff(clerks.dead, num_workers=1, cpus_per_worker=0)
    try:
        crew.hire()
        assert heard(crew) == [Died(0, "its process ended")]
    finally:
        crew.close()


def test_too_many_workers_are_refused_with_what_there_is(cluster):
    with pytest.raises(ResourceError) as caught:
        staff(num_workers=5)
    assert caught.value.cause.endswith("there are 4 CPUs and 0 GPUs on 2 nodes")


def test_who_gets_no_place_in_time_is_a_failure(pair):
    """The pair holds a CPU of each node."""
    crew = staff(num_workers=1, cpus_per_worker=2, placement=1)
    try:
        crew.hire()
        (failed,) = heard(crew)
    finally:
        crew.close()
    assert isinstance(failed, Failed)
    assert type(failed.error) is ResourceError
    assert "a worker got no place within 1 s" in failed.error.cause
    assert "num_workers" in failed.error.remedy


def test_who_replaces_another_waits_for_a_place(pair):
    crew = staff(num_workers=2)
    try:
        hired(crew, 2)
        crew._settings = replace(crew._settings, placement=0.1)  # the first took longer to start
        late = crew.hire()
        until = time.monotonic() + 1
        while time.monotonic() < until:
            assert not list(crew.events(0.2))
        crew.dismiss(0)
        (ready,) = heard(crew)
    finally:
        crew.close()
    assert isinstance(ready, Ready)
    assert ready.worker == late


def test_a_survey_asks_one_on_each_node_at_least(pair):
    found = rays.survey(Settings(num_workers=1))
    assert [row.get("problem") for row in found] == [None, None]
    assert len({row["pid"] for row in found} - {os.getpid()}) == 2
    assert found[0]["versions"].keys() >= {"python", "torch", "transformers", "ray"}
    assert [p["name"] for p in found[0]["packages"]].count("edit-harness") == 1
    assert found[0]["memory"] > 2**28


def kill_at_work(ended: threading.Event, wanted: int, killed: list[int]) -> None:
    """Kill so many workers of this process's nodes, each while it runs a unit."""
    while len(killed) < wanted and not ended.wait(0.05):
        for hand in workers("ray::Hand.work"):
            if hand.pid not in killed and len(killed) < wanted:
                hand.kill()
                killed.append(hand.pid)


@pytest.mark.slow
def test_a_run_whose_workers_are_killed_is_the_run_of_one_process(cluster, tmp_path):
    """A small form of `python -m tests.kills.workers`: two chunks of cases, of whose workers one dies."""
    what = {"editor": "prompt", "task": "counterfactplus", "limit": 100}
    eh.evaluate(**what, output=tmp_path / "alone")
    killed: list[int] = []
    ended = threading.Event()
    killer = threading.Thread(target=kill_at_work, args=(ended, 1, killed))
    killer.start()
    try:
        settings = {"num_workers": 2, "cpus_per_worker": 0}
        run = eh.evaluate(
            **what, output=tmp_path / "killed", executor="ray", executor_args=settings
        )
    finally:
        ended.set()
        killer.join()
    assert len(killed) == 1
    assert run.sound
    assert not list(differences(tmp_path / "alone", tmp_path / "killed"))
    assert rows(tmp_path / "alone") == rows(tmp_path / "killed"), "not the same to the byte"
