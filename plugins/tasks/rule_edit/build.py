"""``python -m edit_harness_plugins.tasks.rule_edit.build``: make the data set from the rules.

Every draw has a seed of its own, of the rule's id and what is drawn, so that a changed rule leaves
the numbers of the others as they are. Needs sympy; the task itself does not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from .rules import Drawn, Link, Rule, Source, draw, load, shown

SHIPPED = Path(__file__).with_name("rule_edit.json")
SEED = 1
NEIGHBOURS = 4
"""Per rule; half of them of its own shape, where that has enough."""


COPIED = (
    "id", "dim", "shape", "property", "subject", "lhs", "variables", "units", "derived", "constraints",
    "counterfactual", "formula", "formula_new",
)  # fmt: skip
"""What a record has as the rule has it."""


def build(source: Source) -> list[dict[str, Any]]:
    """Return the records, in the order of the rules."""
    return [record(rule, source) for rule in source.rules.values()]


def record(rule: Rule, source: Source) -> dict[str, Any]:
    """Return all that is asked about one rule."""
    # The prompts are ours, but for the ends of the two edit prompts, which the paper shows. The subject stands
    # in every edit prompt exactly once, so that editors that write at its last token apply.
    given = listing([_symbol(rule, symbol) for symbol in rule.variables])
    name = f"{rule.subject} in terms of {rule.terms}" if rule.terms else rule.subject
    drawn = draw(rule, rule.formula_new, 6, _seeded(rule, "instances"))
    return {
        **{name: getattr(rule, name) for name in COPIED},
        "equation": equation(rule.lhs, rule.formula),
        "equation_new": equation(rule.lhs, rule.formula_new),
        "description": rule.description,
        "description_new": rule.description_new,
        "formula_prompt": f"The {rule.subject} with {given} can be calculated by the formula:",
        "formula_rephrasings": [
            f"For {given}, the formula for the {rule.subject} is",
            f"To find the {rule.subject} from {given}, use the formula",
        ],
        "description_prompt": f"The {name} can be described as",
        "description_rephrasings": [f"In words, the {name} is", f"To get the {name}, calculate"],
        "out_of_scope": neighbours(rule, source),
        "instances": [
            *(direct(rule, each) for each in drawn[:2]),
            *(steps(rule, each) for each in drawn[2:4]),
        ],
        "unseen": [direct(rule, each) for each in drawn[4:]],
        "hierarchy": [linked(rule, link, source) for link in source.hierarchy.get(rule.id, ())],
    }


def neighbours(rule: Rule, source: Source) -> list[dict[str, str]]:
    """Draw rules that the edit should leave alone, half of them of the same shape if there are."""
    touched = source.touched(rule)
    free = [other for other in source.rules.values() if other.id not in touched]
    same = [other.id for other in free if other.shape == rule.shape]
    others = [other.id for other in free if other.shape != rule.shape]
    rng = _seeded(rule, "neighbours")
    near = rng.sample(same, min(len(same), NEIGHBOURS // 2))
    far = rng.sample(others, NEIGHBOURS - len(near))
    return [
        *({"rule": other, "kind": "same_shape"} for other in near),
        *({"rule": other, "kind": "other_shape"} for other in far),
    ]


def direct(rule: Rule, drawn: Drawn) -> dict[str, Any]:
    """Return an instance that asks for the number at once; it can be written, too."""
    facts = _facts(rule, drawn.values)
    targets = {"target_true": shown(drawn.true), "target_new": shown(drawn.new)}
    asked = {
        "kind": "direct",
        "prompt": f"If {facts}, the {rule.subject} is",
        "rephrasing": f"Suppose {facts}. Then the {rule.subject} equals",
    }
    return asked | _answers(drawn) | targets


def steps(rule: Rule, drawn: Drawn) -> dict[str, Any]:
    """Return an instance that asks for a worked solution."""
    facts = _facts(rule, drawn.values)
    prompt = f"If {facts}, the {rule.subject} is worked out step by step as follows:"
    return {"kind": "steps", "prompt": prompt, **_answers(drawn)}


def linked(base: Rule, link: Link, source: Source) -> dict[str, Any]:
    """Return what is asked of a rule that the edit of another one changes."""
    rule = source.rules[link.rule]
    first, second = draw(rule, link.formula, 2, _seeded(base, f"hierarchy:{rule.id}"))
    return {
        "rule": rule.id,
        "link": link.link,
        "formula_new": link.formula,
        "instances": [direct(rule, first), steps(rule, second)],
    }


def dumps(records: Sequence[dict[str, Any]]) -> str:
    """Return the records as the file has them."""
    return json.dumps(records, ensure_ascii=False, indent=1) + "\n"


def equation(lhs: str, formula: str) -> str:
    """Return the equation that a model is to write: x^2 for ``x**2``; a left side d2 is d's square."""
    right = formula.replace("**", "^").replace("Min(", "min(").replace("Max(", "max(")
    return f"{re.sub(r'(?<=[A-Za-z])2$', '^2', lhs)} = {right}"


def _answers(drawn: Drawn) -> dict[str, Any]:
    return {"values": drawn.values, "answer_true": str(drawn.true), "answer_new": str(drawn.new)}


def _seeded(rule: Rule, what: str) -> Random:
    return Random(f"{SEED}:{rule.id}:{what}")


def listing(parts: Sequence[str]) -> str:
    """Return texts as a list in a sentence."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _symbol(rule: Rule, symbol: str) -> str:
    # Only radians are in the formula itself; a sine is the same in every unit.
    unit = " in radians" if rule.units.get(symbol) == "radians" else ""
    return f"{rule.variables[symbol]} {symbol}{unit}"


def _facts(rule: Rule, values: Mapping[str, float]) -> str:
    facts = []
    for symbol, quantity in rule.variables.items():
        unit = f" {rule.units[symbol]}" if symbol in rule.units else ""
        facts.append(f"the {quantity} is {values[symbol]}{unit}")
    return listing(facts)


if __name__ == "__main__":
    SHIPPED.write_text(dumps(build(load())), encoding="utf-8", newline="\n")
