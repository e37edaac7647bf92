"""The rules that the data set is made from, and numbers for their instances.

Formulas and names are those of the paper's Tables 4 and 5 but for two that are wrong there; all words are ours,
and so are the edited formulas, but for two. Numbers are drawn by a seed, so that the old and the new rule can
be told apart and no two values of an instance are alike. Answers are kept as exact expressions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import sympy
from msgspec import Struct, convert

from edit_harness import DataError

SOURCE = Path(__file__).with_name("rules.json")
RANGE = (2, 20, 1)
DECIMALS = 3
"""Digits behind the point that a rational answer has at most."""
APART = 0.05
"""Relative distance that the old and the new answer have to exceed."""
LEAST = 1
"""Below it the two digits of a rounded answer would not be exact to half a percent."""
SPECIAL = (45, 90)
"""Angles in degrees that are not drawn: their sine and cosine are alike, or one of them is 0."""
ATTEMPTS = 100_000

Values = dict[str, float]


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    """One rule, before and after it is edited. Formulas are in the syntax of sympy."""

    id: str
    dim: str
    shape: str
    property: str
    subject: str
    """What the wording "named" calls it, such as "area of a square"; the figure stands at its end."""
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
    asked: str = ""
    """What the wording "paper" asks of the figure, where that is not how the subject begins."""
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
    wordings: Mapping[str, Mapping[str, Sequence[str]]]
    """What each wording asks by form: the prompt, and then its rephrasings."""

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
        file["wordings"],
    )


@dataclass(frozen=True)
class Drawn:
    """The numbers of an instance: values, and the exact answers by the old and the new rule."""

    values: Values
    true: sympy.Expr
    new: sympy.Expr


def expression(text: str, symbols: Sequence[str]) -> Any:
    """Return a formula, or a comparison, as sympy's, which runs what it parses: only our own."""
    return sympy.sympify(text, locals={name: sympy.Symbol(name) for name in symbols})


def draw(rule: Rule, new: str, count: int, rng: Random) -> list[Drawn]:
    """Return so many instances under the formula ``new``, no two with the same answer.

    An answer that was written for one instance must not do for another. Raises `DataError` if there
    are not enough.
    """
    found: dict[sympy.Expr, Drawn] = {}
    for drawn in _instances(rule, new, rng):
        found.setdefault(drawn.new, drawn)
        if len(found) == count:
            return list(found.values())
    raise DataError(
        f"{rule.id}: {ATTEMPTS:,} draws gave {len(found)} of {count} instances",
        "widen its ranges, or ease its constraints",
    )


def shown(answer: sympy.Expr) -> str:
    """Return an answer as a number in a text: exact, or with two digits behind the point."""
    return str(_number(answer)) if answer.is_rational else f"{float(answer.evalf(30)):.2f}"


def _instances(rule: Rule, new: str, rng: Random) -> Iterator[Drawn]:
    true, other, derived, constraints = _read(rule, new)
    for _ in range(ATTEMPTS):
        values = {s: _pick(rule, s, rng) for s in rule.variables if s not in rule.derived}
        angles = (values[s] for s, unit in rule.units.items() if unit == "degrees")
        if len(set(values.values())) < len(values) or any(a in SPECIAL for a in angles):
            continue
        exact = {sympy.Symbol(s): _exact(v, rule.units.get(s)) for s, v in values.items()}
        # None of them has a derived symbol in it.
        if not all(constraint.subs(exact) == sympy.true for constraint in constraints):
            continue
        exact |= {symbol: formula.subs(exact) for symbol, formula in derived.items()}
        if not all(_short(exact[symbol]) for symbol in derived):
            continue
        values = {s: values.get(s) or _number(exact[sympy.Symbol(s)]) for s in rule.variables}
        answers = true.subs(exact), other.subs(exact)
        if all(_fit(answer, values) for answer in answers) and _apart(*answers):
            yield Drawn(values, *answers)


def _read(rule: Rule, new: str) -> tuple[Any, Any, dict[sympy.Symbol, Any], list[Any]]:
    symbols = list(rule.variables)
    derived = {sympy.Symbol(s): expression(text, symbols) for s, text in rule.derived.items()}
    constraints = [expression(text, symbols) for text in rule.constraints]
    return expression(rule.formula, symbols), expression(new, symbols), derived, constraints


def _pick(rule: Rule, symbol: str, rng: Random) -> float:
    low, high, step = rule.ranges.get(symbol, RANGE)
    value = round(low + step * rng.randrange(round((high - low) / step) + 1), DECIMALS)
    return int(value) if value == int(value) else value


def _exact(value: float, unit: str | None) -> sympy.Expr:
    exact = sympy.Rational(str(value))
    return exact * sympy.pi / 180 if unit == "degrees" else exact


def _short(answer: sympy.Expr) -> bool:
    return bool(answer.is_rational) and (answer * 10**DECIMALS).is_integer is True


def _fit(answer: sympy.Expr, values: Values) -> bool:
    """Tell whether an answer can be given in full, or rounded, and is no number of the prompt."""
    if answer.is_rational:
        return _short(answer) and bool(answer > 0) and _number(answer) not in values.values()
    return bool(answer >= LEAST)


def _apart(one: sympy.Expr, two: sympy.Expr) -> bool:
    left, right = float(one), float(two)
    return abs(left - right) > APART * max(left, right)


def _number(exact: sympy.Expr) -> float:
    return int(exact) if exact.is_integer else float(exact)
