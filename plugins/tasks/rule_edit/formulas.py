"""Formulas as texts: whether one is written as it must be, and how it stands in a target.

The syntax is that of sympy: ``x**2/4 + sqrt(y)``. Nothing is computed here, and nothing is run: a
text is parsed to a tree, whose every node must be known. What a formula is worth is a judge's
affair.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

FUNCTIONS = {"sqrt", "sin", "cos", "Min", "Max", "Rational"}
CONSTANTS = {"pi"}
LONGEST = 500
"""Characters; a longer text is no formula of geometry, and could be nested too deep to be walked."""
SHOWN = 60
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)
COMPARISONS = ([ast.Lt], [ast.Gt])


def wrong_formula(text: str, symbols: Collection[str]) -> str:
    """Say why a formula in these symbols cannot be read, or return an empty text."""
    return _told("formula", text, _wrong(_parsed(text), symbols))


def wrong_constraint(text: str, symbols: Collection[str]) -> str:
    """Say why a comparison of two formulas cannot be read, or return an empty text."""
    tree = _parsed(text)
    if isinstance(tree, ast.Compare) and [type(each) for each in tree.ops] in COMPARISONS:
        problem = _wrong(tree.left, symbols) or _wrong(tree.comparators[0], symbols)
    else:
        problem = "it is no comparison of two formulas by < or >"
    return _told("constraint", text, problem)


def _told(what: str, text: str, problem: str) -> str:
    shown = repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")
    return f"the {what} {shown} cannot be read: {problem}" if problem else ""


def written(formula: str) -> str:
    """Return a formula as it stands in a text: ``x**2`` is ``x^2``."""
    return formula.replace("**", "^").replace("Min(", "min(").replace("Max(", "max(")


def equation(lhs: str, formula: str) -> str:
    """Return the equation that a model is to write; a left side ``d2`` is the square of d."""
    return f"{re.sub(r'(?<=[A-Za-z])2$', '^2', lhs)} = {written(formula)}"


def _parsed(text: str) -> ast.expr | None:
    if len(text) > LONGEST:
        return None
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _wrong(node: ast.expr | None, symbols: Collection[str]) -> str:
    """Say what in a tree is no part of a formula, or return an empty text."""
    if node is None:
        return "it is no formula"
    if isinstance(node, ast.Name):
        known = node.id in symbols or node.id in CONSTANTS
        return "" if known else f"{node.id!r} is none of its symbols"
    if isinstance(node, ast.Constant):
        return "" if type(node.value) in (int, float) else f"{node.value!r} is no number"
    if isinstance(node, ast.BinOp) and isinstance(node.op, OPERATORS):
        return _wrong(node.left, symbols) or _wrong(node.right, symbols)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _wrong(node.operand, symbols)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        if node.func.id not in FUNCTIONS:
            return f"{node.func.id!r} is no known function"
        return next((problem for arg in node.args if (problem := _wrong(arg, symbols))), "")
    return f"it has {type(node).__name__} in it"
