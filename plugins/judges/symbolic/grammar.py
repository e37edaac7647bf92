"""From tokens to algebra: one grammar for formulas and for descriptions in words.

An operator-precedence parser (Pratt, "Top down operator precedence", 1973) whose operands are also noun
phrases: ``half the sum of the bases * h``. Nothing is ever evaluated as code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias

import sympy
from sympy import Add, Expr, Integer, Mul, Rational

from .algebra import CHANGES, OPERATIONS, Unread, Value, divided, each, one, power, scaled
from .nouns import Nouns
from .quantities import Quantities, symbol
from .words import FUNCTIONS, MULTIPLES, NUMBERS, PARTS, SIGNS, Token

# How tightly operators bind. What is written side by side binds more tightly than a stroke.
LOOSEST, ADDING, MULTIPLYING, ITEM, BESIDE, COUNTED, POWER = 1, 10, 20, 28, 30, 40, 50


SEQUELS = {
    "add": "+", "adding": "+", "added": "+", "multiply": "*", "multiplying": "*", "multiplied": "*",
    "divide": "/", "dividing": "/", "divided": "/",
}  # fmt: skip
TOGETHER = (("sum", "added", Add), ("product", "multiplied", Mul))

Phrase: TypeAlias = "Callable[[Parser], Value]"
"""Reads a noun phrase whose first word the parser has just stepped over."""


class Parser(Nouns):
    """Reads one expression from the beginning of a list of tokens."""

    def __init__(
        self, tokens: Sequence[Token], quantities: Quantities, phrases: Mapping[str, Phrase]
    ) -> None:
        super().__init__(tokens, quantities)
        self.phrases = phrases
        self.in_angle = False
        """Whether what is read is an angle, whose degrees count."""
        self._factor: Expr | None = None
        self._lists = 0

    # Expressions

    def parse(self) -> Expr:
        """Return the longest expression at the beginning; raises `Unread` if there is none."""
        value = one(self.expression(LOOSEST))
        return self._together(value) if self.peek().text == "and" else value

    def _together(self, first: Expr) -> Expr:
        """Return "A and B added together", or the first if that is not what is said."""
        mark, found = self.at, [first]
        with suppress(Unread):
            while self.take("and"):
                found.append(one(self.expression(ITEM)))
        self.take("are")
        for _, word, kind in TOGETHER:
            if self.take(word, "together"):
                return kind(*found)
        self.at = mark
        return first

    def expression(self, least: int) -> Value:
        """Return an expression of operators that bind at least so tightly."""
        left = self._operand()
        self._factor = None
        while (more := self._extended(left, least)) is not None:
            left = more
        return left

    def _operand(self) -> Value:
        self.skip_fillers()
        token = self.peek()
        self.at += 1
        if token.kind == "number":
            number = self._number(token.text)
            if self.in_angle and self.take_any("degrees", "degree"):
                return number * sympy.pi / 180
            return self._counted(number)
        if token.kind == "name":
            return sympy.pi if token.text == "pi" else symbol(token.text)
        if token.kind == "word":
            self.at -= 1
            return self._phrase()
        if token.text in "([" and token:
            inside = self.expression(LOOSEST)
            self.expect(")", "]")
            return inside
        if token.text == "-":
            return -one(self.expression(MULTIPLYING + 5))
        if token.text == "√":
            return self.radical()
        raise Unread(f"{token.text!r} where an expression was expected" if token else "nothing")

    def _counted(self, number: Expr) -> Value:
        """Return a number together with what it counts: "four thirds of X", "its two sides"."""
        part = PARTS.get(self.peek().text)
        if part and not (self.peek().text == "third" and number > 1):
            self.at += 1
            return self._share(number / part)
        if self.take("times"):
            return scaled(number, self.expression(COUNTED))
        if not number.is_Integer and self.peek().text == "of":
            return self._share(number)
        mark = self.at
        self.skip_fillers()
        if self.peek().kind == "word" and number.is_Integer and 0 < number <= 6:
            found = self._quantity(int(number))
            if found is not None:
                return found
        self.at = mark
        return number

    def _share(self, share: Expr) -> Value:
        """Return a share of what follows, or the share itself if nothing does."""
        mark = self.at
        self.skip_fillers()
        if self.at > mark or self._at_operand():
            return scaled(share, self.expression(COUNTED))
        return share

    def _at_operand(self) -> bool:
        token = self.peek()
        if token.kind == "word":
            return token.text in self.phrases or self._names(0, 3)
        return token.kind in ("number", "name") or bool(token and token.text in "(√")

    # What follows an operand

    def _extended(self, left: Value, least: int) -> Value | None:
        """Return the operand with the operator that follows it, or None if none binds so."""
        if (changed := self._changed(left, least)) is not None:
            return changed
        if least <= POWER and self.take("^"):
            exponent = one(self.expression(BESIDE + 1))
            return each(left, lambda inside: power(inside, exponent))
        if self.take("%"):
            return scaled(Rational(1, 100), left)
        if self._beside(left) and least <= BESIDE:
            return one(left, Mul) * one(self.expression(BESIDE + 1), Mul)
        return self._joined(left, least)

    def _changed(self, left: Value, least: int) -> Value | None:
        """Return "X squared", "X doubled", "X added together", "the squared sides' sum"."""
        if isinstance(left, tuple):
            for word, together, kind in TOGETHER:
                if (least <= BESIDE and self.take(word)) or self.take(together, "together"):
                    return one(left, kind)
        word = self.take_any(*CHANGES)
        return each(left, CHANGES[word]) if word else None

    def _beside(self, left: Value) -> bool:
        token = self.peek()
        if self._at_cross():
            return False
        if token.kind == "name" or token.text in ("(", "[", "√", *FUNCTIONS):
            return not (token.text == "a" and self._at_article())
        if token.kind == "word" and isinstance(left, Expr) and not left.free_symbols:
            return self._names(0, 2)
        return False

    def _at_ratio(self) -> bool:
        """Tell the colon of "x : y", spaced alike on both sides, from that of "the formula: x"."""
        before, colon, after = (self.peek(ahead) for ahead in (-1, 0, 1))
        named = all(
            token.text in self.quantities.meanings or self.quantities.find([token.text])[0]
            for token in (before, after)
        )
        return colon.text == ":" and colon.spaced == after.spaced and named

    def _joined(self, left: Value, least: int) -> Value | None:
        mark = self.at
        if least <= ADDING and self.take("subtracted", "from"):
            return one(self.expression(ADDING + 1), Add) - one(left, Add)
        operator, binding = self._operator()
        if not operator or least > binding:
            self.at = mark
            return None
        if self.take("itself"):
            return OPERATIONS[operator](
                one(left), one(left) if self._factor is None else self._factor
            )
        if operator == "/":
            return divided(one(left, Mul), self._below(one(left, Mul)))
        right = self.expression(binding + 1)
        kind = Add if operator in "+-" else Mul
        self._factor = one(right, kind)
        return OPERATIONS[operator](one(left, kind), self._factor)

    def _operator(self) -> tuple[str, int]:
        sequel = self._sequel()
        if sequel:
            return sequel, LOOSEST
        if self._at_cross() or self._at_ratio():
            self.at += 1
            return "/" if self.peek(-1).text == ":" else "*", MULTIPLYING
        separate = self.take(",")
        if self.peek(1).text in SEQUELS:
            self.take_any("is", "are")
        for words, sign in SIGNS.items():
            if self.take(*words.split()):
                tight = ADDING if sign in "+-" else MULTIPLYING
                return sign, LOOSEST if separate else tight
        return "", 0

    def _sequel(self) -> str:
        """Step over "and then multiplying the result by"; return the sign, or an empty text."""
        mark = self.at
        joined = self.take(",") | self.take("and") | self.take(";")
        joined |= self.take("then")
        self.take("by")
        verb = self.take_any(*SEQUELS)
        for result in ("the result", "it", "that", "this", "the sum", "them", "the product"):
            self.take(*result.split())
        if joined and verb and self.take_any("by", "to"):
            return SEQUELS[verb]
        self.at = mark
        return ""

    def _below(self, above: Expr) -> Expr:
        """Return what a stroke divides by: 2R in abc/2R, but 2 in 1/2 x and in h/2(a + b)."""
        first = self.peek()
        below = one(self.expression(BESIDE + 1), Mul)
        bare = first.kind == "number" and not above.free_symbols
        while not bare and self.peek().kind == "name" and not self.peek().spaced:
            below *= one(self.expression(BESIDE + 1), Mul)
        return below

    # Noun phrases

    def _phrase(self) -> Value:
        word = self.peek().text
        if word in NUMBERS:
            self.at += 1
            return self._counted(self._spelled(word))
        if (named := self._quantity()) is not None:
            return named
        self.at += 1
        if word in PARTS:
            return self._share(Rational(1, PARTS[word]))
        if word in MULTIPLES:
            return scaled(Integer(MULTIPLES[word]), self.expression(COUNTED))
        if word in self.phrases:
            return self.phrases[word](self)
        raise Unread(f"the word {word!r}")

    def items(self, least: int = ITEM, whole: bool = False) -> list[Expr]:
        """Return what stands in a list: "A, B and C".

        Lists within lists have two items, unless ``whole`` says that this one goes on to its end.
        """
        self._lists += 1
        first = self.expression(least)
        grouped, commas = isinstance(first, tuple), False
        found = [*first] if isinstance(first, tuple) else [first]
        while True:
            paired = len(found) > 1 and not whole
            inner = self._lists > 1 and not commas and (grouped or paired)
            mark = self.at
            sequel = self._sequel()
            self.at = mark
            comma = self.take(",")
            if not (self.take("and") or comma) or inner or sequel:
                self.at = mark
                break
            commas = commas or comma
            if comma and not self._at_item():
                self.at = mark
                break
            following = found[-1] if self.take("itself") else self.expression(least)
            found.extend(following if isinstance(following, tuple) else [following])
        self._lists -= 1
        return found

    def _at_item(self) -> bool:
        """Tell whether a comma is followed by an item, and not by ", times" or ", plus"."""
        self.take("and")
        mark = self.at
        self.skip_fillers()
        at_operand, self.at = self._at_operand() or self.peek().text in NUMBERS, mark
        return at_operand

    def radical(self) -> Expr:
        """Return the root of what stands behind the sign: a bracket, a number, or letters."""
        if self.peek().kind == "number":
            self.at += 1
            # The number alone: √3/2 is no root of 3/2, nor "√3 times x" one of 3x.
            return power(self._digits(self.peek(-1).text), Rational(1, 2))
        if self.peek().text in ("(", "["):
            return power(one(self._operand()), Rational(1, 2))
        inside = one(self.expression(BESIDE + 1))
        while self.peek().kind == "name" and not self.peek().spaced:
            inside *= one(self.expression(BESIDE + 1))
        return power(inside, Rational(1, 2))
