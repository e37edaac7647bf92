"""What the grammar does with expressions; what could make one huge is refused before sympy works it out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sympy import Expr, Integer, Pow, Rational

LARGEST_POWER = 20
MOST_BITS = 4_096
"""Of a number that is a power; ``9**9**9`` has more."""


class Unread(Exception):
    """A reply, or a part of it, that cannot be read, and why in a few words."""

    def __init__(self, why: str, hopeless: bool = False) -> None:
        super().__init__(why)
        self.hopeless = hopeless
        """Whether a limit is exceeded, so that nothing else need be tried."""


Value: TypeAlias = Expr | tuple[Expr, ...]
"""One expression, or several that one noun names, such as the sides of a triangle."""


def one(value: Value, kind: type[Expr] | None = None) -> Expr:
    """Return an expression; several are put together by ``kind``, `Add` or `Mul`."""
    if not isinstance(value, tuple):
        return value
    if len(value) == 1:
        return value[0]
    if kind is None:
        raise Unread("several quantities where one was expected")
    return kind(*value)


def each(value: Value, change: Callable[[Expr], Expr]) -> Value:
    """Return the value with every expression of it changed."""
    return tuple(map(change, value)) if isinstance(value, tuple) else change(value)


def scaled(factor: Expr, value: Value) -> Value:
    """Return a multiple of every expression."""
    return each(value, lambda item: factor * item)


def divided(above: Expr, below: Expr) -> Expr:
    """Return a quotient; raises `Unread` for one by zero."""
    if below.is_zero:
        raise Unread("a division by zero")
    return above / below


def power(base: Expr, exponent: Expr) -> Expr:
    """Return a power; raises `Unread` for one that is large, or has a symbol in its exponent."""
    if not exponent.is_Rational or abs(exponent) > LARGEST_POWER:
        raise Unread(f"an exponent that is no number up to {LARGEST_POWER}", hopeless=True)
    if exponent.q > LARGEST_POWER or _bits(base) * abs(exponent.p) > MOST_BITS:
        raise Unread("a power that is too large", hopeless=True)
    if base.is_zero and exponent < 0:
        raise Unread("a division by zero")
    return base**exponent


def _bits(expression: Expr) -> int:
    """Return about how many bits the numbers of an expression have, and its degree at least."""
    sizes = [max(int(n.p).bit_length(), int(n.q).bit_length()) for n in expression.atoms(Rational)]
    degrees = [abs(p.exp.p) * _bits(p.base) for p in expression.atoms(Pow) if p.exp.is_Rational]
    return max([1, *sizes, *degrees])


OPERATIONS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": divided,
}
CHANGES: dict[str, Callable[[Expr], Expr]] = {
    "squared": lambda inside: power(inside, Integer(2)),
    "cubed": lambda inside: power(inside, Integer(3)),
    "doubled": lambda inside: 2 * inside,
    "tripled": lambda inside: 3 * inside,
    "halved": lambda inside: inside / 2,
}
