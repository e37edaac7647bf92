"""``python -m tools.rule_edit``: make the data sets from the rules.

Every draw has a seed of its own, of the rule's id and what is drawn, so that a changed rule leaves
the numbers of the others as they are. Needs sympy; the task itself does not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from edit_harness_plugins.tasks.rule_edit.task import BUNDLED

from .rules import Drawn, Link, Rule, Source, Values, draw, load, shown

SEED = 1
NEIGHBOURS = 4
"""Per rule; half of them of its own shape, where that has enough."""
KINDS = ("direct", "direct", "steps", "steps", "direct", "direct")
"""The instances of a rule; the last two are the unseen ones of instance editing."""
COPIED = (
    "id", "dim", "shape", "property", "subject", "lhs", "variables", "units", "derived", "constraints",
    "counterfactual", "formula", "formula_new",
)  # fmt: skip
"""What a record has as the rule has it."""


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
        drawn = draw(rule, rule.formula_new, len(KINDS), _seeded(rule, "instances"))
        made = [self.instance(kind, rule, each) for kind, each in zip(KINDS, drawn, strict=True)]
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
            "instances": made[:4],
            "unseen": made[4:],
            "hierarchy": [self.linked(rule, x) for x in self.source.hierarchy.get(rule.id, ())],
        }

    def asked(self, form: str, rule: Rule, values: Values | None = None) -> list[str]:
        """Return what the wording asks of a rule, or of an instance with such values."""
        said = words(rule, values)
        return [text.format_map(said) for text in self.source.wordings[self.wording][form]]

    def instance(self, kind: str, rule: Rule, drawn: Drawn) -> dict[str, Any]:
        """Return an instance; one that asks for the number at once ("direct") can be written, too."""
        true, new = drawn.true, drawn.new
        asked = zip(("prompt", "rephrasing"), self.asked(kind, rule, drawn.values), strict=False)
        answers = {"values": drawn.values, "answer_true": str(true), "answer_new": str(new)}
        targets = {"target_true": shown(true), "target_new": shown(new)}
        return {"kind": kind, **dict(asked), **answers, **(targets if kind == "direct" else {})}

    def linked(self, base: Rule, link: Link) -> dict[str, Any]:
        """Return what is asked of a rule that the edit of another one changes."""
        rule = self.source.rules[link.rule]
        first, second = draw(rule, link.formula, 2, _seeded(base, f"hierarchy:{rule.id}"))
        return {
            "rule": rule.id,
            "link": link.link,
            "formula_new": link.formula,
            "instances": [
                self.instance("direct", rule, first),
                self.instance("steps", rule, second),
            ],
        }


def neighbours(rule: Rule, source: Source) -> list[dict[str, str]]:
    """Draw rules that the edit should leave alone, half of them of the same shape if there are."""
    touched = source.touched(rule)
    free = [other for other in source.rules.values() if other.id not in touched]
    same = [other.id for other in free if other.shape == rule.shape]
    others = [other.id for other in free if other.shape != rule.shape]
    rng = _seeded(rule, "neighbours")
    near = rng.sample(same, min(len(same), NEIGHBOURS // 2))
    found = [*near, *rng.sample(others, NEIGHBOURS - len(near))]
    return [{"rule": x, "kind": "same_shape" if x in near else "other_shape"} for x in found]


def dumps(records: Sequence[dict[str, Any]]) -> str:
    """Return the records as the file has them."""
    return json.dumps(records, ensure_ascii=False, indent=1) + "\n"


def equation(lhs: str, formula: str) -> str:
    """Return the equation that a model is to write: x^2 for ``x**2``; a left side d2 is d's square."""
    right = formula.replace("**", "^").replace("Min(", "min(").replace("Max(", "max(")
    return f"{re.sub(r'(?<=[A-Za-z])2$', '^2', lhs)} = {right}"


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
        if values or unit == "radians":
            given[symbol] += f" {unit}" if values else f" in {unit}"
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
    for wording, path in BUNDLED.items():
        records = Writer(load(), wording).build()
        path.write_text(dumps(records), encoding="utf-8", newline="\n")
