"""Numbers and nouns: what "7 1/2", "its two sides" or "the area of the base" stand for."""

from __future__ import annotations

from collections.abc import Sequence

from sympy import Expr, Integer, Rational

from .algebra import CHANGES, Unread, Value, divided
from .quantities import Quantities, symbol
from .words import CONNECTING, FILLERS, FUNCTIONS, NUMBERS, SHAPES, SIGNS, Cursor, Token

ADJECTIVES = frozenset({
    "right", "isosceles", "equilateral", "regular", "square", "circular", "triangular",
})  # fmt: skip
NO_NOUNS = CONNECTING | set(FUNCTIONS) | set(CHANGES) | {words.split()[0] for words in SIGNS}
"""Words that a letter, and no article, stands before."""
BETWEEN = FILLERS | {"a", "an", "all", "of"}
"""Words that may stand between "area of" and the noun."""


class Nouns(Cursor):
    """Reads the numbers and quantities that a list of tokens names."""

    def __init__(self, tokens: Sequence[Token], quantities: Quantities) -> None:
        super().__init__(tokens)
        self.quantities = quantities
        self.rough = False
        """Whether a number was read that may be a rounded one."""
        self.named: tuple[Expr, ...] = ()
        """What the last noun named, for "their sum"."""
        self._all = False
        """Whether "all" was said of it."""

    def _number(self, text: str) -> Expr:
        whole = self._digits(text)
        if not text.isdecimal():
            return whole
        above, stroke, below = (self.peek(ahead) for ahead in range(3))
        mixed = (above.kind, stroke.text, below.kind) == ("number", "/", "number")
        if mixed and (above.text + below.text).isdecimal() and int(above.text) < int(below.text):
            self.at += 3
            return whole + Rational(int(above.text), int(below.text))
        # As 1/2 in 1/2xy: a fraction of two numbers binds before anything else.
        previous = self.peek(-2).text if self.at > 1 else ""
        fraction = above.text == "/" and stroke.kind == "number" and stroke.text.isdecimal()
        if fraction and below.text != "^" and previous not in ("^", "/"):
            self.at += 2
            self.rough = self.rough or (whole, stroke.text) == (22, "7")
            return divided(whole, Integer(stroke.text))
        return whole

    def _digits(self, text: str) -> Expr:
        if text.isdecimal():
            return Integer(text)
        self.rough = self.rough or len(text.partition(".")[2]) > 1
        return Rational(text)

    def _spelled(self, word: str) -> Expr:
        value = NUMBERS[word]
        if value >= 20 and 0 < NUMBERS.get(self.peek().text, 0) < 10:
            value += NUMBERS[self.peek().text]
            self.at += 1
        return Integer(value)

    def at_number(self) -> bool:
        """Tell whether a number comes next that counts nothing: not that of "two sides"."""
        token = self.peek()
        return token.kind == "number" or (token.text in NUMBERS and not self._names(1, 2))

    def bare_number(self) -> Expr:
        """Return the number that comes next, without what it multiplies."""
        token = self.peek()
        self.at += 1
        return self._spelled(token.text) if token.kind == "word" else self._number(token.text)

    def skip_fillers(self) -> None:
        """Step over articles and the like, and over "of"; "their sum" begins with a pronoun."""
        while self.peek().text in FILLERS | {"of", "all"} or self._at_article():
            self._all = self._all or self.peek().text == "all"
            self.at += 1

    def _at_article(self) -> bool:
        """Tell "a third" from "a times h"."""
        following = self.peek(1)
        return (
            self.peek().text in ("a", "an")
            and following.kind == "word"
            and following.text not in NO_NOUNS
        )

    def _names(self, ahead: int, count: int) -> bool:
        """Tell whether a quantity is named by coming words, of which so many are looked at."""
        words = [self.peek(ahead + further).text for further in range(count)]
        return bool(self.quantities.find(words)[0])

    def _at_cross(self) -> bool:
        """Tell the sign in "base x height" from a letter: before a noun, and not behind a letter."""
        here = self.peek().text in ("x", "X") and self.peek().spaced
        return here and self.peek(-1).kind != "name" and self._names(1, 3)

    def _quantity(self, count: int = 0) -> Value | None:
        """Return the quantity that is named here, of which there are said to be ``count``."""
        mark = self.at
        if self.take_any("length", "lengths", "measure", "measures") and self.take("of"):
            self.skip_fillers()
            count = self._small(count)
            self.skip_fillers()
            if (inner := self._quantity(count)) is not None:
                return inner
        self.at = mark
        if self.take("other"):
            before, count = self.at, self._small(count)
            if self.at == before and count < 2:
                return self._other()
        every = bool(self.take_any("each", "every"))
        words = [self.peek(ahead).text for ahead in range(3)]
        length, name, counted = self._of_something()
        if not length:
            length, name = self.quantities.find(words)
        if not length:
            self.at = mark
            return None
        count = counted or count
        self.at += length
        last = words[0 if length > len(words) else length - 1]
        plural = every or count > 1 or (last.endswith("s") and last != "radius")
        self._skip_letter(self.quantities.table[name])
        self._skip_owner()
        return self._grouped(self.quantities.table[name], count, plural)

    def _small(self, count: int) -> int:
        """Step over a number in words and return it; without one, return what is given."""
        if (found := NUMBERS.get(self.peek().text)) is None:
            return count
        self.at += 1
        return found

    def _of_something(self) -> tuple[int, str, int]:
        """Find "area of the base" under the name that it has the other way round.

        Returns how many words it has, its name, and how many there are said to be.
        """
        skipped, count = 2, 0
        if self.peek(1).text != "of":
            return 0, "", 0
        while (text := self.peek(skipped).text) in BETWEEN or text in NUMBERS:
            count = NUMBERS.get(text, count)
            skipped += 1
        words = [self.peek().text, self.peek(skipped).text]
        length, name = self.quantities.find(words)
        return (skipped + 1, name, count) if length == 2 else (0, "", 0)

    def _skip_letter(self, group: Sequence[Expr]) -> None:
        """Step over the letter in "the radius r" or "the length (l)", which is no factor."""
        bracket, letter, end = (self.peek(ahead) for ahead in range(3))
        if (bracket.text, letter.kind, end.text) == ("(", "name", ")"):
            self.at += 3
        elif bracket.kind == "name" and not self._at_cross():
            self.at += list(group) == [symbol(bracket.text)]

    def _skip_owner(self) -> None:
        """Step over "of the triangle", "in radians", "between them"."""
        mark = self.at
        if self.take("of"):
            while self.peek().text in FILLERS | ADJECTIVES or self._at_article():
                self.at += 1
            if not self.take_any(*SHAPES):
                self.at = mark
        for words in ("in radians", "between them", "between the sides", "between the two sides"):
            self.take(*words.split())

    def _grouped(self, group: Sequence[Expr], count: int, plural: bool) -> Value:
        """Return one of a group, several of it, or one quantity several times."""
        self.named = tuple(group)
        # The sides of a shape that has four, of which two are equal.
        two_of_four = len(group) == 2 and group == self.quantities.table.get("side")
        four, self._all = self._all and two_of_four, False
        if not plural or count == 1:
            return self._lettered(group)
        if self.quantities.around and two_of_four and not (count or four):
            raise Unread("it may mean two of its sides or all four")
        count = count or 4 * four
        if len(group) == 1 and not count:
            return group[0]
        if count > len(group) and count % len(group) == 0:
            return tuple(item for item in group for _ in range(count // len(group)))
        return tuple(group[: count or len(group)])

    def _lettered(self, group: Sequence[Expr]) -> Expr:
        """Return one of a group, the one that a letter or a number tells: "side a", "base 2"."""
        token = self.peek()
        if len(group) > 1 and token.kind == "name" and token.text != "pi":
            self.at += 1
            return symbol(token.text)
        if token.kind == "number" and token.text in map(str, range(1, len(group) + 1)):
            self.at += 1
            return group[int(token.text) - 1]
        return group[0]

    def _other(self) -> Expr:
        pair = next((group for group in self.quantities.table.values() if len(group) == 2), None)
        if pair is None:
            raise Unread("there is no other one")
        length, _ = self.quantities.find([self.peek(ahead).text for ahead in range(2)])
        self.at += length
        self._skip_owner()
        return pair[1]
