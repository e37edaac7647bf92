"""Whether two expressions are the same: at random points, where floats tell at once what differs."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations

import sympy
from sympy import Expr, Symbol

from .quantities import symbol
from .rule import BadKey, Rule
from .words import GREEK, singular

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
    """Return points at which a rule's constraints hold, angles in radians below a right one.

    Raises `BadKey` if none is found.
    """
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
    """Return how many letters stand for what they usually do."""
    count = 0
    for s, target in option.items():
        nouns = {singular(word) for word in rule.variables[target.name].lower().split()}
        count += bool(SUGGESTS.get(s.name[0].lower(), frozenset()) & nouns)
    return count
