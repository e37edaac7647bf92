"""Workers on Ray, on one real cluster of two nodes for all tests; a stand-in works, and loads nothing."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from support import clerks
from support.clerks import DIES, FAILS, HAS_A_BUG, IS_SLOW, PLAIN, Clerk

import edit_harness as eh
from edit_harness.errors import HarnessError, ResourceError, UsageError
from edit_harness_plugins.commands.distributed import on_ray
from edit_harness_plugins.commands.distributed.on_ray import Actors, Ray
from edit_harness_plugins.commands.distributed.worker import (
    Batch,
    Came,
    Died,
    Event,
    Failed,
    Finished,
    Ready,
)
from edit_harness_plugins.commands.report.facts import sound

KILLS = int(os.environ.get("EDIT_HARNESS_KILLS") or 1)
"""Runs that lose a worker; more before a release."""
SECONDS = 60.0
"""How long anything may take here; a busy machine starts processes slowly."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of two nodes with four CPUs each, which this process is connected to."""
    ray = pytest.importorskip("ray", reason="the extra ray is not installed")
    from ray.cluster_utils import Cluster

    ray.cloudpickle.register_pickle_by_value(clerks)
    os.environ |= {"EDIT_HARNESS_SAID": "by the driver", "OMP_NUM_THREADS": "1"}
    node = {"num_cpus": 4, "object_store_memory": 2**27, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=node)
    made.add_node(num_cpus=4, object_store_memory=2**27)
    try:
        handler = signal.getsignal(signal.SIGTERM)
        with on_ray.connected(made.address):
            assert signal.getsignal(signal.SIGTERM) is handler, "Ray's own is not kept"
            yield made.address
    finally:
        del os.environ["EDIT_HARNESS_SAID"]
        made.shutdown()


def staff(make=Clerk, **settings) -> Actors:
    return Actors(Ray(**settings), make)


@pytest.fixture(scope="module")
def pair(cluster: str) -> Iterator[Actors]:
    """Two actors, one on each node; a test leaves two that are free."""
    actors = staff(num_workers=2)
    started(actors, 2)
    yield actors
    actors.close()


def heard(actors: Actors, enough: Callable[[list[Event]], Any] = bool) -> list[Event]:
    """Return events until there are enough of them."""
    events: list[Event] = []
    until = time.monotonic() + SECONDS
    while not enough(events) and time.monotonic() < until:
        events += actors.events(0.2)
    assert enough(events), events
    return events


def started(actors: Actors, workers: int = 1) -> list[Ready]:
    """Start some, and return them when they are ready."""
    for _ in range(workers):
        actors.start()
    events = heard(actors, lambda events: len(events) >= workers)
    ready = [event for event in events if isinstance(event, Ready)]
    assert len(ready) == workers, events
    return ready


def kinds(events: list[Event], wanted: type) -> list[Any]:
    return [event for event in events if isinstance(event, wanted)]


def through(events: list[Event]) -> list[Any]:
    return kinds(events, Finished)


def free(actors: Actors) -> list[int]:
    return sorted(actors._actors)


def batch(what: int, number: int = 0) -> Batch:
    return Batch({0: frozenset({(str(number), what)})})


def _gone(pids: set[int]) -> bool:
    until = time.monotonic() + SECONDS
    while any(map(psutil.pid_exists, pids)) and time.monotonic() < until:
        time.sleep(0.1)
    return not any(map(psutil.pid_exists, pids))


def test_workers_are_as_work_needs_them(cluster):
    actors = staff(num_workers=1, cpus_per_worker=0.5)
    try:
        (ready,) = started(actors)
        assert ready.card["main"], "alarms ring in the main thread only"
        assert ready.card["interrupts"], "Ctrl-C is the driver's"
        assert ready.card["folder"] == os.getcwd()
        assert ready.card["said"] == "by the driver"
        assert ready.card["threads"] == "1"
        assert ready.card["pid"] != os.getpid()
    finally:
        actors.close()
    assert _gone({ready.card["pid"]}), "nothing is left of actors that are closed"


def test_rows_stream_back_in_order_as_they_are_made(pair):
    assert pair.size == 2
    one, other = free(pair)
    pair.send(one, batch(PLAIN, 1))
    pair.send(other, batch(IS_SLOW, 2))
    events = heard(pair, lambda events: any(e.worker == other for e in events))
    assert all(e.worker == one for e in through(events)), "rows come before the unit is through"
    if len(through(events)) < 2:
        events += heard(pair, lambda more: len(through(events + more)) == 2)
    for worker, number in ((one, 1), (other, 2)):
        mine = [event for event in events if event.worker == worker]
        assert mine[-1] == Finished(worker)
        rows = [came.records[0][1].case for came in kinds(mine, Came)]
        assert rows == [f"{number}-{i}" for i in range(clerks.ROWS)]


def test_who_is_killed_is_told_as_dead_and_replaced(pair, capfd):
    victim = free(pair)[0]
    pair.send(victim, batch(DIES))
    events = heard(pair, lambda events: kinds(events, Died))
    assert events[-1] == Died(victim, "its process ended")
    assert len(kinds(events, Came)) <= 1
    (ready,) = started(pair)
    assert ready.worker not in (victim, *free(pair)[:-1]), "numbers are never used again"
    pair.send(ready.worker, batch(PLAIN))
    heard(pair, through)
    assert capfd.readouterr() == ("", ""), "what Ray has to say of it goes to its files"


@pytest.mark.parametrize(
    ("what", "error", "cause"),
    [
        (FAILS, ResourceError, "its memory is full"),
        (HAS_A_BUG, HarnessError, "internal error in a worker: KeyError: 'a bug'"),
    ],
)
def test_an_error_comes_as_it_was_and_the_worker_lives_on(pair, what, error, cause):
    worker = free(pair)[0]
    pair.send(worker, batch(what))
    (failed,) = kinds(heard(pair, lambda events: kinds(events, Failed)), Failed)
    assert type(failed.error) is error
    assert failed.error.cause == cause
    pair.send(worker, batch(PLAIN))
    heard(pair, through)


def test_who_dies_while_it_starts_is_dead(cluster):
    actors = staff(clerks.dead, num_workers=1, cpus_per_worker=0.5)
    try:
        actors.start()
        assert heard(actors) == [Died(0, "its process ended")]
    finally:
        actors.close()


def test_no_place_in_time_is_an_error(pair):
    """The pair holds a CPU of each node, and no node has four left."""
    with pytest.raises(ResourceError, match="1 worker got no place within 1 s"):
        staff(num_workers=1, cpus_per_worker=4, placement=1)


def at_work() -> Iterator[psutil.Process]:
    """Yield the workers of this process's nodes that run a batch, which Ray has them called by."""
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if " ".join(child.cmdline()).split()[:1] == ["ray::WorkerActor.run"]:
                yield child


@contextmanager
def a_worker_killed() -> Iterator[None]:
    """Kill one worker of this process's nodes, once it runs a batch."""
    killed, ended = [], threading.Event()

    def kill() -> None:
        while not killed and not ended.wait(0.05):
            for worker in islice(at_work(), 1):
                worker.kill()
                killed.append(worker.pid)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield
    finally:
        ended.set()
        killer.join()
    assert killed


def rows(output: Path) -> list[dict[str, Any]]:
    """Return the rows of the one run in a folder, without what depends on timing or on who came first."""
    (path,) = output.glob("*/samples.jsonl")
    read = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    kept = [
        {k: v for k, v in row.items() if k not in ("seconds", "crc", "seq", "try")} for row in read
    ]
    return sorted(kept, key=lambda row: row["case"])


def test_a_run_whose_workers_are_killed_is_the_run_of_one_process(cluster, tmp_path):
    """Two chunks of cases; a worker dies in each of `KILLS` runs."""
    what = {"editor": "prompt", "task": "counterfactplus", "limit": 100}
    eh.evaluate(**what, output=tmp_path / "alone")
    settings = {"num_workers": 2, "cpus_per_worker": 0.5}
    for number in range(KILLS):
        output = tmp_path / f"killed-{number}"
        with a_worker_killed():
            run = eh.evaluate(**what, output=output, executor="ray", executor_args=settings)
        assert sound(run)
        assert rows(tmp_path / "alone") == rows(output), "not the same to the byte"


# Without a cluster


@pytest.fixture
def having(monkeypatch):
    """Let a cluster have so many CPUs and GPUs."""

    def having(cpus, gpus):
        there = SimpleNamespace(cluster_resources=lambda: {"CPU": cpus, "GPU": gpus})
        monkeypatch.setattr(on_ray, "ray", lambda: there)

    return having


@pytest.mark.parametrize(
    ("there", "settings", "number", "takes"),
    [
        ((12, 0), {}, 6, {"CPU": 1}),
        ((32, 16), {}, 16, {"CPU": 1, "GPU": 1}),
        ((32, 16), {"gpus_per_worker": 0.5}, 32, {"CPU": 1, "GPU": 0.5}),
        ((32, 16), {"gpus_per_worker": 0}, 16, {"CPU": 1}),
        ((1, 0), {}, 1, {"CPU": 1}),
    ],
)
def test_how_many_there_are_to_be(having, there, settings, number, takes):
    having(*there)
    assert Ray(**settings).resources() == [takes] * number


@pytest.mark.parametrize("settings", [{"num_workers": 13}, {"gpus_per_worker": 1}])
def test_no_room_is_said_with_what_there_is(having, settings):
    having(12, 0)
    with pytest.raises(ResourceError, match=r"there is no room for .* 12 CPUs and 0 GPUs"):
        Ray(**settings).resources()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "somewhere", "ray://nowhere.invalid:10001"])
def test_addresses_at_which_nothing_is(address, monkeypatch):
    outside = SimpleNamespace(is_initialized=lambda: False)
    monkeypatch.setattr(on_ray, "ray", lambda: outside)
    told = f"no Ray cluster answers at {address}: "
    with pytest.raises(ResourceError, match=told), on_ray.connected(address):
        pass


def test_without_ray_there_is_a_line_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError) as caught:
        on_ray.ray()
    assert caught.value.remedy == "pip install 'edit-harness[ray]'"
