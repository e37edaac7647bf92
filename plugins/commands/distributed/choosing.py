"""Who runs the cases: an executor by its name, with its settings.

A new one is a module with ``Settings``, a dataclass, ``ready(settings)``, which holds what workers need while a
block lasts and yields how many there are to be, and ``crew(order, settings)``, which returns a
`edit_harness_plugins.commands.distributed.crew.Crew`; here it gets a name.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

from edit_harness.errors import UsageError
from edit_harness.loading.loading import TF32
from edit_harness.registry import fields
from edit_harness.registry.plugins import suggestion
from edit_harness.run import beside
from edit_harness.run.beside import Care
from edit_harness.run.evaluation import Evaluation, Turns
from edit_harness.wording import counted

from . import pool
from .crew import Crew
from .worker import Order

EXECUTORS = {"local": "", "ray": "edit_harness_plugins.commands.distributed.rays"}
"""The module of each executor; that which has none is this process."""
Ordering = Callable[[Sequence[Evaluation]], Order]
"""Returns what workers assemble some evaluations from."""


@dataclass(frozen=True)
class NoSettings:
    """What there is to set of this process."""


@dataclass(frozen=True)
class Executor:
    """Who runs the cases."""

    settings: Any
    crew: Callable[[Order, Any], Crew] | None = None
    """Makes the workers; None if there are none but this process."""
    reach: Callable[[Any], AbstractContextManager[int]] | None = None
    """Holds what workers need, and yields how many there are to be."""
    name: str = ""
    where: str = ""
    """Where cases are run, for readers, if it is not here; known when it is ready."""

    @contextmanager
    def ready(self) -> Generator[Executor]:
        """Yield it with all that workers need while a block lasts. Raises `HarnessError` if it is not there."""
        if self.reach is None:
            yield self
            return
        with self.reach(self.settings) as workers:
            yield replace(self, where=f"on {counted(workers, 'worker')} of {self.name}")

    def loading(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return how the driver itself loads the model, which it only identifies where others run it.

        Raises `UsageError` for a precision that a CPU has not: numbers are identified by it.
        """
        if self.crew is None:
            return dict(options)
        if options.get("dtype") == TF32:
            raise UsageError(
                "tf32 is a precision of this process's own device, not of workers",
                "use --dtype float32, or --executor local",
            )
        return {**options, "device": "cpu", "device_map": None}

    def turns(self, ordering: Ordering) -> Turns:
        """Return what makes the records of evaluations."""
        if self.crew is None:
            return beside.turns
        return partial(pool.turns, partial(self._hire, self.crew, ordering))

    def _hire(
        self,
        crew: Callable[[Order, Any], Crew],
        ordering: Ordering,
        evaluations: Sequence[Evaluation],
        care: Care,
    ) -> Crew:
        order = replace(
            ordering(evaluations),
            case_timeout=care.case_timeout,
            reload=care.reload is not None,
            selfcheck=care.selfcheck,
        )
        return crew(order, self.settings)


def chosen(name: str, settings: Mapping[str, Any]) -> Executor:
    """Return the executor of a name. Raises `UsageError` for one that there is not, or its settings."""
    if name not in EXECUTORS:
        raise UsageError(
            f"there is no executor {name!r}{suggestion(name, list(EXECUTORS))}",
            f"choose from {', '.join(EXECUTORS)}",
        )
    what = f"executor {name}"
    if not EXECUTORS[name]:
        return Executor(fields.build(NoSettings, settings, what))
    module = import_module(EXECUTORS[name])
    told = fields.build(module.Settings, settings, what)
    return Executor(told, module.crew, module.ready, name)
