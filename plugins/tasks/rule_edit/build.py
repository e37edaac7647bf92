"""``python -m edit_harness_plugins.tasks.rule_edit.build``: make the data set from the rules.

Every draw has a seed of its own, of the rule's id and what is drawn, so that a changed rule leaves
the numbers of the others as they are. Needs sympy; the task itself does not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from .rules import Drawn, Link, Rule, Source, Values, draw, load, shown

SHIPPED = {
    "paper": Path(__file__).with_name("rule_edit.json"),
    "named": Path(__file__).with_name("rule_edit_named.json"),
}
"""The file of each wording."""
SEED = 1
NEIGHBOURS = 4
"""Per rule; half of them of its own shape, where that has enough."""


COPIED = (
    "id", "dim", "shape", "property", "subject", "lhs", "variables", "units", "derived", "constraints",
    "counterfactual", "formula", "formula_new",
)  # fmt: skip
"""What a record has as the rule has it."""

WORDINGS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "paper": {
        "subject": ("{figure}",),
        "formula": (
            "{A_figure} has {given}. Its {asked} can be calculated by the formula:",
            "Given {a_figure} with {given}, the formula for its {asked} is",
        ),
        "description": (
            "{A_figure} has {given}. Its {asked} can be described as",
            "In words, the {asked} of {a_figure} with {given} is",
        ),
        "direct": (
            "{A_figure} has {given}. Its {asked} is",
            "Given {a_figure} with {given}, its {asked} equals",
        ),
        "steps": ("{A_figure} has {given}. Its {asked} is worked out step by step as follows:",),
    },
    "named": {
        "subject": ("{subject}",),
        "formula": (
            "The {subject} with {given} can be calculated by the formula:",
            "For {given}, the formula for the {subject} is",
            "To find the {subject} from {given}, use the formula",
        ),
        "description": (
            "The {subject}{terms} can be described as",
            "In words, the {subject}{terms} is",
            "To get the {subject}{terms}, calculate",
        ),
        "direct": ("If {facts}, the {subject} is", "Suppose {facts}. Then the {subject} equals"),
        "steps": ("If {facts}, the {subject} is worked out step by step as follows:",),
    },
}
"""What each wording asks: the prompt, and then its rephrasings.

The paper shows the first formula prompt, with the figure as its subject, and how the description prompt ends.
The subject is one word or more that stand in every edit prompt exactly once: editors write at its last token.
"""


@dataclass(frozen=True)
class Writer:
    """Builds the records in one wording, "paper" or "named"."""

    source: Source
    wording: str

    def build(self) -> list[dict[str, Any]]:
        """Return the records, in the order of the rules."""
        return [self.record(rule) for rule in self.source.rules.values()]

    def record(self, rule: Rule) -> dict[str, Any]:
        """Return all that is asked about one rule."""
        drawn = draw(rule, rule.formula_new, 6, _seeded(rule, "instances"))
        formula, *formulas = self.asked("formula", rule)
        description, *descriptions = self.asked("description", rule)
        return {
            **{name: getattr(rule, name) for name in COPIED},
            "subject": self.asked("subject", rule)[0],
            "equation": equation(rule.lhs, rule.formula),
            "equation_new": equation(rule.lhs, rule.formula_new),
            "description": rule.description,
            "description_new": rule.description_new,
            "formula_prompt": formula,
            "formula_rephrasings": formulas,
            "description_prompt": description,
            "description_rephrasings": descriptions,
            "out_of_scope": neighbours(rule, self.source),
            "instances": [
                *(self.direct(rule, each) for each in drawn[:2]),
                *(self.steps(rule, each) for each in drawn[2:4]),
            ],
            "unseen": [self.direct(rule, each) for each in drawn[4:]],
            "hierarchy": [self.linked(rule, link) for link in self.source.hierarchy.get(rule.id, ())],
        }

    def asked(self, form: str, rule: Rule, values: Values | None = None) -> list[str]:
        """Return what the wording asks of a rule, or of an instance with such values."""
        said = words(rule, values)
        return [text.format_map(said) for text in WORDINGS[self.wording][form]]

    def direct(self, rule: Rule, drawn: Drawn) -> dict[str, Any]:
        """Return an instance that asks for the number at once; it can be written, too."""
        prompt, rephrasing = self.asked("direct", rule, drawn.values)
        targets = {"target_true": shown(drawn.true), "target_new": shown(drawn.new)}
        asked = {"kind": "direct", "prompt": prompt, "rephrasing": rephrasing}
        return asked | _answers(drawn) | targets

    def steps(self, rule: Rule, drawn: Drawn) -> dict[str, Any]:
        """Return an instance that asks for a worked solution."""
        (prompt,) = self.asked("steps", rule, drawn.values)
        return {"kind": "steps", "prompt": prompt, **_answers(drawn)}

    def linked(self, base: Rule, link: Link) -> dict[str, Any]:
        """Return what is asked of a rule that the edit of another one changes."""
        rule = self.source.rules[link.rule]
        first, second = draw(rule, link.formula, 2, _seeded(base, f"hierarchy:{rule.id}"))
        return {
            "rule": rule.id,
            "link": link.link,
            "formula_new": link.formula,
            "instances": [self.direct(rule, first), self.steps(rule, second)],
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


def words(rule: Rule, values: Values | None = None) -> dict[str, str]:
    """Return what stands in the places of a wording; symbols are given where no values are."""
    asked, _, figure = rule.subject.rpartition(" of ")
    given = {symbol: f"{(values or {}).get(symbol, symbol)}" for symbol in rule.variables}
    for symbol, unit in rule.units.items():
        # Only radians are in the formula itself; a sine is the same in every unit.
        given[symbol] += f" {unit}" if values else " in radians" if unit == "radians" else ""
    return {
        "subject": rule.subject,
        "terms": f" in terms of {rule.terms}" if rule.terms else "",
        "asked": rule.asked or asked,
        "a_figure": figure,
        "A_figure": figure[0].upper() + figure[1:],
        "figure": figure.partition(" ")[2],
        "given": listing([f"{rule.variables[s]} {value}" for s, value in given.items()]),
        "facts": listing([f"the {rule.variables[s]} is {value}" for s, value in given.items()]),
    }


if __name__ == "__main__":
    for wording, path in SHIPPED.items():
        records = Writer(load(), wording).build()
        path.write_text(dumps(records), encoding="utf-8", newline="\n")
