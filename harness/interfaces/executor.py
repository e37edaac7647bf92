"""The interface of executors, which run the cases, and where a model comes from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from ..run.loop import Turns


class Executor(ABC):
    """Runs the cases; its settings are its dataclass fields."""

    elsewhere: ClassVar[bool] = False
    """Whether other processes load the model, by its name; this one then only identifies it."""

    @contextmanager
    def ready(self) -> Iterator[str]:
        """Hold what the block needs, and yield where cases run, empty for this process."""
        yield ""

    def loading(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return how this process loads the model. Raises `UsageError` for what workers cannot do."""
        return dict(options)

    @abstractmethod
    def turns(self, loading: Mapping[str, Any]) -> Turns:
        """Return what makes the records; ``loading`` has arguments of `edit_harness_plugins.loading.load`."""


@dataclass(frozen=True)
class ModelSource:
    """Where a model comes from, and what comes along with it."""

    path: str
    """A folder in the layout of transformers, or a name on the hub."""
    family: str = ""
    """Key of presets; empty to recognise it by shape."""
    note: str = ""
    """What readers of the model's numbers must know."""
    data: Mapping[str, str] = field(default_factory=dict)
    """Files for tasks and editors, by the name that these look for."""
    moments: str = ""
    """A folder with covariances of keys."""
    baselines: str = ""
    """A folder with its published answers before any edit: see `edit_harness_plugins.commands.leaderboard.baseline`."""
    name: str = ""
    """What ``--model`` calls it, once it has been found."""
