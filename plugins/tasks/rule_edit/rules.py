"""The rules that the data set is made from, as they stand in rules.json.

A rule is a property of a shape, with its formula, the same in words, and both of another rule that
an edit puts in its place. The formulas and names are those of the paper's Tables 4 and 5 but for
two that are wrong there; all words are ours, and so are the other formulas, but for two.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from msgspec import Struct, convert

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


def load() -> Source:
    """Read the rules."""
    file = json.loads(SOURCE.read_bytes())
    return Source(
        {each["id"]: convert(each, Rule) for each in file["rules"]},
        tuple(map(frozenset, file["related"])),
        {each["rule"]: convert(each["targets"], tuple[Link, ...]) for each in file["hierarchy"]},
    )
