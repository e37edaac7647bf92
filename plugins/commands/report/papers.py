"""The tables that papers print, as data; and which runs may share one. Models and editors are always rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Literal

from .facts import grouped
from .subsets import Subsets

Value = Literal["after", "change", "falls"]
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
    """What splits the rows: ``task``, or a tag of cases."""
    by: str = ""
    """The tag of cases whose values are columns."""
    groups: tuple[str, ...] = ()
    """The kinds of groups, such as ``race``, that are columns."""
    over: str = ""
    """The tag of cases, or ``groups``, over which falls are counted."""
    value: Value = "after"
    """The number itself, its change by the edit, or in how many of the tests it falls."""
    ranked: bool = True
    """Whether one number is better than another: a confidence that changed is not, either way."""
    unedited: bool = True
    """Whether a table of numbers after the edit has a row of the unedited model."""


def named(value: str) -> str:
    """Return what a paper calls the value of a tag, such as ``birth/gender`` for ``P19_P21``."""
    text = value.partition("=")[2] or value
    return "/".join(NAMES.get(part, part) for part in text.split("_")) if text[:1] == "P" else text


def _beside(number: int, name: str, shows: str, suffix: str = "") -> Printed:
    """Return a table of CounterFact+: a measure, and the same behind the edited fact."""
    measures = {"CounterFact": f"{name}{suffix}", "CounterFact+": f"{name}+{suffix}"}
    return Printed(f"CounterFact+, Table {number}", shows, COUNTERFACT, measures)


def _people(numbers: str, kind: str, shows: str) -> Printed:
    """Return a table of Seesaw-CF by groups of people."""
    return Printed(
        f"{SEESAW}, Tables {numbers}", f"D_d by edited property and {shows}", {"seesaw-cf": SEESAW},
        {"": "D"}, split="edited", groups=(kind,), value="change", ranked=False,
    )  # fmt: skip


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
    Printed(
        f"{SEESAW}, Table 4", "change of cross-property accuracy, edited/asked",
        {"seesaw-cf": SEESAW}, {"": "CP"}, by="set", value="change",
    ),
    Printed(
        f"{SEESAW}, Table 5", "cross-property accuracy, edited/asked",
        {"seesaw-cf": SEESAW}, {"": "CP"}, by="set",
    ),
    Printed(
        f"{SEESAW}, Table 6", "flaws by edited property, mean over cases",
        {"seesaw-cf": SEESAW}, {flaw: flaw for flaw in FLAWS}, split="edited", unedited=False,
    ),
    Printed(
        f"{SEESAW}, Table 8", "groups of people in which D falls, p < 0.05, by edited property",
        {"seesaw-cf": SEESAW}, {"": "D"}, by="edited", groups=KINDS, over="groups", value="falls",
    ),
    Printed(
        f"{SEESAW}, Table 9", "edited properties for which D falls, p < 0.05, by group of people",
        {"seesaw-cf": SEESAW}, {"": "D"}, by="edited", groups=KINDS, over="edited", value="falls",
    ),
    _people("10 and 11", "race", "race"),
    _people("12 and 13", "geo", "region"),
    _people("14 and 15", "gender", "gender"),
    _rules(
        1, {"rule-edit": "formula", "rule-edit-description": "description"},
        "Rel", "Gen", "Loc", "IP", "RU",
    ),
    _rules(2, {"rule-edit-instance": "instance"}, "Rel", "Gen", "Loc", "IP", "RU", "RU-f", "RU-d"),
    _rules(3, {"rule-edit-hierarchy": "hierarchical"}, "Rel", "HG"),
)  # fmt: skip


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
