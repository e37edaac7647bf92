"""``python -m edit_harness_plugins.tasks.rule_edit.build``: make the data set from the rules.

    ... build RULES.json OUT.json     writes the records
    ... build --check                 tells whether the shipped ones are those of the shipped rules

Every draw has a seed of its own, of the rule's id and what is drawn, so that a changed rule leaves
the numbers of the others as they are. Needs sympy; the task itself does not.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from edit_harness import HarnessError

from .drawing import Drawn, draw, shown
from .formulas import equation
from .rules import SOURCE, Link, Rule, Source, load
from .wording import description_prompts, direct_prompts, formula_prompts, steps_prompt

SHIPPED = Path(__file__).with_name("rule_edit.json")
SEED = 1
NEIGHBOURS = 4
"""Per rule; half of them of its own shape, where that has enough."""


def build(source: Source) -> list[dict[str, Any]]:
    """Return the records, in the order of the rules."""
    return [record(rule, source) for rule in source.rules.values()]


def record(rule: Rule, source: Source) -> dict[str, Any]:
    """Return all that is asked about one rule."""
    formula, *formulas = formula_prompts(rule)
    description, *descriptions = description_prompts(rule)
    drawn = draw(rule, rule.formula_new, 6, _seeded(rule, "instances"))
    return {
        "id": rule.id,
        "dim": rule.dim,
        "shape": rule.shape,
        "property": rule.property,
        "subject": rule.subject,
        "lhs": rule.lhs,
        "variables": rule.variables,
        "units": rule.units,
        "derived": rule.derived,
        "constraints": rule.constraints,
        "counterfactual": rule.counterfactual,
        "formula": rule.formula,
        "formula_new": rule.formula_new,
        "equation": equation(rule.lhs, rule.formula),
        "equation_new": equation(rule.lhs, rule.formula_new),
        "description": rule.description,
        "description_new": rule.description_new,
        "formula_prompt": formula,
        "formula_rephrasings": formulas,
        "description_prompt": description,
        "description_rephrasings": descriptions,
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
    prompt, rephrasing = direct_prompts(rule, drawn.values)
    targets = {"target_true": shown(drawn.true), "target_new": shown(drawn.new)}
    return {
        "kind": "direct",
        "prompt": prompt,
        "rephrasing": rephrasing,
        **_answers(drawn),
        **targets,
    }


def steps(rule: Rule, drawn: Drawn) -> dict[str, Any]:
    """Return an instance that asks for a worked solution."""
    return {"kind": "steps", "prompt": steps_prompt(rule, drawn.values), **_answers(drawn)}


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


def _answers(drawn: Drawn) -> dict[str, Any]:
    return {"values": drawn.values, "answer_true": str(drawn.true), "answer_new": str(drawn.new)}


def _seeded(rule: Rule, what: str) -> Random:
    return Random(f"{SEED}:{rule.id}:{what}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the data set, or check the shipped one; return the exit code."""
    parser = argparse.ArgumentParser(prog="rule_edit.build", description="Make RULE-EDIT")
    parser.add_argument("rules", nargs="?", type=Path, default=SOURCE, metavar="RULES.json")
    parser.add_argument("out", nargs="?", type=Path, default=SHIPPED, metavar="OUT.json")
    parser.add_argument("--check", action="store_true", help="compare with OUT.json, write nothing")
    given = parser.parse_args(arguments)
    try:
        text = dumps(build(load(given.rules)))
    except HarnessError as error:
        print(error, file=sys.stderr)
        return error.code
    if not given.check:
        given.out.write_text(text, encoding="utf-8", newline="\n")
        return 0
    same = given.out.is_file() and given.out.read_bytes() == text.encode()
    print(f"{given.out} is {'' if same else 'not '}what the rules give")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
