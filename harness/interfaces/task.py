"""A task: data to cases."""

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
    protocol: ClassVar[str] = ""
    """Which prompts are asked, and how what follows them is joined, scored or sampled."""
    regime: ClassVar[Regime] = Regime()
    """How its cases are edited if the user does not say."""
    judge: ClassVar[str] = ""
    """The judge of its texts if the user does not name one; empty if it has no texts to judge."""

    @abstractmethod
    def cases(self) -> Iterable[Case]:
        """Yield the cases, in a fixed order. Raises `DataError` for data that are not right.

        A run reads all, whatever its limit, since their digest identifies it. A record of no use is a case
        without requests that has a ``problem``.
        """

    def bind(self, source: ModelSource) -> Self:
        """Return the task as it is put to this model, such as with the sample that it brings."""
        return self

    @property
    def origin(self) -> str:
        """Say in a few words which data the cases come from."""
        return ""

    def make(self, making: Making) -> bool:
        """Make what `cases` reads besides the data, such as a file of tags, and store it.

        The command ``prepare`` calls it. Return whether there is anything of the kind.
        """
        return False

    @classmethod
    def dataset(cls) -> Mapping[str, str]:
        """Say what is known of the data without reading them: records, address, size, checksum."""
        return {}

    def composition(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Return tables that say what the data are made of, by title; rows are of named cells.

        If there are none, requests, subjects and prompts are counted. Raises `DataError` as `cases` does.
        """
        return {}
