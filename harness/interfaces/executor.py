"""An executor: runs to records; and where a model comes from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from ..run.loop import Turns


class Executor(ABC):
    """Who runs the cases; its settings are its dataclass fields."""

    elsewhere: ClassVar[bool] = False
    """Whether the model is loaded by others, by its name; this process then only identifies it."""

    @contextmanager
    def ready(self) -> Iterator[str]:
        """Hold what is needed while a block lasts, and yield where cases are run if it is not here.

        Raises `HarnessError` if that is not there.
        """
        yield ""

    def loading(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return how this process loads the model. Raises `UsageError` for what others cannot do."""
        return dict(options)

    @abstractmethod
    def turns(self, loading: Mapping[str, Any]) -> Turns:
        """Return what makes the records of runs; ``loading`` says how their model is loaded.

        It has what a `RunSpec` has not: arguments of `edit_harness.loading.load.load` that change no number.
        """


@dataclass(frozen=True)
class ModelSource:
    """Where a model comes from, and what comes along with it."""

    path: str
    """A folder in the layout of transformers, or a name on the hub."""
    family: str = ""
    """Overrides the recognition by shape."""
    note: str = ""
    """What a reader of the model's numbers must know."""
    data: Mapping[str, str] = field(default_factory=dict)
    """Files for tasks, by the name that a task's `bind` looks for."""
    moments: str = ""
    """A folder with second-moment statistics."""
    baselines: str = ""
    """A folder with what it answers to tasks before any edit: see `edit_harness_plugins.commands.leaderboard.baseline`."""
