"""What metrics share: how they read the answers before an edit and after it, and what verdicts say."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import TypeVar

from edit_harness import Answer, Case, Metric, Text, Verdict

K = TypeVar("K")
V = TypeVar("V")


class Sides(Metric):
    """A metric that reads the answers before an edit as it reads those after it."""

    @abstractmethod
    def read(self, case: Case, answers: Sequence[Answer]) -> Mapping[str, float]:
        """Return the values of a case's answers, by name without ``pre_`` and ``post_``."""

    def wrong(self, case: Case) -> Mapping[str, float]:
        """Return what a failed edit counts after it, by name without ``post_``."""
        return {}

    def measure(
        self, case: Case, before: Sequence[Answer], after: Sequence[Answer]
    ) -> dict[str, float]:
        """Return the values before the edit and after it."""
        return _named("pre", self.read(case, before)) | _named("post", self.read(case, after))

    def failed(self, case: Case, before: Sequence[Answer]) -> dict[str, float]:
        """Return what was before the edit, and what its failure counts."""
        values = self.read(case, before) if before else {}
        return _named("pre", values) | _named("post", self.wrong(case))


def _named(when: str, values: Mapping[str, float]) -> dict[str, float]:
    return {f"{when}_{name}": value for name, value in values.items()}


def grouped(found: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return the values of each name, in the order in which the names come."""
    groups: dict[K, list[V]] = {}
    for name, value in found:
        groups.setdefault(name, []).append(value)
    return groups


def means(found: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the mean of the values of each name, in the order in which the names come."""
    return {name: fmean(values) for name, values in grouped(found).items()}


def counted(answer: Answer) -> Verdict | None:
    """Return the verdict on a text; None if there is none, none yet, or none that can be read."""
    verdict = answer.verdict if isinstance(answer, Text) else None
    return verdict if verdict and verdict.counts else None


def some(found: Iterable[bool | None]) -> bool | None:
    """Tell whether one is true; None if that hangs on what is not known."""
    values = list(found)
    return True if True in values else None if None in values else False


def every(found: Iterable[bool | None]) -> bool | None:
    """Tell whether all are true; None if that hangs on what is not known."""
    values = list(found)
    return False if False in values else None if None in values else True
