"""What is wrong with a file of rules: its layout, and what stands in a record.

A file whose layout is wrong is of no use. A formula that cannot be read, or a prompt without its
subject, is the affair of that rule alone, whose case says so and is not run.

Formulas have the syntax of sympy: ``x**2/4 + sqrt(y)``. Nothing is computed here, and nothing is run: a
text is parsed to a tree, whose every node must be known. What a formula is worth is a judge's affair.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal

from edit_harness.data import SUBJECT
from edit_harness_plugins.inputs import Layout

from .._files.records import Entry, Name, Record

FUNCTIONS = {"sqrt", "sin", "cos", "Min", "Max", "Rational"}
CONSTANTS = {"pi"}
LONGEST = 500
"""Characters; a longer text is no formula of geometry, and could be nested too deep to be walked."""
SHOWN = 60
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)
COMPARISONS = ([ast.Lt], [ast.Gt])


class Instance(Layout, tag_field="kind", tag="steps"):
    """A question for a number, and the way to it."""

    prompt: str
    answer_true: str
    answer_new: str


class Direct(Instance, tag_field="kind", tag="direct"):
    """A question for a number that can be written, too."""

    rephrasing: str
    target_true: str
    target_new: str


class Neighbor(Layout):
    """A rule that should stay as it is."""

    rule: str
    kind: str


class Link(Layout):
    """A rule that depends on an edited one."""

    rule: str
    link: str
    formula_new: str
    instances: list[Instance | Direct]


class Written(Layout):
    """What a record must have."""

    id: Name
    dim: Literal["2D", "3D"]
    shape: str
    property: str
    subject: str
    lhs: str
    variables: dict[str, str]
    derived: dict[str, str]
    constraints: list[str]
    formula: str
    formula_new: str
    equation: str
    equation_new: str
    description: str
    description_new: str
    formula_prompt: str
    description_prompt: str
    formula_rephrasings: list[str]
    description_rephrasings: list[str]
    out_of_scope: list[Neighbor]
    instances: list[Instance | Direct]
    unseen: list[Instance | Direct]
    hierarchy: list[Link]


def flaws(record: Record) -> Iterator[str]:
    """Say what is wrong with a record. Raises `ValueError` if it has no direct instance."""
    instances = [*record["instances"], *record["unseen"]]
    linked = [each for link in record["hierarchy"] for each in link["instances"]]
    if all(each["kind"] != "direct" for each in record["instances"]):
        raise ValueError("instances has none of the kind direct")
    for each in (*instances, *linked):
        yield from _unreadable((each["answer_true"], each["answer_new"]), ())
        if each["answer_new"] == each["answer_true"]:
            yield f"answer_new is the old one, {each['answer_true']!r}"
    prompts = [each["prompt"] for each in instances if each["kind"] == "direct"]
    for prompt in (record["formula_prompt"], record["description_prompt"], *prompts):
        yield from _misplaced(prompt, record["subject"])
    symbols = record["variables"]
    formulas = (record["formula"], record["formula_new"], *record["derived"].values())
    yield from _unreadable(formulas, symbols)
    yield from filter(None, (wrong_constraint(text, symbols) for text in record["constraints"]))
    if record["formula"] == record["formula_new"]:
        yield f"formula_new is the old one, {record['formula']!r}"


def _unreadable(formulas: Iterable[str], symbols: Collection[str]) -> Iterator[str]:
    return filter(None, (wrong_formula(text, symbols) for text in formulas))


def _misplaced(prompt: str, subject: str) -> Iterator[str]:
    """Say why the subject cannot be cut out of a prompt."""
    if SUBJECT in prompt:
        yield f"the prompt {prompt!r} has a {SUBJECT!r} of its own, which stands for the subject"
    elif subject.strip() and (count := prompt.count(subject)) != 1:
        times = "more than once" if count else "not"
        yield f"the prompt {prompt!r} has the subject {subject!r} {times} in it"


def unknown(rules: Mapping[str, Entry]) -> list[str]:
    """Say which rules are asked of, and are not there."""
    return [
        f"rule {name!r} asks of the rule {other!r}, which is not there"
        for name, (record, _) in rules.items()
        for other in asked_of(record)
        if other not in rules
    ]


def asked_of(record: Record) -> list[str]:
    """Return the other rules that a rule's probes ask of."""
    return [other["rule"] for other in (*record["out_of_scope"], *record["hierarchy"])]


def problems(entry: Entry, rules: Mapping[str, Entry]) -> str:
    """Say why no case can be made of a record: its own flaws, or those of what it asks of."""
    record, found = entry
    useless = [
        f"it asks of the rule {name!r}, which cannot be used"
        for name in asked_of(record)
        if rules[name].problem
    ]
    linked = [
        wrong_formula(link["formula_new"], rules[link["rule"]].record["variables"])
        for link in record["hierarchy"]
    ]
    told = "; ".join(filter(None, (found, *useless, *linked)))
    return told if found or not told else f"rule {record['id']!r}: {told}"


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
