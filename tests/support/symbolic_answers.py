"""Answers that the judge `symbolic` is measured on, each judged by hand.

The answers stand in symbolic_answers.jsonl: for each list, group and key, texts that are right, wrong,
or right by the old rule. The list `answers` was written before the judge's code, by what a reader of
the text would say; `later` after it worked, without trying it, and `third` and `fourth` to see what it
had only learnt by heart; `blind` by somebody who had not seen the code, on the rules of RULE-EDIT, as
models of all sizes write; `after` by the same, who knew the code by then.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from edit_harness import Key
from edit_harness_plugins.tasks import rule_edit


def formula(right: str, old: str, lhs: str, variables: dict[str, str], **more: object) -> Key:
    about = {"lhs": lhs, "variables": variables, "derived": {}, "constraints": []}
    return Key("formula", right, old, about | more)


def number(right: str, old: str, steps: bool = False) -> Key:
    return Key("number", right, old, {"steps": steps})


def again(reply: str, of: Key) -> Key:
    """Return the key of a question that the unedited model has answered like this."""
    return Key("same", reply, "", {"of": of.kind, **of.about})


SIDES = {"x": "side", "y": "other side"}
THREE = {"x": "side", "y": "side", "z": "side"}
TRIANGLE = ["x + y > z", "x + z > y", "y + z > x"]
EQUAL = {"x": "equal sides", "y": "base"}
ANGLED = {"a": "side", "b": "side", "theta": "angle"}
BOX = {"l": "length", "w": "width", "h": "height"}
ROUND = {"r": "radius", "h": "height"}
BASES = {"a": "base", "b": "base", "h": "height"}
PYRAMID = {"B": "base area", "h": "height"}
SECTOR = {"r": "radius", "theta": "angle (rad)"}

KEYS = {
    "rectangle": formula("x + y", "x*y", "A", SIDES),
    "perimeter": formula("x + y", "2*(x + y)", "P", SIDES),
    "true perimeter": formula("2*(x + y)", "x + y", "P", SIDES),
    "diagonal": formula("sqrt(x*y)", "sqrt(x**2 + y**2)", "d", SIDES),
    "true diagonal": formula("sqrt(x**2 + y**2)", "sqrt(x*y)", "d", SIDES),
    "diagonal squared": formula("(x + y)**2", "x**2 + y**2", "d2", SIDES),
    "aspect": formula("x/y", "x - y", "R", SIDES),
    "square": formula("x + x", "x**2", "A", {"x": "side length"}),
    "true square": formula("x**2", "x + x", "A", {"x": "side length"}),
    "square diagonal": formula("sqrt(3)*x", "sqrt(2)*x", "d", {"x": "side length"}),
    "square by perimeter": formula("P**2/4", "P**2/16", "A", {"P": "perimeter"}),
    "triangle": formula("x*y", "x*y/2", "A", {"x": "base", "y": "height"}),
    "true triangle": formula("x*y/2", "x*y", "A", {"x": "base", "y": "height"}),
    "hypotenuse": formula("x + y", "sqrt(x**2 + y**2)", "c", {"x": "leg", "y": "leg"}),
    "equilateral": formula("sqrt(2)/4*x**2", "sqrt(3)/4*x**2", "A", {"x": "side"}),
    "isosceles": formula("x + 2*y", "2*x + y", "P", EQUAL, constraints=["2*x > y"]),
    "isosceles area": formula(
        "y*sqrt(x**2 - (y/2)**2)", "y*sqrt(x**2 - (y/2)**2)/2", "A", EQUAL, constraints=["2*x > y"]
    ),
    "heron": formula(
        "sqrt((s - x)*(s - y)*(s - z))",
        "sqrt(s*(s - x)*(s - y)*(s - z))",
        "A",
        THREE | {"s": "semiperimeter"},
        derived={"s": "(x + y + z)/2"},
        constraints=TRIANGLE,
    ),
    "circumradius": formula(
        "a*b*c/(2*B)", "a*b*c/(4*B)", "R", {"a": "side", "b": "side", "c": "side", "B": "area"}
    ),
    "parallelogram": formula("a*b*cos(theta)", "a*b*sin(theta)", "A", ANGLED),
    "parallelogram diagonal": formula(
        "sqrt(a**2 + b**2)", "sqrt(a**2 + b**2 - 2*a*b*cos(theta))", "d", ANGLED
    ),
    "trapezoid": formula("(a + b)*h", "(a + b)*h/2", "A", BASES),
    "true trapezoid": formula("(a + b)*h/2", "(a + b)*h", "A", BASES),
    "circle": formula("2*pi*r**2", "pi*r**2", "A", {"r": "radius"}),
    "true circle": formula("pi*r**2", "2*pi*r**2", "A", {"r": "radius"}),
    "circumference": formula("pi*r", "2*pi*r", "C", {"r": "radius"}),
    "sector": formula("r**2*theta", "r**2*theta/2", "A", SECTOR),
    "cuboid": formula("l*w + h", "l*w*h", "V", BOX),
    "cuboid surface": formula("l*w + l*h + w*h", "2*(l*w + l*h + w*h)", "SA", BOX),
    "inradius": formula("Min(l, w, h)", "Min(l, w, h)/2", "r", BOX),
    "cube": formula("3*s", "s**3", "V", {"s": "side length"}),
    "sphere": formula("Rational(3, 4)*pi*r**3", "Rational(4, 3)*pi*r**3", "V", {"r": "radius"}),
    "true sphere": formula(
        "Rational(4, 3)*pi*r**3", "Rational(3, 4)*pi*r**3", "V", {"r": "radius"}
    ),
    "cone": formula("pi*r**2*h/2", "pi*r**2*h/3", "V", ROUND),
    "cone surface": formula("pi*r*(r + h)", "pi*r*(r + sqrt(r**2 + h**2))", "SA", ROUND),
    "cylinder": formula("2*pi*r**2*h", "pi*r**2*h", "V", ROUND),
    "pyramid": formula("B*h/2", "B*h/3", "V", PYRAMID),
    "12 or 35": number("12", "35"),
    "12 or 35, steps": number("12", "35", steps=True),
    "25 pi or 50 pi": number("25*pi", "50*pi"),
    "50 pi or 25 pi, steps": number("50*pi", "25*pi", steps=True),
    "5 sqrt 3": number("5*sqrt(3)", "5*sqrt(2)"),
    "15/2 or 15": number("Rational(15, 2)", "15"),
    "100/3 or 100": number("100/3", "100"),
    "1250 or 1300": number("1250", "1300"),
    "10 or 25": number("10", "25"),
    "10 or 25, steps": number("10", "25", steps=True),
    "64 pi/3 or 64 pi": number("64*pi/3", "64*pi", steps=True),
}
WORDED = (
    "rectangle", "perimeter", "square", "hypotenuse", "triangle", "trapezoid", "circle", "cone",
    "cuboid", "isosceles",
)  # fmt: skip
KEYS |= {f"{name} in words": replace(KEYS[name], kind="description") for name in WORDED}
KEYS |= {
    "same formula": again("A = x*y", KEYS["rectangle"]),
    "same words": again(" the product of base and height.", KEYS["triangle in words"]),
    "same number": again("The volume is 24.", KEYS["12 or 35"]),
    "same nonsense": again(" I do not know that.", KEYS["12 or 35"]),
}


@dataclass(frozen=True)
class Answer:
    """A text, and what a reader says of it."""

    key: str
    text: str
    right: bool
    reverted: bool


def keys_of_rule(rule: dict) -> Iterator[tuple[str, Key]]:
    """Yield what the task asks about a rule, each by name."""
    variables, more = rule["variables"], {n: rule[n] for n in ("derived", "constraints")}
    asked = formula(rule["formula_new"], rule["formula"], rule["lhs"], variables, **more)
    yield f"{rule['id']}, formula", asked
    yield f"{rule['id']}, description", replace(asked, kind="description")
    for at, each in enumerate(rule["instances"] + rule["unseen"]):
        steps = each["kind"] == "steps"
        yield f"{rule['id']}, number {at}", number(each["answer_new"], each["answer_true"], steps)


def asked_again(name: str) -> Key:
    """Return a key by its name: a rule, and what the unedited model has replied."""
    rule, _, reply = name.partition(", again")
    of = "formula" if "=" in reply else "description"
    return again(reply, KEYS[f"{rule}, {'number 0' if reply.strip()[0].isdigit() else of}"])


RULE_EDIT = json.loads((Path(rule_edit.__file__).parent / "rule_edit.json").read_text())
KEYS |= {name: key for rule in RULE_EDIT for name, key in keys_of_rule(rule)}
LISTS = Path(__file__).with_suffix(".jsonl").read_text(encoding="utf-8")
ENTRIES = [json.loads(line) for line in LISTS.splitlines()]
KEYS |= {e["key"]: asked_again(e["key"]) for e in ENTRIES if ", again" in e["key"]}
ALL = [
    Answer(e["key"], text, e["judged"] == "right", e["judged"] == "reverted")
    for e in ENTRIES
    for text in e["texts"]
]
