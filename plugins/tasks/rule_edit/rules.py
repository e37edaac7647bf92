"""The rules that the data set is made from, as they stand in rules.json, and whether they are right.

A rule is a property of a shape, with its formula, the same in words, and both of another rule that
an edit puts in its place. The formulas and names are those of the paper's Tables 4 and 5 but for
two that are wrong there; all words are ours, and so are the other formulas, but for two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from msgspec import Struct, convert

from edit_harness import DataError
from edit_harness_plugins.inputs import json_of, refuse, text_of

from .formulas import wrong_constraint, wrong_formula

SOURCE = Path(__file__).with_name("rules.json")


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    """One rule, before and after it is edited. Formulas are in the syntax of sympy."""

    id: str
    dim: str
    shape: str
    property: str
    subject: str
    """What prompts call it, such as "area of a square"."""
    lhs: str
    """The symbol of what is computed; "d2" is the square of d."""
    variables: dict[str, str]
    """What each symbol is called in words."""
    formula: str
    formula_new: str
    description: str
    description_new: str
    counterfactual: str = "ours"
    """Whether the edited rule is "published" or "ours"."""
    terms: str = ""
    """What tells its description from that of another rule with the same subject."""
    units: dict[str, str] = {}
    """The units that angles are given in, "degrees" or "radians"."""
    derived: dict[str, str] = {}
    """Symbols that follow from others."""
    constraints: tuple[str, ...] = ()
    ranges: dict[str, tuple[float, float, float]] = {}
    """The least and the largest value of a symbol, and the step between."""
    paper_formula: str = ""
    """What the paper prints, where that is wrong."""
    note: str = ""


class Link(Struct, frozen=True):
    """A rule that the edit of another one changes, and its formula thereafter."""

    rule: str
    formula: str
    link: str
    """Whether the paper has it ("published") or we added it ("ours")."""


class Targets(Struct, frozen=True):
    """The rules that the edit of one changes."""

    rule: str
    targets: tuple[Link, ...]


class File(Struct, frozen=True):
    """What rules.json has."""

    rules: tuple[Rule, ...]
    related: tuple[tuple[str, ...], ...]
    hierarchy: tuple[Targets, ...]


@dataclass(frozen=True)
class Source:
    """All that the data set is made from."""

    rules: Mapping[str, Rule]
    related: tuple[frozenset[str], ...]
    """Groups of rules of which the edit of one rightly changes, or may change, the others."""
    hierarchy: Mapping[str, tuple[Link, ...]]

    def touched(self, rule: Rule) -> set[str]:
        """Return the rules that cannot stand by as unrelated to a rule, itself among them."""
        found = {rule.id}
        found.update(*(group for group in self.related if rule.id in group))
        for base, links in self.hierarchy.items():
            targets = {link.rule for link in links}
            if rule.id == base:
                found |= targets
            elif rule.id in targets:
                found.add(base)
        return found


def load(path: Path) -> Source:
    """Read a file of rules. Raises `DataError` if it is not right."""
    try:
        file = convert(json_of(path, text_of(path)), File)
    except ValueError as error:
        raise DataError(
            f"{path} is no file of rules: {error}",
            "see rules.json of edit_harness_plugins.tasks.rule_edit",
        ) from None
    source = Source(
        {rule.id: rule for rule in file.rules},
        tuple(frozenset(group) for group in file.related),
        {each.rule: each.targets for each in file.hierarchy},
    )
    if len(source.rules) != len(file.rules):
        raise DataError(f"{path} has two rules with one id")
    refuse(path, list(_problems(source)), "correct them there")
    return source


def _problems(source: Source) -> Iterator[str]:
    """Say which formula cannot be read, and which rule is named and not there."""
    for rule in source.rules.values():
        formulas = (rule.formula, rule.formula_new, *rule.derived.values())
        wrong = [wrong_formula(text, rule.variables) for text in formulas]
        wrong += [wrong_constraint(text, rule.variables) for text in rule.constraints]
        yield from (f"{rule.id}: {problem}" for problem in wrong if problem)
    named = {name for group in source.related for name in group} | source.hierarchy.keys()
    targets = [link for links in source.hierarchy.values() for link in links]
    for name in sorted((named | {link.rule for link in targets}) - source.rules.keys()):
        yield f"there is no rule {name!r}"
    for link in (link for link in targets if link.rule in source.rules):
        if problem := wrong_formula(link.formula, source.rules[link.rule].variables):
            yield f"{link.rule}: {problem}"
