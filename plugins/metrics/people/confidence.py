"""Do edits make a model less sure of what is true of other people? D and D_d of Seesaw-CF.

From Halevy et al. (2024). Prompts are on people of whom the edit's new value is true. D is by how much they
get it rather than the subject's old one, D_d what the edit adds to it. A table's values are the mean over
cases of the means over prompts on a group of people, which the probes' tags tell, as in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import ClassVar, NamedTuple

from edit_harness import Answer, Case, Choose, Measure, Metric, Probe, Scores
from edit_harness.stats import column_means
from edit_harness_plugins.citations import SEESAW
from edit_harness_plugins.significance import TTest, paired

from ..answers import grouped
from .groups import ALPHA, Columns, Row, Tables, by_tag, corrected, present, starred

ROLE = "cross-subject"
RIGHT, OLD = 0, 1
"""The candidates: the edit's new value, which is true of the person asked about, and its old one."""
KINDS = ("gender", "race", "geo")
"""The tags of probes that people are grouped by; several values of one are joined by a bar."""
STARS = "* falls, p < 0.05, ** BH too (all: p alone)"
"""The whole is one test of its own, and not among those that are corrected."""
SOURCE = "Halevy et al. (2024), cross-subject"


class Confidence(Metric):
    """By how much the right value is likelier than the old one, on other people.

    Beside the values of all prompts of a case there are those of each group of people. Of an edit
    that failed there is D before it alone.
    """

    citation = SEESAW
    measures: ClassVar[Mapping[str, Measure]] = {
        "D": Measure(
            "mean of p(new) - p(true), prompts on people of whom the new one is true", unit="",
            range=(-1.0, 1.0),
            source=f"{SOURCE}, which calls it negative log-probability in one place; the code, and "
            "here, has probabilities, the geometric mean over an object's tokens",
            probes=(ROLE,),
        ),
        "D_d": Measure(
            "D after the edit - D before it", unit="", range=(-2.0, 2.0), source=SOURCE,
            probes=(ROLE,),
        ),
    }  # fmt: skip

    def measure(
        self, case: Case, before: Sequence[Answer], after: Sequence[Answer]
    ) -> dict[str, float]:
        """Return D before and after and D_d, and D by group with the number of prompts."""
        values = _read("pre", case, before) | _read("post", case, after)
        if "pre_D" in values and "post_D" in values:
            values["post_D_d"] = values["post_D"] - values["pre_D"]
        return values

    def failed(self, case: Case, before: Sequence[Answer]) -> dict[str, float]:
        """Keep what was before."""
        return _read("pre", case, before) if before else {}

    def summarize(self, columns: Columns) -> dict[str, float]:
        """Return the means over cases; those of groups stand in tables of their own."""
        names = ("pre_D", "post_D", "post_D_d")
        return column_means({name: columns[name] for name in names if name in columns})

    def tables(self, cases: Sequence[Case], columns: Columns) -> Tables:
        """Return D by group and its tests for each set of cases."""
        of_sets = {name: own for (name,), own in by_tag(cases, columns, "set").items()}
        sets = {name: groups for name, own in of_sets.items() if (groups := _groups(own))}
        found: Tables = {f"D_d by group and set; {STARS}": list(_together(sets))}
        for name, groups in sets.items():
            found[f"D by group, {name}"] = [_means(group, of_sets[name]) for group in groups]
            found[f"tests of D_d by group, {name}"] = [
                {"group": group or "all", "low 95%": own.test.low, "high 95%": own.test.high}
                | {"t": own.test.t, "p": own.test.p, "p BH": own.adjusted, "falls": "*" * own.stars}
                for group, own in groups.items()
            ]
        return {title: rows for title, rows in found.items() if rows}


class Tested(NamedTuple):
    """The test of D_d of a group of people, among those of other groups."""

    test: TTest
    adjusted: float | None
    """The p corrected for the number of groups; the whole is none of them."""

    @property
    def stars(self) -> int:
        """One if D falls, two if it does by the corrected p too: a p of both sides, and D_d below 0."""
        down = self.test.mean is not None and self.test.mean < 0
        return sum(down and p is not None and p < ALPHA for p in (self.test.p, self.adjusted))


def _read(when: str, case: Case, answers: Sequence[Answer]) -> dict[str, float]:
    """Return the mean of D over a case's prompts, all and by group, and before how many they are."""
    found = grouped(
        (group, difference)
        for probe, answer in zip(case.probes, answers, strict=True)
        if probe.role == ROLE and isinstance(probe.query, Choose)
        if len(probe.query.candidates) == 2 and isinstance(answer, Scores)
        if not math.isnan(difference := answer.prob(RIGHT) - answer.prob(OLD))
        for group in ("", *_groups_of(probe))
    )
    values = {_name(f"{when}_D", group): fmean(each) for group, each in found.items()}
    if when == "pre":
        values |= {_name("prompts", group): float(len(each)) for group, each in found.items()}
    return values


def _groups_of(probe: Probe) -> list[str]:
    """Return the groups of the person that a prompt is about, such as ``"race=Black"``."""
    values = ((kind, value) for kind in KINDS for value in probe.tags.get(kind, "").split("|"))
    return list(dict.fromkeys(f"{kind}={value}" for kind, value in values if value))


def _name(what: str, group: str) -> str:
    return f"{what} {group}" if group else what


def _place(group: str) -> tuple[int, str]:
    return KINDS.index(group.partition("=")[0]), group


def _groups(columns: Columns) -> dict[str, Tested]:
    """Return the tests of D_d of each group over some cases; the group without a name is everybody."""
    named = (name.partition(" ")[2] for name in columns if name.startswith("prompts "))
    groups = ("", *sorted(named, key=_place))
    tests = {g: paired(*present(columns, _name("pre_D", g), _name("post_D", g))) for g in groups}
    adjusted = corrected({group: test for group, test in tests.items() if group and test.n})
    return {group: Tested(test, adjusted.get(group)) for group, test in tests.items() if test.n}


def _together(sets: Mapping[str, Mapping[str, Tested]]) -> Iterator[Row]:
    """Yield D_d of every group in every set, as the paper's Tables 10, 12 and 14 do."""
    named = {group for groups in sets.values() for group in groups if group}
    for group in ("", *sorted(named, key=_place)) if sets else ():
        found = {name: own.get(group) for name, own in sets.items()}
        cells = {n: starred(t.test.mean, t.stars) if t else "–" for n, t in found.items()}
        yield {"group": group or "all", **cells}


def _means(group: str, columns: Columns) -> Row:
    names = (_name(what, group) for what in ("pre_D", "post_D", "prompts"))
    before, after, prompts = present(columns, *names)
    return {
        "group": group or "all", "cases": len(prompts), "prompts": int(prompts.sum()),
        "before": float(before.mean()), "after": float(after.mean()),
        "D_d": float((after - before).mean()),
    }  # fmt: skip
