"""Workers on Ray: an actor for each, in a cluster that runs or a Ray that is started here for the run.

Ray finds the actors a place, all of them or none, and tells when a process or node is gone. It restarts
and repeats nothing: what becomes of a worker's batch is `pool`'s matter. Ray's own log stays in its files.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from math import ceil
from typing import Any

from edit_harness.cli import CODES
from edit_harness.errors import HarnessError, ResourceError, UsageError, counted
from edit_harness.registry.guard import said
from edit_harness.registry.settings import Natural, NotNegative, Positive

from .pool import WorkerExecutor
from .worker import INSTALL, Batch, Died, Event, Failed, Order, Worker

ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
"""What Ray reads on import: no reports to its makers; who takes no GPU sees all."""
STORE = 256 * 2**20
"""Bytes for what is on its way between processes, of a Ray that is started here: rows are small."""
TRAVELS = ("EDIT_HARNESS_", "OMP_NUM_THREADS", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
"""Beginnings of the variables that a worker gets from the command's environment; none is a secret."""
STEP = 1.0  # seconds of a wait that nothing interrupts
log = logging.getLogger(__name__)


def ray() -> Any:
    """Return the module. Raises `UsageError` if it is not installed."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise UsageError(
            "--executor ray needs Ray, which is not installed", "pip install 'edit-harness[ray]'"
        ) from None
    return ray


@dataclass(frozen=True)
class Ray(WorkerExecutor):
    """Workers are actors of a Ray cluster, or of a Ray that is started on this machine for the run."""

    address: str = ""
    """Of a cluster that runs, HOST:PORT or ``auto``; empty starts Ray on this machine for this run."""
    num_workers: Natural = 0
    """0 is as many as there are GPUs or, without any, one for every two CPUs."""
    gpus_per_worker: NotNegative | None = None
    """By default 1 if the cluster has any. Workers with a half share a GPU and its memory."""
    cpus_per_worker: Positive = 1
    """What a worker takes of Ray's count of CPUs; how many threads it has is ``OMP_NUM_THREADS``."""
    placement: Positive = 60
    """Seconds to wait for a place for all workers."""

    @contextmanager
    def ready(self) -> Generator[str]:
        """Start or join Ray for a while. Raises `ResourceError` if it has not what workers take."""
        with connected(self.address):
            yield f"on {counted(len(self.resources()), 'worker')} of ray"

    def workers(self, order: Order) -> Actors:
        """Return actors, of whom none is started yet."""
        return Actors(self, partial(Worker, order=order))

    def resources(self) -> list[dict[str, float]]:
        """Return what each worker takes. Raises `ResourceError` if Ray has less in all."""
        with held():
            there = ray().cluster_resources()
        cpus, gpus = there.get("CPU", 0.0), there.get("GPU", 0.0)
        share = float(gpus > 0) if self.gpus_per_worker is None else self.gpus_per_worker
        usual = gpus // share if share else cpus // 2
        number = self.num_workers or max(1, int(usual))
        if number * self.cpus_per_worker > cpus or number * share > gpus:
            raise ResourceError(
                f"there is no room for {counted(number, 'worker')}, each with "
                f"cpus_per_worker={self.cpus_per_worker:g} and gpus_per_worker={share:g}: "
                f"there are {cpus:g} CPUs and {gpus:g} GPUs",
                "less in --executor-args: num_workers, cpus_per_worker, gpus_per_worker; or add nodes",
            )
        return [{"CPU": self.cpus_per_worker, **({"GPU": share} if share else {})}] * number


@contextmanager
def held() -> Generator[None]:
    """Let a signal wait for the end of a block, which should be a matter of a second.

    Ray's compiled code asks whether a signal came, and makes something else of what its handler raises.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {n: signal.signal(n, lambda number, _: came.append(number)) for n in CODES}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


class WorkerActor:
    """What runs in a worker's process: it works in the main thread, where alarms ring, and streams events."""

    def __init__(self, folder: str) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver's to handle
        with suppress(OSError):  # another machine may not have it
            os.chdir(folder)

    def start(self, number: int, make: Callable[[int], Worker]) -> Iterator[Event]:
        """Load what there is to load; yield what came of it."""
        self.worker = make(number)
        yield self.worker.start()

    def run(self, batch: Batch) -> Iterator[Event]:
        """Run a batch; yield its records as they are made, and last what came of it."""
        yield from self.worker.run(batch)


class Actors:
    """Workers that are Ray's actors, as `pool` needs them; ``make`` makes what works in the process of a worker's number."""

    def __init__(self, settings: Ray, make: Callable[[int], Worker]) -> None:
        self._numbers = count()
        self._actors: dict[int, Any] = {}
        self._streams: dict[int, Any] = {}  # of those at work: they yield events
        with ExitStack() as stack:
            stack.enter_context(connected(settings.address))
            takes = settings.resources()
            self.size, self._takes = len(takes), takes[0]
            self._places = ray().util.placement_group(takes, strategy="SPREAD")
            stack.callback(ray().util.remove_placement_group, self._places)
            wait = held()(self._places.wait)
            if not any(wait(STEP) for _ in range(ceil(settings.placement / STEP))):
                raise ResourceError(
                    f"{counted(self.size, 'worker')} got no place within {settings.placement:g} s: "
                    "others hold what the cluster has, or no node has what a worker takes",
                    "wait for them, see `ray status`, or fewer workers: --executor-args num_workers=N",
                )
            self._make = ray().put(make)
            self._held = stack.pop_all()

    @held()
    def start(self) -> int:
        """Start another worker in a free place; Ray neither starts it again nor asks it twice."""
        number = next(self._numbers)
        at = ray().util.scheduling_strategies.PlacementGroupSchedulingStrategy
        kind = ray().remote(WorkerActor).options(
            num_cpus=self._takes["CPU"],
            num_gpus=self._takes.get("GPU", 0),
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy=at(self._places),
            runtime_env={"env_vars": {k: v for k, v in os.environ.items() if k.startswith(TRAVELS)}},
        )  # fmt: skip
        self._actors[number] = kind.remote(os.getcwd())
        self._stream(number, self._actors[number].start, number, self._make)
        return number

    @held()
    def send(self, worker: int, batch: Batch) -> None:
        """Give a worker that is free its next batch."""
        self._stream(worker, self._actors[worker].run, batch)

    def _stream(self, number: int, method: Any, *given: Any) -> None:
        self._streams[number] = method.options(num_returns="streaming").remote(*given)

    @held()
    def events(self, timeout: float) -> list[Event]:
        """Return what has happened, after so many seconds at the latest; maybe nothing."""
        waited = {stream: number for number, stream in self._streams.items()}
        if not waited:
            time.sleep(timeout)
            return []
        ray().wait(list(waited), timeout=timeout)
        news, _ = ray().wait(list(waited), num_returns=len(waited), timeout=0)
        return [event for stream in news if (event := self._next(waited[stream], stream))]

    def _next(self, number: int, stream: Any) -> Event | None:
        try:
            event: Event = ray().get(next(stream))
        except StopIteration:
            del self._streams[number]
            return None
        except ray().exceptions.RayTaskError as error:  # something else than a worker's own code
            del self._streams[number]
            told = f"internal error in a worker: {account(error)}"
            return Failed(number, HarnessError(told, INSTALL))
        except ray().exceptions.RayError as error:
            self.kill(number)
            return Died(number, account(error))
        return event

    @held()
    def kill(self, worker: int) -> None:
        """Kill a worker; nothing more is heard of it."""
        self._streams.pop(worker, None)
        if its := self._actors.pop(worker, None):
            with suppress(ray().exceptions.RayError):
                ray().kill(its)

    @held()
    def close(self) -> None:
        """Kill all workers, and leave Ray or stop it."""
        with self._held:
            for worker in list(self._actors):
                self.kill(worker)


def account(error: Any) -> str:
    """Return Ray's account of what went wrong in a few words."""
    log.debug("ray", exc_info=error)
    if cause := getattr(error, "cause", None):
        return said(cause)
    if "running low on memory" in str(error):
        return "Ray ended it, since its node was running out of memory"
    return "its node is gone" if "node has died" in str(error) else "its process ended"


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Be Ray's driver for a while, as this process is already, or anew. Raises `ResourceError`."""
    module = ray()
    if module.is_initialized():
        yield
        return
    options: dict[str, Any] = {"include_dashboard": False, "object_store_memory": STORE}
    handler = signal.getsignal(signal.SIGTERM)
    try:
        if address:
            options = {}
            # Ray tries so often, 40 s each, and finds out late that nobody answers.
            os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "1")
            host, _, port = address.rpartition(":")
            if address != "auto":
                socket.create_connection((host, int(port)), timeout=5).close()
        module.init(
            address or "local", log_to_driver=False, logging_level=logging.CRITICAL, **options
        )
    except Exception as error:
        log.debug("ray.init", exc_info=error)
        line = f"{' '.join(str(error).split()) or type(error).__name__:.200}"
        told, remedy = f"Ray does not start on this machine: {line}", "--executor local"
        if address:
            told = f"no Ray cluster answers at {address}: {line}"
            remedy = "say HOST:PORT, or auto on a node of it; without it Ray starts on this machine"
        raise ResourceError(told, remedy) from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray puts its own there
    # That a worker died is printed to stdout whatever the log is told; it is told as an event here.
    module._private.worker._worker_logs_enabled = False
    try:
        yield
    finally:
        module.shutdown()
