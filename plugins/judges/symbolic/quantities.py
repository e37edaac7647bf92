"""The named quantities of a rule: what "the two side lengths" or "the slant height" stand for.

A table from nouns to symbols, of what a key says of its variables and of the few theorems that
descriptions lean on without saying so, such as that an arc is radius times angle.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sympy import Expr, Symbol, pi, sqrt

from .words import FILLERS, OTHER_NAMES, singular

PLACES = ("first", "second", "third", "fourth", "one", "two", "longer", "shorter", "other")
"""What tells a quantity from its like."""


def symbol(name: str) -> Symbol:
    """Return the symbol of a name; all quantities of geometry are positive."""
    return Symbol(name, positive=True)


@dataclass
class Quantities:
    """The nouns that a reply may use, each with the expressions that it stands for."""

    table: dict[str, list[Expr]] = field(default_factory=dict)
    """By the noun in the singular; "side" of a triangle has three expressions."""
    meanings: dict[str, str] = field(default_factory=dict)
    """What each variable is, by its name."""
    around: bool = False
    """Whether the rule is of a perimeter, where "its sides" may be two of them or all four."""

    @classmethod
    def of(cls, variables: Mapping[str, str], around: bool = False) -> Quantities:
        """Return the quantities of a rule, of what its variables are called."""
        made = cls(around=around)
        # What a variable is called, such as "first side", without brackets.
        called = {name: re.sub(r"\(.*?\)", " ", text.lower()) for name, text in variables.items()}
        singulars = {name: [*map(singular, text.split())] for name, text in called.items()}
        for name, words in singulars.items():
            noun = " ".join(word for word in words if word not in PLACES)
            made.meanings[name] = "side" if noun == "side length" else noun
            made.table.setdefault(made.meanings[name], []).append(symbol(name))
        for name, words in singulars.items():
            # A parser has stepped over what changes nothing before it asks for a quantity.
            bare = " ".join(word for word in words if word not in FILLERS)
            made._name([symbol(name)], " ".join(words), bare)
        for noun, symbols in list(made.table.items()):
            made._name(symbols, *OTHER_NAMES.get(noun, ()))
        made._add_groups(variables)
        made._add_theorems()
        return made

    def find(self, words: Sequence[str]) -> tuple[int, str]:
        """Return how many words at the beginning name a quantity, and its name; 0 if they do not.

        The longest name counts.
        """
        nouns = [singular(word) for word in words[:3]]
        names = ((count, " ".join(nouns[:count])) for count in range(len(nouns), 0, -1))
        return next(((count, name) for count, name in names if name in self.table), (0, ""))

    def _name(self, symbols: Sequence[Expr], *names: str) -> None:
        for name in names:
            self.table.setdefault(name, list(symbols))

    def _add_groups(self, variables: Mapping[str, str]) -> None:
        """Name the parts of groups, such as length and width of two sides, and the whole."""
        sides, legs = self.table.get("side", []), self.table.get("leg", [])
        if any("other" in text for text in variables.values()) and len(sides) == 2:
            self._name(sides[:1], "length")
            self._name(sides[1:], "width", "breadth")
        if len(legs) == 2:
            self._name(legs[:1], "base")
            self._name(legs[1:], "height")
        if len(sides) == 4:
            self._name(sides[:2], "base")
        bases = self.table.get("base", [])
        if len(bases) == 2:
            self._name(bases, "parallel side")
        if len(bases) == len(legs) == 2:
            self.table["side"] = [*bases, *legs]
        box = [self.table[name][0] for name in ("length", "width", "height") if name in self.table]
        if len(box) >= 2:
            self._name(box, "dimension", "side")
        # Faces stand for their areas.
        if len(box) == 3:
            length, width, height = box
            faces = [length * width, length * height, width * height] * 2
            self._name(faces, "face", "area face")
            self._name(faces[:1], "base area", "area base")
        elif len(variables) == len(sides) == 1:
            # Of the shapes with one side length, it is the cube that has faces.
            self._name([sides[0] ** 2] * 6, "face", "area face")

    def _add_theorems(self) -> None:
        named = ("radius", "height", "diameter", "angle", "equal side", "base")
        groups = (self.table.get(name, []) for name in named)
        radius, height, diameter, angle, equal, base = (
            group[0] if len(group) == 1 else None for group in groups
        )
        if radius is not None:
            self._name([2 * radius], "diameter")
            if height is not None:
                self._name([sqrt(radius**2 + height**2)], "slant height")
                self._name([pi * radius**2], "base area", "area base")
                self._name([2 * pi * radius], "circumference", "circumference base")
            if angle is not None:
                self._name([radius * angle], "arc length", "arc")
        elif diameter is not None:
            self._name([diameter / 2], "radius")
        if equal is not None and base is not None:
            self._name([sqrt(equal**2 - (base / 2) ** 2)], "height")
