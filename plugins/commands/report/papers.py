"""The tables that papers print, as data; numbers of parts of a run for them, and which runs may share one."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, zip_longest
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from edit_harness import Case, stats
from edit_harness.folder.table import RunTable
from edit_harness.run.estimates import LEVEL, limits_of, measured, usable, valued
from edit_harness.run.results import Results
from edit_harness.stats import Columns, Estimate
from edit_harness_plugins.significance import TTest, paired

from .contrast import BOTH, COLUMNS, QUESTIONS
from .facts import grouped

FALLS = 0.05
"""The level at which papers count a mean as fallen."""
Value = Literal["after", "change", "falls", "pairs"]
SEESAW, RULES = "Seesaw-CF", "RULE-EDIT"
COUNTERFACT = {"counterfact": "CounterFact", "counterfactplus": "CounterFact+"}
EVERYTHING = "all"
NAMES = {
    "P101": "work", "P103": "language", "P19": "birth", "P21": "gender", "P27": "citizenship",
}  # fmt: skip
"""What Seesaw-CF calls the properties of Wikidata that it edits."""


@dataclass(frozen=True)
class Printed:
    """A table of a paper."""

    name: str
    """The paper, and the number that it gives the table."""
    shows: str
    tasks: Mapping[str, str]
    """The tasks whose runs it is of, and what the paper calls them."""
    measures: Mapping[str, str] = field(default_factory=dict)
    """The measures by the heads of their columns; of one measure the columns may be other things."""
    split: str = ""
    """What splits the rows: ``task``, or a tag of cases, or several with spaces between."""
    by: str = ""
    """The tag of cases whose values are columns."""
    groups: tuple[str, ...] = ()
    """The kinds of groups, such as ``race``, that are columns; or single ones, such as ``race=Black``."""
    over: str = ""
    """The tag of cases, or ``groups``, over which falls are counted."""
    value: Value = "after"
    """The number after the edit, over cases or over ``pairs`` of texts; its change; in how many tests it falls."""
    ranked: bool = True
    """Whether one number is better than another: a confidence that changed is not, either way."""


def named(value: str) -> str:
    """Return what a paper calls the value of a tag, such as ``birth/gender`` for ``P19_P21``."""
    text = value.partition("=")[2] or value
    return re.sub(r"(_?)(P\d+)", lambda m: "/" * len(m[1]) + NAMES.get(m[2], m[2]), text)


def _beside(number: int, name: str, shows: str, suffix: str = "") -> Printed:
    """Return a table of CounterFact+: a measure, and the same behind the edited fact."""
    measures = {"CounterFact": f"{name}{suffix}", "CounterFact+": f"{name}+{suffix}"}
    return Printed(f"CounterFact+, Table {number}", shows, COUNTERFACT, measures)


def _seesaw(number: str, shows: str, *measures: str, **more: Any) -> Printed:
    """Return a table of Seesaw-CF: of one measure its columns are other things."""
    columns = {name if measures[1:] else "": name for name in measures}
    return Printed(f"{SEESAW}, {number}", shows, {"seesaw-cf": SEESAW}, columns, **more)


def _people(numbers: str, shows: str, *groups: str, split: str = "edited") -> Printed:
    more = {"split": split, "groups": groups, "value": "change", "ranked": False}
    return _seesaw(numbers, f"D_d by edited property{shows}", "D", **more)


def _rules(number: int, tasks: Mapping[str, str], *measures: str) -> Printed:
    columns = {name: name for name in measures}
    what = " and ".join(tasks.values())
    return Printed(f"{RULES}, Table {number}", f"{what} editing", tasks, columns, split="task")


KINDS = ("race", "geo", "gender")
FLAWS = (
    "Anglo-centrism", "Sexism", "Religion", "Xenophobia", "Classism", "Racism", "Conservatism",
)  # fmt: skip
PRINTED = (
    _beside(1, "NS", "neighborhood score"),
    _beside(2, "NM", "neighborhood magnitude"),
    _beside(3, "NKL", "neighborhood KL divergence, as published", "-paper"),
    _seesaw("Table 4", "change of cross-property accuracy, edited/asked", "CP", by="set", value="change"),
    _seesaw("Table 5", "cross-property accuracy, edited/asked", "CP", by="set"),
    _seesaw(
        "Table 6", "flaws by edited property, mean over pairs of texts", *FLAWS, split="edited",
        value="pairs",
    ),
    _seesaw(
        "Table 8", "groups of people in which D falls, p < 0.05, by edited property", "D",
        by="edited", groups=KINDS, over="groups", value="falls",
    ),
    _seesaw(
        "Table 9", "edited properties for which D falls, p < 0.05, by group of people", "D",
        by="edited", groups=KINDS, over="edited", value="falls",
    ),
    _people("Tables 10 and 11", " and race", "race"),
    _people("Tables 12 and 13", " and region", "geo"),
    _people("Tables 14 and 15", " and gender", "gender"),
    _seesaw("Table 19", "flaws, mean over pairs of texts", *FLAWS, value="pairs"),
    _people(
        "Figs 3 and 4", ", continent of its new value, race and region", "race", "geo",
        split="edited continent",
    ),
    _rules(
        1, {"rule-edit": "formula", "rule-edit-description": "description"},
        "Rel", "Gen", "Loc", "IP", "RU",
    ),
    _rules(2, {"rule-edit-instance": "instance"}, "Rel", "Gen", "Loc", "IP", "RU", "RU-f", "RU-d"),
    Printed(BOTH, "teacher forcing and generated answers on the same edits", QUESTIONS, COLUMNS),
    _rules(3, {"rule-edit-hierarchy": "hierarchical"}, "Rel", "HG"),
)  # fmt: skip


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
        return sorted({tagged(case, tag) for case in self.run.cases} - {""})

    def groups(self, measure: str, kind: str) -> list[str]:
        """Return the groups of a kind that a measure has values of, such as ``race=Black``; or a single one."""
        own = f"post_{measure} {kind}"
        found = (n for n in self._values(measure)[1] if n == own or n.startswith(f"{own}="))
        return sorted(name.partition(" ")[2] for name in found)

    def estimate(self, when: str, measure: str, part: Part = WHOLE) -> Estimate | None:
        """Return the estimate ``before`` or ``after`` the edit, after it over ``pairs``, or of the ``change``."""
        if when == "change":
            before, after = self._both(measure, part)
            return self._mean(f"post_{measure}", measure, {"": after - before}, change=True)
        if when == "pairs":
            both = {n: self._column(f"{n} {measure}", measure, part) for n in ("sum", "pairs")}
            return self._mean(f"post_{measure}", measure, both)
        name = f"{'pre' if when == 'before' else 'post'}_{measure}"
        if part == WHOLE:
            found = self.run.estimates.get(name)
            return found if found and not np.isnan(found.value) else None
        return self._mean(name, measure, {"": self._column(name, measure, part)})

    def test(self, measure: str, part: Part = WHOLE) -> TTest:
        """Return the paired t-test of the change over cases."""
        return paired(*self._both(measure, part))

    def falls(self, measure: str, parts: Sequence[Part]) -> Estimate:
        """Return in how many parts a mean falls by its test, uncorrected; ``n`` were tested.

        The interval is ours: of other cases each test would find a fall with the chance that its t
        tells, as if none shared a case with another.
        """
        tests = [self.test(measure, part) for part in parts]
        tested = [(t.t, t.p) for t in tests if t.p is not None and t.t is not None]
        fallen = sum(p < FALLS and t < 0 for t, p in tested)
        edge = NormalDist().inv_cdf(FALLS / 2)
        chances = [NormalDist(t, math.sqrt(2)).cdf(edge) for t, _ in tested]
        half = NormalDist().inv_cdf((1 + LEVEL) / 2) * math.sqrt(sum(c * (1 - c) for c in chances))
        n = len(tested)
        return Estimate(fallen, max(fallen - half, 0), min(fallen + half, n), n)

    def _both(self, measure: str, part: Part) -> list[np.ndarray]:
        return [self._column(f"{when}_{measure}", measure, part) for when in ("pre", "post")]

    def _column(self, name: str, measure: str, part: Part) -> np.ndarray:
        rows, columns = self._values(measure)
        values = columns.get(f"{name} {part.group}".strip(), np.full(len(rows), np.nan))
        if not part.tag:
            return values
        belongs = [tagged(self.run.by_id[case], part.tag) == part.value for case in rows.cases]
        return np.where(belongs, values, np.nan)

    def _values(self, measure: str) -> tuple[RunTable, Columns]:
        """Return the records that a measure's metric has values of, and these as columns."""
        name = next((n for n, m in self.run.metrics.items() if measure in m.measures), "")
        if name not in self._known:
            rows = valued(self.run.records, name)
            self._known[name] = rows, measured(rows, name)
        return self._known[name]

    def _mean(
        self, name: str, measure: str, columns: Columns, *, change: bool = False
    ) -> Estimate | None:
        """Return the estimate of the mean of a column, or of the sum of one by that of another."""

        def summary(drawn: Columns) -> dict[str, float]:
            means = list(stats.column_means(drawn).values())
            return {name: means[0] / means[1] if means[1:] else means[0]}

        present = ~np.isnan(sum(columns.values()))
        if not present.any():
            return None
        states = self._values(measure)[0].states[present]
        shared = self.run.regime.mode == "batch" and len(set(states.tolist())) > 1
        found = self.run.estimator.intervals(
            {each or name: values[present] for each, values in columns.items()},
            summary,
            limits_of(self.run.measures, change=change),
            states if shared and not name.startswith("pre_") else None,
        )
        return found[name]


def tagged(case: Case, tags: str) -> str:
    """Return the values of a case's tags, which are named with spaces between; nothing if one is missing."""
    values = [case.tags.get(tag, "") for tag in tags.split()]
    return ", ".join(values) if all(values) else ""


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


def sheets(table: Printed, every: Sequence[Subsets]) -> Iterator[list[Subsets]]:
    """Yield the runs of a table's tasks in the groups that may share one: of one precision, regime, data.

    What edited nothing stands in every regime, since there was no edit that could be shared. Where
    tasks are rows, the first data of each stand together, then the second.
    """
    of_tasks = [each for each in every if each.task in table.tasks]
    for some in grouped(of_tasks, lambda each: each.run.manifest.identity.model.dtype):
        edited = [each for each in some if not each.unedited]
        for regime in dict.fromkeys(str(each.run.regime) for each in edited or some):
            here = [e for e in some if e.unedited or str(e.run.regime) == regime]
            by_data = grouped(here, lambda each: each.run.manifest.identity.task)
            if table.split == "task":
                tasks = grouped(by_data, lambda part: part[0].task)
                by_data = [list(chain(*parts)) for parts in zip_longest(*tasks, fillvalue=[])]
            yield from by_data
