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
from dataclasses import dataclass
from pathlib import Path

from edit_harness import Key
from edit_harness_plugins.tasks import rule_edit


def formula(right: str, old: str, lhs: str, variables: dict[str, str], **more: object) -> Key:
    about = {"lhs": lhs, "variables": variables, "derived": {}, "constraints": []}
    return Key("formula", right, old, about | more)


def described(formula: Key, right: str, old: str) -> Key:
    about = {**formula.about, "texts": {"right": right, "old": old}}
    return Key("description", formula.right, formula.old, about)


def number(right: str, old: str, steps: bool = False) -> Key:
    return Key("number", right, old, {"unit": "", "steps": steps})


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
        "y*sqrt(x**2 - (y/2)**2)",
        "y*sqrt(x**2 - (y/2)**2)/2",
        "A",
        EQUAL,
        constraints=["2*x > y"],
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
        "a*b*c/(2*B)",
        "a*b*c/(4*B)",
        "R",
        {"a": "side", "b": "side", "c": "side", "B": "area"},
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
KEYS |= {
    "rectangle in words": described(
        KEYS["rectangle"], "the sum of its two side lengths", "the product of its two side lengths"
    ),
    "perimeter in words": described(
        KEYS["perimeter"],
        "the sum of its two side lengths taken only once",
        "two times the sum of its two side lengths",
    ),
    "square in words": described(
        KEYS["square"],
        "the side length added to itself",
        "the side length multiplied by itself",
    ),
    "hypotenuse in words": described(
        KEYS["hypotenuse"],
        "the sum of the two legs",
        "the square root of the sum of the squared legs",
    ),
    "triangle in words": described(
        KEYS["triangle"], "the full product of base and height", "half the product of the two"
    ),
    "trapezoid in words": described(
        KEYS["trapezoid"],
        "the sum of the bases times the height",
        "half the sum of the bases times the height",
    ),
    "circle in words": described(
        KEYS["circle"], "two pi times the squared radius", "pi times the squared radius"
    ),
    "cone in words": described(
        KEYS["cone"],
        "half of pi times the squared radius times the height",
        "one third of pi times the squared radius times the height",
    ),
    "cuboid in words": described(
        KEYS["cuboid"],
        "the product of length and width, plus the height",
        "the product of length, width and height",
    ),
    "isosceles in words": described(
        KEYS["isosceles"],
        "the equal side plus two times the base",
        "two times the equal side plus the base",
    ),
    "same formula": Key(
        "same", "A = x*y", "", {"of": "formula", "lhs": "A", "variables": SIDES, "derived": {}}
    ),
    "same words": Key(
        "same",
        " the product of base and height.",
        "",
        {"of": "description", **KEYS["triangle"].about, "texts": {}},
    ),
    "same number": Key(
        "same", "The volume is 24.", "", {"of": "number", "unit": "", "steps": False}
    ),
    "same nonsense": Key("same", " I do not know that.", "", {"of": "number"}),
}


@dataclass(frozen=True)
class Answer:
    """A text, and what a reader says of it."""

    group: str
    key: str
    text: str
    right: bool = False
    reverted: bool = False


AGAIN = {
    ("formula", "circle_area"): [" A = πr²", " A = πr^2, where r is the radius"],
    ("formula", "rectangle_perimeter"): [" P = 2(x + y)"],
    ("formula", "rectangle_area"): [" A = l × w", " A = length × width"],
    ("formula", "cuboid_volume"): [" V = lwh"],
    ("description", "rectangle_area"): [
        " the product of its length and width.",
        " the space inside it.",
    ],
    ("description", "circle_radius"): [" half the diameter"],
    ("description", "circle_circumference"): [" pi times the diameter"],
    ("description", "triangle_perimeter"): [" the sum of all its sides"],
    ("number", "rectangle_area"): [" 27", " 182", " 36π", " 12.5", " 50", " 1,000", " 5", " 78.5"],
    ("formula", "cone_volume"): [" V = 1/3 π r^2 h"],
    ("formula", "trapezoid_perimeter"): [" P = a + b + c + d"],
    ("description", "prism_volume"): [" the base area times the height"],
    ("number", "circle_area"): [" 19.63"],
}
"""Replies of the unedited model, by what was asked for and the rule."""


def keys_of_rule(rule: dict) -> Iterator[tuple[str, Key]]:
    """Yield what the task asks about a rule, each by name."""
    variables, more = rule["variables"], {n: rule[n] for n in ("derived", "constraints")}
    asked = formula(rule["formula_new"], rule["formula"], rule["lhs"], variables, **more)
    yield f"{rule['id']}, formula", asked
    texts = rule["description_new"], rule["description"]
    yield f"{rule['id']}, description", described(asked, *texts)
    for at, each in enumerate(rule["instances"] + rule["unseen"]):
        steps = each["kind"] == "steps"
        yield f"{rule['id']}, number {at}", number(each["answer_new"], each["answer_true"], steps)
    for of in ("formula", "description", "number"):
        about = {"unit": "", "steps": False} if of == "number" else asked.about
        for reply in AGAIN.get((of, rule["id"]), []):
            yield f"{rule['id']}, again{reply}", Key("same", reply, "", {"of": of, **about})


RULE_EDIT = json.loads((Path(rule_edit.__file__).parent / "rule_edit.json").read_text())
KEYS |= {name: key for rule in RULE_EDIT for name, key in keys_of_rule(rule)}


def answers() -> Iterator[tuple[str, Answer]]:
    """Yield all answers, each with the name of its list."""
    with Path(__file__).with_suffix(".jsonl").open(encoding="utf-8") as lines:
        for entry in map(json.loads, lines):
            verdict = entry["judged"]
            for text in entry["texts"]:
                yield (
                    entry["list"],
                    Answer(
                        entry["group"],
                        entry["key"],
                        text,
                        verdict == "right",
                        verdict == "reverted",
                    ),
                )


ALL = [answer for _, answer in answers()]
ANSWERS = [answer for name, answer in answers() if name == "answers"]
