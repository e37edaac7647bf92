"""A rule as a key states it: two formulas, and what their letters mean.

Keys are read by the same grammar as replies; one that cannot be read is a mistake in the data and
an error, never a verdict.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from sympy import Expr, Symbol

from .algebra import Unread, power
from .phrases import parser as parser_of
from .quantities import Quantities, symbol
from .words import tokens

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
    """Return the expression of a key: ``sqrt(x**2 + y**2)``, ``Rational(4, 3)*pi``.

    Raises `BadKey` if there is anything in it that this syntax does not have.
    """
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
