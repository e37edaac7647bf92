"""The prompts of a rule. Ours, but for the ends of the two edit prompts, which the paper shows.

The subject stands in every edit prompt exactly once, so that editors that write at a subject's last
token apply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .rules import Rule


def formula_prompts(rule: Rule) -> list[str]:
    """Return the prompt that asks for a formula, and its rephrasings."""
    given = listing([_symbol(rule, symbol) for symbol in rule.variables])
    return [
        f"The {rule.subject} with {given} can be calculated by the formula:",
        f"For {given}, the formula for the {rule.subject} is",
        f"To find the {rule.subject} from {given}, use the formula",
    ]


def description_prompts(rule: Rule) -> list[str]:
    """Return the prompt that asks for a description, and its rephrasings."""
    name = f"{rule.subject} in terms of {rule.terms}" if rule.terms else rule.subject
    return [
        f"The {name} can be described as",
        f"In words, the {name} is",
        f"To get the {name}, calculate",
    ]


def direct_prompts(rule: Rule, values: Mapping[str, float]) -> list[str]:
    """Return the prompt that asks for a number, and its rephrasing."""
    facts = _facts(rule, values)
    return [
        f"If {facts}, the {rule.subject} is",
        f"Suppose {facts}. Then the {rule.subject} equals",
    ]


def steps_prompt(rule: Rule, values: Mapping[str, float]) -> str:
    """Return the prompt that asks for a number and the way to it."""
    return f"If {_facts(rule, values)}, the {rule.subject} is worked out step by step as follows:"


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
