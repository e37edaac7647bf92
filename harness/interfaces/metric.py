"""The interface of metrics, which turn answers into numbers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..data import Answer, Case

if TYPE_CHECKING:
    import numpy as np


RANGES: Mapping[str, tuple[float, float]] = {
    "%": (0.0, 1.0),
    "nats": (0.0, math.inf),
    "0.01 bits": (0.0, math.inf),
    "": (-math.inf, math.inf),
}
"""The least and the greatest stored value, by unit: shares, divergences, entropies."""


@dataclass(frozen=True)
class Measure:
    """How one number of a metric is shown, and what it means."""

    formula: str
    better: Literal["higher", "lower", ""] = "higher"
    unit: Literal["%", "nats", "0.01 bits", ""] = "%"
    """Of "%" and "0.01 bits", tables show the stored value times 100."""
    detail: bool = False
    """Whether tables show it only with ``--verbose``."""
    range: tuple[float, float] | None = None
    """The least and the greatest value that can be stored, if not those of `RANGES`."""
    source: str = ""
    """The paper and its equation, and where the published code differs."""
    probes: tuple[str, ...] = ()
    """The roles of the probes whose answers it uses."""
    known: bool = False
    """Whether its value before the edit is the share of true answers of the unedited model."""

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the greatest value that can be stored."""
        return self.range or RANGES[self.unit]


class Metric(ABC):
    """Numbers for one case, ``pre_X`` before the edit and ``post_X`` after it, and their summary."""

    citation: ClassVar[str] = ""
    measures: ClassVar[Mapping[str, Measure]] = {}
    """The numbers of `summarize` by their name without ``pre_`` and ``post_``."""

    @abstractmethod
    def measure(
        self, case: Case, before: Sequence[Answer], after: Sequence[Answer]
    ) -> Mapping[str, float]:
        """Return named values, or {}; the answers are in the order of ``case.probes``."""

    def provenance(self, cases: Sequence[Case]) -> Mapping[str, str]:
        """Digests of what its numbers depend on besides answers, such as texts in the cache."""
        return {}

    def failed(self, case: Case, before: Sequence[Answer]) -> Mapping[str, float]:
        """Return the values of a case whose edit failed, by default none; ``before`` may be empty."""
        return {}

    def summarize(self, columns: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Combine the values of all cases, NaN where a case has none; the harness makes the intervals."""
        from ..stats import column_means

        return column_means(columns)

    def tables(
        self, cases: Sequence[Case], columns: Mapping[str, np.ndarray]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Return further tables by title, such as of groups of cases; by default none.

        A column has an item for every case, NaN for no value. A row names its cells: texts, None or
        numbers, in the stored unit unless the name says otherwise. The first table is always shown.
        """
        return {}
