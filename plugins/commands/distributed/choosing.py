"""Executors that hire workers: what they have in common, and Ray.

A new one is a subclass of `Hiring`, a dataclass of its settings, that a package registers by the hook
``edit_harness_register_executors``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from edit_harness.errors import UsageError
from edit_harness.interfaces import Executor
from edit_harness.loading.loading import TF32
from edit_harness.run.evaluation import Evaluation
from edit_harness.run.loop import FailurePolicy, Turns
from edit_harness.wording import counted

from . import pool
from .crew import Crew
from .places import Settings
from .worker import Order

Surroundings = Mapping[str, Any]
"""What a worker has, as JSON: see `edit_harness_plugins.commands.distributed.worker.surroundings`."""


class Hiring(Executor):
    """Lets workers run the cases, who load the model by its name."""

    name: ClassVar[str]
    elsewhere = True

    @abstractmethod
    def reach(self) -> AbstractContextManager[int]:
        """Hold what workers need for a while, and yield how many there are to be. Raises `HarnessError`."""

    @abstractmethod
    def crew(self, order: Order) -> Crew:
        """Return workers of whom none is hired yet. Raises what `reach` raises."""

    @abstractmethod
    def survey(self) -> Sequence[Surroundings]:
        """Return what each worker has, for ``cluster-check``."""

    @contextmanager
    def ready(self) -> Generator[str]:
        """Hold what workers need, and yield where cases are run."""
        with self.reach() as workers:
            yield f"on {counted(workers, 'worker')} of {self.name}"

    def loading(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return how the driver itself loads the model, which it only identifies.

        Raises `UsageError` for a precision that a CPU has not: numbers are identified by it.
        """
        if options.get("dtype") == TF32:
            raise UsageError(
                "tf32 is a precision of this process's own device, not of workers",
                "use --dtype float32, or --executor local",
            )
        return {**options, "device": "cpu", "device_map": None}

    def turns(self, loading: Mapping[str, Any]) -> Turns:
        """Return what makes the records of runs, whose workers load the model in this way."""

        def hire(evaluations: Sequence[Evaluation], care: FailurePolicy) -> Crew:
            return self.crew(Order.of(evaluations, loading, care))

        return partial(pool.turns, hire)


@dataclass(frozen=True)
class Ray(Settings, Hiring):
    """Workers are actors of a Ray cluster, or of a Ray that is started on this machine for the run."""

    name: ClassVar[str] = "ray"

    def reach(self) -> AbstractContextManager[int]:
        """Start or join Ray."""
        from . import rays

        return rays.ready(self)

    def crew(self, order: Order) -> Crew:
        """Return actors."""
        from . import rays

        return rays.crew(order, self)

    def survey(self) -> Sequence[Surroundings]:
        """Ask an actor for each worker."""
        from . import rays

        return rays.survey(self)
