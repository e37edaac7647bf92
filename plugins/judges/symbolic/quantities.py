"""The named quantities of a rule: what "the two side lengths" or "the slant height" stand for.

A table from nouns to symbols, made from what a key says of its variables. The few theorems in it are
those that descriptions lean on without saying so, such as that an arc is radius times angle.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sympy import Expr, Symbol, pi, sqrt

from .words import FILLERS, singular

Name = tuple[str, ...]
OTHER_NAMES: Mapping[Name, Sequence[str]] = {
    ("side",): ("side length", "edge", "edge length", "length side"),
    ("equal", "side"): (
        "side", "leg", "equal leg", "congruent side", "equal side length", "side length",
    ),
    ("base", "side"): ("side", "base edge", "side length", "base side length", "side base"),
    ("leg",): ("side", "cathetus", "leg length", "shorter side", "side length"),
    ("base",): ("base length",),
    ("width",): ("breadth",),
    ("base", "area"): ("area base", "area"),
    ("base", "perimeter"): ("perimeter base", "perimeter"),
    ("lateral", "area"): ("lateral surface area", "lateral surface", "side area"),
    ("slant", "height"): ("slant",),
    ("diagonal",): ("diagonal length",),
    ("central", "angle"): ("angle",),
    ("included", "angle"): ("angle",),
    ("opposite", "angle"): ("angle",),
    ("semiperimeter",): ("semi perimeter", "half perimeter"),
}  # fmt: skip
"""What else a quantity is called; a name that another quantity bears itself is not taken."""
PLACES = frozenset({
    "first", "second", "third", "fourth", "one", "two", "longer", "shorter", "other",
})  # fmt: skip


def symbol(name: str) -> Symbol:
    """Return the symbol of a name; all quantities of geometry are positive."""
    return Symbol(name, positive=True)


@dataclass
class Quantities:
    """The nouns that a reply may use, each with the expressions that it stands for."""

    table: dict[Name, list[Expr]] = field(default_factory=dict)
    """By the words of the noun in the singular; "side" of a triangle has three expressions."""
    meanings: dict[str, Name] = field(default_factory=dict)
    """What each variable is, by its name."""
    around: bool = False
    """Whether the rule is of a perimeter, where "its sides" may be two of them or all four."""

    @classmethod
    def of(cls, variables: Mapping[str, str], around: bool = False) -> Quantities:
        """Return the quantities of a rule, of what its variables are called."""
        made = cls(meanings={name: _noun(text) for name, text in variables.items()}, around=around)
        for name, noun in made.meanings.items():
            made.table.setdefault(noun, []).append(symbol(name))
        for name, text in variables.items():
            whole = _singulars(text)
            made._name(" ".join(whole), [symbol(name)])
            # A parser has stepped over what changes nothing before it asks for a quantity.
            made._name(" ".join(word for word in whole if word not in FILLERS), [symbol(name)])
        own = dict(made.table)
        for noun, symbols in own.items():
            for other in OTHER_NAMES.get(noun, ()):
                made._name(other, symbols)
        made._add_groups(variables)
        made._add_theorems()
        return made

    def find(self, words: Sequence[str]) -> tuple[int, Name]:
        """Return how many words at the beginning name a quantity, and its name; 0 if they do not.

        The longest name counts.
        """
        nouns = tuple(singular(word) for word in words[:3])
        for count in range(len(nouns), 0, -1):
            if nouns[:count] in self.table:
                return count, nouns[:count]
        return 0, ()

    def pair(self) -> list[Expr]:
        """Return the two quantities of one kind that "one" and "the other" mean, or []."""
        return next((group for group in self.table.values() if len(group) == 2), [])

    def _name(self, name: str, symbols: Sequence[Expr]) -> None:
        self.table.setdefault(tuple(name.split()), list(symbols))

    def _add_groups(self, variables: Mapping[str, str]) -> None:
        """Name the parts of groups, such as length and width of two sides, and the whole."""
        sides, legs = self.table.get(("side",), []), self.table.get(("leg",), [])
        if any("other" in text for text in variables.values()) and len(sides) == 2:
            self._name("length", sides[:1])
            self._name("width", sides[1:])
            self._name("breadth", sides[1:])
        if len(legs) == 2:
            self._name("base", legs[:1])
            self._name("height", legs[1:])
        if len(sides) == 4:
            self._name("base", sides[:2])
        bases = self.table.get(("base",), [])
        if len(bases) == 2:
            self._name("parallel side", bases)
        if len(bases) == len(legs) == 2:
            self.table["side",] = [*bases, *legs]
        box = [self.table[(n,)][0] for n in ("length", "width", "height") if (n,) in self.table]
        if len(box) >= 2:
            self._name("dimension", box)
            self._name("side", box)
        faces: list[Expr] = []
        if len(box) == 3:
            length, width, height = box
            faces = [length * width, length * height, width * height] * 2
            self._both_ways("base", "area", length * width)
        if len(variables) == len(sides) == 1:
            # Of the shapes with one side length, it is the cube that has faces.
            faces = [sides[0] ** 2] * 6
        if faces:
            # They stand for their areas.
            self._name("face", faces)
            self._name("area face", faces)

    def _add_theorems(self) -> None:
        radius, height = self._one("radius"), self._one("height")
        diameter, angle = self._one("diameter"), self._one("angle")
        if radius is not None:
            self._name("diameter", [2 * radius])
            if height is not None:
                self._name("slant height", [sqrt(radius**2 + height**2)])
                self._both_ways("base", "area", pi * radius**2)
                self._name("circumference", [2 * pi * radius])
                self._name("circumference base", [2 * pi * radius])
            if angle is not None:
                self._name("arc length", [radius * angle])
                self._name("arc", [radius * angle])
        elif diameter is not None:
            self._name("radius", [diameter / 2])
        equal, base = self._one("equal side"), self._one("base")
        if equal is not None and base is not None:
            self._name("height", [sqrt(equal**2 - (base / 2) ** 2)])

    def _both_ways(self, one: str, other: str, value: Expr) -> None:
        self._name(f"{one} {other}", [value])
        self._name(f"{other} {one}", [value])

    def _one(self, name: str) -> Expr | None:
        """Return the expression of a quantity that there is one of."""
        found = self.table.get(tuple(name.split()), [])
        return found[0] if len(found) == 1 else None


def _noun(meaning: str) -> Name:
    """Return what a variable is, without brackets and without what tells it from its like."""
    noun = tuple(word for word in _singulars(meaning) if word not in PLACES)
    return ("side",) if noun == ("side", "length") else noun


def _singulars(meaning: str) -> list[str]:
    """Return the words of what a variable is called, such as "first side", without brackets."""
    return [singular(word) for word in re.sub(r"\(.*?\)", " ", meaning.lower()).split()]
