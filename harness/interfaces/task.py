"""The interface of tasks, which turn data into cases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ..data import Case
from .regime import Regime

if TYPE_CHECKING:
    from .editor import Making
    from .executor import ModelSource


class Task(ABC):
    """A benchmark: a stream of cases, and the metrics that belong to it."""

    version: ClassVar[str] = "0"
    metrics: ClassVar[Sequence[str]] = ()
    citation: ClassVar[str] = ""
    variant: str = ""
    """What its name ends with in tables, such as ``[wild]``."""
    asks: ClassVar[str] = ""
    """Which prompts are asked, and how continuations are joined, scored or sampled."""
    regime: ClassVar[Regime] = Regime()
    """How edits share the model by default."""
    judge: ClassVar[str] = ""
    """The default judge of its texts; empty if it has none to judge."""

    @abstractmethod
    def cases(self) -> Iterable[Case]:
        """Yield all cases, in a fixed order. Raises `DataError` for data that cannot be read.

        A record that cannot be used is a case without requests and with a ``problem``.
        """

    def bind(self, source: ModelSource) -> Self:
        """Return the task for a model, such as with the sample that the model brings along."""
        return self

    @property
    def origin(self) -> str:
        """Which data the cases come from, in a few words."""
        return ""

    def make(self, making: Making) -> bool:
        """Make and store what `cases` reads besides the data, for ``prepare``; return False for nothing."""
        return False

    @classmethod
    def dataset(cls) -> Mapping[str, str]:
        """Return what is known of the data without reading them: records, address, size, checksum."""
        return {}

    def composition(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Return tables that describe the data, by title; without any, requests and prompts are counted."""
        return {}
