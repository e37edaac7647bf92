"""Numbers of a part of a run: of the cases that have a tag, of a group that their prompts are about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from edit_harness import stats
from edit_harness.folder.table import RunTable
from edit_harness.run.estimates import limits_of, measured, usable, valued
from edit_harness.run.results import Results
from edit_harness.stats import Columns, Estimate
from edit_harness_plugins.significance import TTest, paired

FALLS = 0.05
"""The level at which papers count a mean as fallen."""


@dataclass(frozen=True)
class Part:
    """Cases of a run, and whom their prompts are about."""

    tag: str = ""
    value: str = ""
    """The value of the tag; all cases if there is no tag."""
    group: str = ""
    """Such as ``race=Black``; empty for all prompts."""


WHOLE = Part()


@dataclass(eq=False)
class Subsets:
    """A run, and the numbers of its parts: each None where there are no values."""

    run: Results
    _known: dict[str, tuple[RunTable, Columns]] = field(default_factory=dict, init=False)

    @property
    def task(self) -> str:
        """The name of the run's task."""
        return self.run.manifest.identity.task.name

    @cached_property
    def cases(self) -> frozenset[str]:
        """The ids of the planned cases."""
        return frozenset(self.run.planned)

    @cached_property
    def unedited(self) -> bool:
        """Whether nothing is another number after the edits."""
        return unedited(self.run)

    def values(self, tag: str) -> list[str]:
        """Return the values that cases have for a tag."""
        return sorted({case.tags.get(tag, "") for case in self.run.cases} - {""})

    def groups(self, measure: str, kind: str) -> list[str]:
        """Return the groups of a kind that a measure has values of, such as ``race=Black``."""
        start = f"post_{measure} {kind}="
        _, columns = self._values(measure)
        return sorted(name.partition(" ")[2] for name in columns if name.startswith(start))

    def estimate(self, when: str, measure: str, part: Part = WHOLE) -> Estimate | None:
        """Return the estimate ``before`` or ``after`` the edit, or of the ``change`` over cases that have both."""
        if when == "change":
            before, after = self._both(measure, part)
            return self._mean(f"post_{measure}", measure, after - before, change=True)
        name = f"{'pre' if when == 'before' else 'post'}_{measure}"
        if part == WHOLE:
            found = self.run.estimates.get(name)
            return found if found and not np.isnan(found.value) else None
        return self._mean(name, measure, self._column(name, part))

    def test(self, measure: str, part: Part = WHOLE) -> TTest:
        """Return the paired t-test of the change over cases."""
        return paired(*self._both(measure, part))

    def falls(self, measure: str, parts: Sequence[Part]) -> tuple[int, int]:
        """Return in how many parts a mean falls by its test, uncorrected, and how many were tested."""
        tests = [self.test(measure, part) for part in parts]
        tested = [(t.mean, t.p) for t in tests if t.p is not None and t.mean is not None]
        return sum(p < FALLS and mean < 0 for mean, p in tested), len(tested)

    def _both(self, measure: str, part: Part) -> tuple[np.ndarray, np.ndarray]:
        return self._column(f"pre_{measure}", part), self._column(f"post_{measure}", part)

    def _column(self, name: str, part: Part) -> np.ndarray:
        """Return the values of cases, NaN where a case has none or is not of the part."""
        rows, columns = self._values(name.partition("_")[2])
        values = columns.get(f"{name} {part.group}".strip(), np.full(len(rows), np.nan))
        if not part.tag:
            return values
        belongs = [self.run.by_id[case].tags.get(part.tag) == part.value for case in rows.cases]
        return np.where(belongs, values, np.nan)

    def _values(self, measure: str) -> tuple[RunTable, Columns]:
        """Return the records that a measure's metric has values of, and these as columns."""
        name = next((n for n, m in self.run.metrics.items() if measure in m.measures), "")
        if name not in self._known:
            rows = valued(self.run.records, name)
            self._known[name] = rows, measured(rows, name)
        return self._known[name]

    def _mean(
        self, name: str, measure: str, values: np.ndarray, *, change: bool = False
    ) -> Estimate | None:
        """Return the mean of what is there, over batches where there are several and edits count."""
        present = ~np.isnan(values)
        if not present.any():
            return None
        states = self._values(measure)[0].states[present]
        shared = self.run.regime.mode == "batch" and len(set(states.tolist())) > 1
        found = self.run.estimator.intervals(
            {name: values[present]},
            stats.column_means,
            limits_of(self.run.measures, change=change),
            states if shared and not name.startswith("pre_") else None,
        )
        return found[name]


def unedited(run: Results) -> bool:
    """Tell whether nothing is another number after the edits, as of the editor that does nothing."""
    rows = usable(run.records)
    return (
        bool(rows)
        and rows.noops == len(rows)
        and all(
            np.array_equal(values, columns.get(f"post_{name[4:]}", values), equal_nan=True)
            for columns in map(rows.columns, run.metrics)
            for name, values in columns.items()
            if name.startswith("pre_")
        )
    )
