"""Workers in other processes as the driver sees them: it sends them units, and gets events.

What a worker does with a unit stands in `worker`, what the driver does with events in `pool`; how
workers are started and reached is each crew's own matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from edit_harness.cases import Visit
from edit_harness.errors import HarnessError, ResourceError
from edit_harness.folder.record import Record


@dataclass(frozen=True)
class Unit:
    """Whole chunks of a plan that one worker runs in one go."""

    number: int
    visits: Mapping[str, frozenset[Visit]]
    """What is to be made, by the evaluation's key: its place in the order as a text."""
    work: float
    """What there is to do, counted: see `edit_harness_plugins.commands.distributed.units`."""
    alone: bool = False
    """Whether each of its steps is a chunk of its own, since the chunk took workers down."""


class DeviceError(ResourceError):
    """A worker's device failed: the worker is of no use any more, and its unit goes to another."""


@dataclass(frozen=True)
class Ready:
    """A worker has loaded the model and can be sent units."""

    worker: int
    card: Mapping[str, Any]
    """What the worker is, as JSON: host, pid, device, memory, versions, packages, identities."""


@dataclass(frozen=True)
class Came:
    """Some rows of a unit, verified, in order."""

    worker: int
    unit: int
    records: Sequence[tuple[str, Record]]
    """Records with the keys of their evaluations."""
    notes: Sequence[tuple[str, str]] = ()
    """Lines to be told, with the keys of their evaluations."""
    events: Sequence[tuple[str, str, Mapping[str, Any]]] = ()
    """What happened: key, kind and details of each."""


@dataclass(frozen=True)
class Finished:
    """A unit is through, and its worker is free."""

    worker: int
    unit: int


@dataclass(frozen=True)
class Failed:
    """What a run in one process would have raised; the worker lives on."""

    worker: int
    unit: int | None
    """None while it started."""
    error: HarnessError


@dataclass(frozen=True)
class Died:
    """The process is gone, or was silent for too long and was killed."""

    worker: int
    why: str


Event = Ready | Came | Finished | Failed | Died


class Crew(Protocol):
    """Workers that can be hired and sent units; what they do comes back as events."""

    @property
    def size(self) -> int:
        """How many workers there are to be at a time."""

    def hire(self) -> int:
        """Start another worker, and return its number, which is never used again."""

    def send(self, worker: int, unit: Unit) -> None:
        """Give a worker that is free its next unit."""

    def events(self, timeout: float) -> Iterator[Event]:
        """Yield what has happened, after so many seconds at the latest; maybe nothing."""

    def dismiss(self, worker: int) -> None:
        """Kill a worker; nothing more is heard of it."""

    def close(self) -> None:
        """Kill all workers and free what they held."""
