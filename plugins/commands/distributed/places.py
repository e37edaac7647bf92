"""How many workers there are to be and what each takes, held against what a cluster's nodes have. It imports no Ray."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated

from edit_harness.errors import ResourceError, UsageError
from edit_harness.registry.settings import Bounds, Natural, Positive
from edit_harness.wording import counted

CPUS_PER_WORKER = 2
"""CPUs of a cluster without GPUs for which there is a worker, if nobody says how many there are to be."""


@dataclass(frozen=True)
class Settings:
    """What ``--executor-args`` says to Ray."""

    address: str = ""
    """Of a cluster that runs, HOST:PORT or ``auto``; empty starts Ray on this machine for this run."""
    num_workers: Natural = 0
    """0 is as many as there are GPUs or, without any, one for every two CPUs."""
    gpus_per_worker: Annotated[float | None, Bounds(0)] = None
    """By default 1 if the cluster has any. Workers with a half share a GPU and its memory."""
    cpus_per_worker: Annotated[float, Bounds(0)] = 1
    """What a worker takes of Ray's count of CPUs; how many threads it has is ``OMP_NUM_THREADS``."""
    heartbeat: Positive = 60
    """Seconds for which a worker may be silent before it is killed."""
    placement: Positive = 60
    """Seconds for which a worker waits for a place."""


@dataclass(frozen=True)
class Node:
    """A machine of a cluster, with what it has in all."""

    id: str
    host: str
    cpus: float
    gpus: float

    def room(self, each: Demand) -> int:
        """Return how many workers it has room for, ``each.workers`` at most."""
        takes = [(self.cpus, each.cpus), (self.gpus, each.gpus)]
        return min([each.workers, *(int(has // taken) for has, taken in takes if taken)])


@dataclass(frozen=True)
class Demand:
    """So many workers, each of which takes so much."""

    workers: int
    cpus: float
    gpus: float

    def __str__(self) -> str:
        takes = _said(self.cpus, "CPU") + f" and {_said(self.gpus, 'GPU')}" * bool(self.gpus)
        return f"{counted(self.workers, 'worker')} with {takes}" + " each" * (self.workers > 1)


def _said(number: float, unit: str) -> str:
    return f"{number:g} {unit}" + "s" * (number == 0 or number > 1)


def demanded(nodes: Sequence[Node], settings: Settings) -> Demand:
    """Return how many workers there are to be. Raises `ResourceError` if nodes have no room for them."""
    cpus, gpus = sum(node.cpus for node in nodes), sum(node.gpus for node in nodes)
    share = settings.gpus_per_worker
    share = float(gpus > 0) if share is None else share
    if share > 1 and share % 1:
        raise UsageError(f"gpus_per_worker={share:g} is neither whole nor below 1", "say 0.5, 1, 2")
    usual = gpus // share if share else cpus // CPUS_PER_WORKER
    demand = Demand(settings.num_workers or max(1, int(usual)), settings.cpus_per_worker, share)
    room = sum(node.room(demand) for node in nodes)
    if room < demand.workers:
        raise ResourceError(
            f"there is no room for {demand}, but for {room}: there are {_said(cpus, 'CPU')} and "
            f"{_said(gpus, 'GPU')} on {counted(len(nodes), 'node')}",
            "less in --executor-args: num_workers, cpus_per_worker, gpus_per_worker; or add nodes",
        )
    return demand


def seats(nodes: Sequence[Node], demand: Demand) -> list[tuple[Node, Demand]]:
    """Deal workers to nodes with room for them, in turn; a node that gets none has one that takes nothing."""
    one = replace(demand, workers=1)
    rounds = (n for turn in range(demand.workers) for n in nodes if turn < n.room(demand))
    dealt = [(node, one) for node in islice(rounds, demand.workers)]
    taken = {node.id for node, _ in dealt}
    return dealt + [(node, Demand(1, 0, 0)) for node in nodes if node.id not in taken]
