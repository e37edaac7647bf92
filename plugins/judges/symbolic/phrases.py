"""Noun phrases and instructions: what the words "sum", "half the", "multiplying" open.

Each has a function that finds the parser behind the opening word; `grammar` knows the table `PHRASES` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import sympy
from sympy import Add, Expr, Integer, Mul, Rational

from .algebra import CHANGES, Unread, Value, divided, each, one, power
from .grammar import BESIDE, COUNTED, ITEM, LOOSEST, MULTIPLYING, POWER, Parser, Phrase
from .quantities import Quantities
from .words import Token


def parser(tokens: Sequence[Token], quantities: Quantities) -> Parser:
    """Return a parser that knows all phrases."""
    return Parser(tokens, quantities, PHRASES)


def _several(parser: Parser, least: int = ITEM) -> list[Expr]:
    found = parser.items(least)
    if len(found) < 2:
        raise Unread("one quantity where several were expected")
    return found


def _two(parser: Parser, *words: str) -> list[Expr]:
    """Return two quantities in a list, or with one of the words between them."""
    found = parser.items()
    if len(found) == 1 and parser.take_any(*words):
        found.append(one(parser.expression(ITEM)))
    if len(found) != 2:
        raise Unread(f"{len(found)} quantities where two were expected")
    return found


def _sum(parser: Parser) -> Expr:
    if not parser.take_any("of", "between"):
        return _pronoun(parser, Add)
    mark = parser.at
    found = parser.items()
    if len(found) < 2:
        # "The sum of l times w, l times h and w times h": the items are products.
        parser.at = mark
        found = _several(parser, MULTIPLYING)
    return Add(*found)


def _product(parser: Parser) -> Expr:
    if not parser.take_any("of", "between"):
        return _pronoun(parser, Mul)
    return Mul(*_several(parser))


def _pronoun(parser: Parser, kind: type[Expr]) -> Expr:
    """Return "their sum": of what was named last."""
    if len(parser.named) < 2 or parser.peek(-2).text not in ("their", "its"):
        raise Unread("a sum or a product of something unsaid")
    return kind(*parser.named)


def _average(parser: Parser) -> Expr:
    if parser.take("("):
        found = _several(parser)
        parser.expect(")")
    else:
        parser.expect("of")
        found = _several(parser)
    return Add(*found) / len(found)


def _geometric(parser: Parser) -> Expr:
    parser.expect("mean")
    parser.expect("of")
    found = _several(parser)
    return power(Mul(*found), Rational(1, len(found)))


def _products(parser: Parser) -> Value:
    parser.expect("of")
    found: list[Expr] = []
    while not found or parser.take(","):
        parser.take("and")
        first = one(parser.expression(ITEM))
        parser.expect("and")
        found.append(first * one(parser.expression(ITEM)))
    return tuple(found)


def _difference(parser: Parser) -> Expr:
    parser.expect("of", "between", "in")
    whole, part = _two(parser)
    return whole - part


def _differences(parser: Parser) -> Value:
    """Return "the differences of W and X, Y and Z", or "its differences with X and Y" of one W."""
    if parser.take("with"):
        found = [one(parser.named), *parser.items()]
    else:
        parser.expect("of", "between", "in")
        found = _several(parser)
    return tuple(found[0] - part for part in found[1:])


def _quotient(parser: Parser) -> Expr:
    parser.expect("of", "between")
    return divided(*_two(parser, "to", "by"))


def _square(parser: Parser) -> Value:
    """Return "square root of X", whose X goes on to the end unless it is a number, or "square of"."""
    if parser.take_any("root", "roots"):
        return _root(parser)
    return _of_each(parser, "squares", "squared")


def _cube(parser: Parser) -> Value:
    if parser.take("root"):
        parser.expect("of")
        return power(one(parser.expression(COUNTED)), Rational(1, 3))
    return _of_each(parser, "cubes", "cubed")


def _of_each(parser: Parser, plural: str, change: str) -> Value:
    """Return what a change is of: "the squares of A and B" are those of both."""
    several = parser.peek(-1).text == plural
    parser.expect("of")
    if not several:
        return each(parser.expression(COUNTED), CHANGES[change])
    found = parser.items(COUNTED, whole=True)
    return each(found[0] if len(found) == 1 else tuple(found), CHANGES[change])


def _root(parser: Parser) -> Value:
    parser.expect("of")
    parser.skip_fillers()
    if parser.at_number():
        value: Value = parser.bare_number()
    else:
        value = parser.expression(POWER if parser.peek().text == "(" else LOOSEST + 1)
    return each(value, lambda inside: power(inside, Rational(1, 2)))


def _sqrt(parser: Parser) -> Value:
    parser.take("of")
    return parser.radical()


def _changed(name: str) -> Phrase:
    return lambda parser: each(parser.expression(COUNTED), CHANGES[name])


def _function(outer: Callable[[Expr], Expr]) -> Phrase:
    def read(parser: Parser) -> Value:
        exponent = one(parser.expression(POWER + 1)) if parser.take("^") else Integer(1)
        parser.take("of")
        before, parser.in_angle = parser.in_angle, True
        argument = one(parser.expression(BESIDE + 1))
        parser.in_angle = before
        return power(outer(argument), exponent)

    return read


def _extreme(kind: type[Expr]) -> Phrase:
    """Return a reader of "min(a, b)" and of "the smallest of its dimensions"."""

    def read(parser: Parser) -> Value:
        if parser.take("("):
            found = parser.items(LOOSEST + 1)
            parser.expect(")")
        else:
            parser.take_any("of", "among")
            found = parser.items()
            found = list(parser.named) if len(found) == 1 else found
        if len(found) < 2:
            raise Unread("the smallest of one quantity")
        return kind(*found)

    return read


def _result(parser: Parser) -> Value:
    parser.expect("of")
    return parser.expression(LOOSEST)


def _together(word: str, kind: type[Expr]) -> Phrase:
    """Return a reader of "adding X to Y" and "multiplying X and Y together"."""

    def read(parser: Parser) -> Value:
        parser.take("together")
        found = parser.items()
        if parser.take(word):
            found.append(found[-1] if parser.take("itself") else one(parser.expression(ITEM)))
        parser.take("together")
        if len(found) < 2:
            raise Unread("one quantity where several were expected")
        return kind(*found)

    return read


def _of_two(word: str, apply: Callable[[Expr, Expr], Expr]) -> Phrase:
    """Return a reader of "subtracting X from Y" and "dividing X by Y"."""

    def read(parser: Parser) -> Value:
        first = one(parser.expression(ITEM))
        parser.expect(word)
        return apply(first, one(parser.expression(ITEM)))

    return read


READERS: Mapping[str, Phrase] = {
    "sum total": _sum, "product": _product, "products": _products, "average mean": _average,
    "geometric": _geometric, "difference": _difference, "differences": _differences,
    "quotient ratio": _quotient, "square squares": _square, "cube cubes": _cube, "root": _root,
    "squared squaring": _changed("squared"), "cubed cubing": _changed("cubed"),
    "doubling": _changed("doubled"), "halving": _changed("halved"), "tripling": _changed("tripled"),
    "sqrt": _sqrt, "sin sine": _function(sympy.sin), "cos cosine": _function(sympy.cos),
    "tan tangent": _function(sympy.tan), "min smallest minimum shortest least": _extreme(sympy.Min),
    "max largest maximum": _extreme(sympy.Max), "their": lambda parser: parser.expression(COUNTED), "result": _result,
    "add adding summing": _together("to", Add), "multiply multiplying": _together("by", Mul),
    "subtract subtracting": _of_two("from", lambda what, whole: whole - what),
    "divide dividing": _of_two("by", divided),
}  # fmt: skip
PHRASES = {word: reader for words, reader in READERS.items() for word in words.split()}
"""What the words that open a phrase are read by."""
