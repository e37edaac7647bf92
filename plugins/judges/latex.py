"""A second reader for LaTeX that our own grammar doesn't understand: math-verify's.

Only its LaTeX route is used, which is a generated parser of a grammar; its other route, for plain
text, evaluates the text as Python and is never taken. Its time limit is a signal, which threads
cannot have, so it is off: the limit is that of our process.
"""

from __future__ import annotations

import re

import sympy
from sympy import Expr

from edit_harness_plugins.judges.quantities import symbol
from edit_harness_plugins.judges.unread import Unread

LONGEST, MOST_POWERS, MOST_DIGITS = 300, 6, 6
KNOWN = (sympy.Add, sympy.Mul, sympy.Pow, sympy.Symbol, sympy.Number, sympy.NumberSymbol, sympy.sin,
         sympy.cos, sympy.tan, sympy.Min, sympy.Max)  # fmt: skip


def read_latex(text: str) -> Expr:
    """Return the right side of the first equation in a line of LaTeX; raises `Unread`."""
    from math_verify import LatexExtractionConfig, parse

    line = text.strip().splitlines()[0].strip("$ ")
    side = line.split("=")[1] if "=" in line else line
    if len(side) > LONGEST or side.count("^") > MOST_POWERS or re.search(r"!|\d{7}|\^.*\^.*\^\s*\d{3}", side):
        raise Unread("LaTeX that is too long", hopeless=True)
    found = parse(f"${side}$", [LatexExtractionConfig()], parsing_timeout=None)
    if not found or not isinstance(found[0], Expr):
        raise Unread("LaTeX that no grammar fits")
    if not all(isinstance(part, KNOWN) for part in sympy.preorder_traversal(found[0])):
        raise Unread("LaTeX that is no formula of geometry")
    return found[0].xreplace({s: symbol(s.name) for s in found[0].free_symbols})
