"""A second reader for LaTeX that our own grammar doesn't understand: math-verify's.

Only its LaTeX route is used, which is a generated parser of a grammar; its other route, for plain
text, evaluates the text as Python and is never taken. Its time limit is a signal, which threads
cannot have, so it is off: the limit is that of our process.
"""

from __future__ import annotations

import logging
import re

import sympy
from sympy import Expr

from .quantities import symbol
from .unread import Unread

LONGEST = 300
UNSAFE = re.compile(r"!|\d{5}|\^\s*\d{2}|\^\s*\{(?!\s*(?:-?\w|\\frac\s*\{\d\}\s*\{\d\})\s*\})")
"""What might be worked out into a number of many digits."""
COMMANDS = frozenset({
    "frac", "dfrac", "tfrac", "cfrac", "sqrt", "cdot", "times", "div", "left", "right", "pi",
    "theta", "alpha", "phi", "sin", "cos", "tan", "text", "mathrm", "mathbf", "displaystyle",
    "boxed", "quad", "min", "max", "lbrace", "rbrace", "overline", "bar", "vert", "lvert",
    "rvert",
})  # fmt: skip
"""Others, such as binomials, are worked out while they are read, however large they are."""
KNOWN = (sympy.Add, sympy.Mul, sympy.Pow, sympy.Symbol, sympy.Number, sympy.NumberSymbol, sympy.sin,
         sympy.cos, sympy.tan, sympy.Min, sympy.Max, sympy.Abs)  # fmt: skip


def read_latex(text: str) -> Expr:
    """Return the right side of the first equation in a line of LaTeX; raises `Unread`."""
    from math_verify import LatexExtractionConfig, parse

    line = text.strip().splitlines()[0].strip("$ ")
    side = line.split("=")[1] if "=" in line else line
    strange = set(re.findall(r"\\([A-Za-z]+)", side)) - COMMANDS
    if len(side) > LONGEST or strange or UNSAFE.search(side):
        raise Unread("LaTeX that is no formula of geometry")
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    found = parse(f"${side}$", [LatexExtractionConfig()], parsing_timeout=None)
    if not found or not isinstance(found[0], Expr):
        raise Unread("LaTeX that no grammar fits")
    if not all(isinstance(part, KNOWN) for part in sympy.preorder_traversal(found[0])):
        raise Unread("LaTeX that is no formula of geometry")
    return found[0].xreplace({s: symbol(s.name) for s in found[0].free_symbols})
