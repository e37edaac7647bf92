"""A rule as a key states it: what its letters mean, and whether another expression is the same.

A key that the grammar cannot read is a mistake in the data and an error, never a verdict. Expressions are
compared at random points, where floats tell at once what differs.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import sympy
from sympy import Expr, Symbol

from .algebra import Unread, power
from .phrases import parser as parser_of
from .quantities import Quantities, symbol
from .words import GREEK, singular, tokens

CALLS = ("sqrt", "sin", "cos", "tan", "min", "max")


class BadKey(Exception):
    """A key whose own formula cannot be read."""


@dataclass(frozen=True)
class Rule:
    """What is needed to read replies about a rule and to compare them with it."""

    lhs: str = ""
    """The symbol of what the rule gives, without a square."""
    squared: bool = False
    """Whether the rule gives the square of that."""
    quantities: Quantities = field(default_factory=Quantities)
    variables: Mapping[str, str] = field(default_factory=dict)
    derived: Mapping[Symbol, Expr] = field(default_factory=dict)
    bounds: tuple[Expr, ...] = ()
    """What has to be positive."""

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> Rule:
        """Return the rule that a key is about; raises `BadKey`."""
        variables = about["variables"]
        lhs = about["lhs"]
        squared = lhs.endswith("2") and len(lhs) > 1
        return cls(
            lhs=lhs[:-1] if squared else lhs,
            squared=squared,
            # By custom, P is a perimeter.
            quantities=Quantities.of(variables, around=lhs == "P"),
            variables=variables,
            derived={
                symbol(name): read_key(text, variables)
                for name, text in about.get("derived", {}).items()
            },
            bounds=tuple(_bound(text, variables) for text in about.get("constraints", ())),
        )

    @property
    def symbols(self) -> frozenset[Symbol]:
        """The symbols of the rule's formulas."""
        return frozenset(symbol(name) for name in self.variables)


def _bound(text: str, names: Collection[str]) -> Expr:
    sides = re.split("([<>])", text)
    if len(sides) != 3:
        raise BadKey(f"the constraint {text!r} is no inequality")
    difference = read_key(sides[0], names) - read_key(sides[2], names)
    return difference if sides[1] == ">" else -difference


def read_key(text: str, names: Collection[str]) -> Expr:
    """Return the expression of a key: ``sqrt(x**2 + y**2)``, ``Rational(4, 3)*pi``."""
    try:
        found = tokens(text, names)
        for token in found:
            known = {"name": (*names, "pi"), "word": CALLS}.get(token.kind, (token.text,))
            if token.text not in known:
                raise Unread(f"{token.text!r} is no symbol of it")
        parser = parser_of(found, Quantities())
        expression = parser.parse()
    except (Unread, TypeError, ValueError) as error:
        raise BadKey(f"the formula {text!r} cannot be read: {error}") from None
    if parser.peek():
        raise BadKey(f"the formula {text!r} cannot be read from {parser.peek().text!r} on")
    return expression


def as_square(expression: Expr) -> Expr:
    """Return the square of an expression."""
    return power(expression, 2 * expression**0)


POINTS, SEED, MOST_DRAWS = 20, 20, 20_000
LENGTHS, ANGLES = (0.5, 3.0), (0.2, 1.4)
EXACT, ROUNDED, ROUNDED_PI = 1e-9, 1e-6, 1e-2
SUGGESTS: Mapping[str, frozenset[str]] = {
    letter: frozenset(words.split())
    for letter, words in {
        "a": "side equal area", "b": "base breadth side width", "c": "leg side angle",
        "d": "diameter diagonal side", "e": "edge side", "h": "height", "l": "length slant",
        "p": "perimeter diagonal", "r": "radius", "s": "side semiperimeter", "w": "width",
    }.items()
}  # fmt: skip
"""What a letter usually stands for in geometry."""
TOLD = {"d": "diameter", "r": "radius", "l": "slant height", "L": "slant height"}
"""Letters that stand for one thing wherever a rule has it."""

Point = dict[Symbol, float]


def points(rule: Rule) -> list[Point]:
    """Return points at which a rule's constraints hold, angles in radians below a right one."""
    drawn = random.Random(SEED)
    free = sorted(rule.symbols - set(rule.derived), key=str)
    found: list[Point] = []
    for _ in range(MOST_DRAWS):
        ranges = {s: ANGLES if "angle" in rule.variables[s.name] else LENGTHS for s in free}
        point = {s: drawn.uniform(*ends) for s, ends in ranges.items()}
        point |= {s: evaluate(text, point) for s, text in rule.derived.items()}
        if all(evaluate(bound, point) > 0 for bound in rule.bounds):
            found.append(point)
        if len(found) == POINTS:
            return found
    raise BadKey(f"no values respect the constraints of {rule.lhs!r}")


def evaluate(expression: Expr, point: Mapping[Symbol, float]) -> float:
    """Return an expression's value, NaN where it has none; floats, so that no size costs time."""
    try:
        return _evaluate(expression, point)
    except (OverflowError, ValueError, ZeroDivisionError, KeyError, TypeError):
        return math.nan


def _evaluate(expression: Expr, point: Mapping[Symbol, float]) -> float:
    if expression.is_Symbol:
        return point[expression]
    if not expression.args:
        return float(expression)
    values = [_evaluate(argument, point) for argument in expression.args]
    if expression.is_Add:
        return math.fsum(values)
    if expression.is_Mul:
        return math.prod(values)
    if expression.is_Pow:
        return math.pow(*values)
    return float(FUNCTIONS[expression.func](*values))


FUNCTIONS: Mapping[type[Expr], Callable[..., float]] = {
    sympy.sin: math.sin, sympy.cos: math.cos, sympy.tan: math.tan, sympy.Min: min, sympy.Max: max,
    sympy.Abs: abs,
}  # fmt: skip


def agree(one: Expr, key: Expr, at: Sequence[Point], within: float = EXACT) -> bool:
    """Tell whether an expression has a key's values, relative to their size, wherever it has any."""
    wanted = [(point, evaluate(key, point)) for point in at]
    defined = [(point, value) for point, value in wanted if not math.isnan(value)]
    return bool(defined) and all(
        math.isclose(evaluate(one, point), value, rel_tol=within) for point, value in defined
    )


def inexact(key: Expr) -> bool:
    """Tell whether a key has a number that no decimal writes exactly."""
    return _irrational(key) or not all(map(_terminates, key.atoms(sympy.Number)))


def _irrational(key: Expr) -> bool:
    roots = [p for p in key.atoms(sympy.Pow) if p.is_number and not p.is_Rational]
    return bool(roots or key.has(sympy.pi))


def _terminates(number: Expr) -> bool:
    return not number.is_Rational or 10**30 % int(number.q) == 0


def number_distance(key: Expr, value: Expr, decimals: int | None) -> float | None:
    """Return how far a number is from a key, relative to it, or None if it is not the same.

    Within 1e-2 of an irrational key, where pi may be 3.14; within 1e-6 of others, but that a decimal
    may be a rounded one where no decimal is exact.
    """
    wanted, given = evaluate(key, {}), evaluate(value, {})
    if math.isnan(wanted) or math.isnan(given):
        return None
    distance = abs(given - wanted) / abs(wanted) if wanted else abs(given)
    if distance <= (ROUNDED_PI if _irrational(key) else ROUNDED):
        return distance
    rounded = decimals and not _terminates(key) and abs(given - wanted) <= 0.5001 * 10**-decimals
    return distance if rounded and distance <= ROUNDED_PI + EXACT else None


def renamings(reply: Expr, rule: Rule, letters: Mapping[str, str]) -> Iterator[dict[Symbol, Expr]]:
    """Yield what the letters of a reply may stand for, as far as reply and custom tell.

    A letter of the rule is itself; other letters are the remaining ones in any order that agrees
    best with what the reply says of them and with what such letters usually mean. Beside letters of
    the rule, a letter stands only for what it usually means.
    """
    fixed = _fixed(reply, rule, letters)
    strange = sorted(reply.free_symbols - rule.symbols - set(fixed), key=str)
    taken = (reply.free_symbols & rule.symbols) | set(fixed.values())
    left = sorted(rule.symbols - taken - set(rule.derived), key=str)
    left += sorted(set(rule.derived) - taken, key=str) if len(left) < len(strange) else []
    if len(strange) > len(left):
        return
    options = [dict(zip(strange, p, strict=True)) for p in permutations(left, len(strange))]
    best = max(_support(option, rule) for option in options)
    if reply.free_symbols & rule.symbols and best < len(strange):
        return
    for option in options:
        if _support(option, rule) == best:
            yield fixed | option


def _fixed(reply: Expr, rule: Rule, letters: Mapping[str, str]) -> dict[Symbol, Expr]:
    """Return the letters that can stand for one thing only: phi for the angle, d for 2r."""
    fixed: dict[Symbol, Expr] = {}
    for s in sorted(reply.free_symbols - rule.symbols, key=str):
        _, noun = rule.quantities.find(letters.get(s.name, "").split())
        meant = rule.quantities.table.get(noun, [])
        angles = [symbol(n) for n, text in rule.variables.items() if "angle" in text]
        if len(meant) == 1:
            fixed[s] = meant[0]
        elif s.name in GREEK and len(angles) == 1:
            fixed[s] = angles[0]
        else:
            # A letter in terms of others: d for 2r, r for d/2, l for a slant height.
            told = rule.quantities.table.get(TOLD.get(s.name, ""), [])
            fixed |= {s: told[0]} if len(told) == 1 else {}
    return fixed


def _support(option: Mapping[Symbol, Symbol], rule: Rule) -> int:
    count = 0
    for s, target in option.items():
        nouns = {singular(word) for word in rule.variables[target.name].lower().split()}
        count += bool(SUGGESTS.get(s.name[0].lower(), frozenset()) & nouns)
    return count
