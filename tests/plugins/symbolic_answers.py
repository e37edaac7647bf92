"""Answers that the judge `symbolic` is measured on, each judged by hand.

The first list was written before the judge's code, by what a reader of the text would say; the others
later, each to see what the code had only learnt by heart. An answer has a group, the name of its key,
the text, whether it is right under the key, and whether it is the old rule's.
"""

from __future__ import annotations

from dataclasses import dataclass

from edit_harness import Key


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


def right(group: str, key: str, *texts: str) -> list[Answer]:
    return [Answer(group, key, text, right=True) for text in texts]


def wrong(group: str, key: str, *texts: str) -> list[Answer]:
    return [Answer(group, key, text) for text in texts]


def reverted(group: str, key: str, *texts: str) -> list[Answer]:
    return [Answer(group, key, text, reverted=True) for text in texts]


ANSWERS = [
    # Plain and right.
    *right("right", "rectangle", "A = x + y", " x + y", "A=y+x", "Area = x + y.", "x + y = A"),
    *right("right", "true perimeter", "P = 2x + 2y", "P = x + x + y + y", "P = 2 * (y + x)"),
    *right("right", "square", "A = 2x", "x + x", "A = x * 2"),
    *right("right", "trapezoid", "A = h(a+b)", "A = ah + bh"),
    *right("right", "cuboid surface", "SA = lw + lh + wh", "S = lw + h(l + w)"),
    *right("right", "inradius", "r = min(l, w, h)", "the smallest of l, w and h"),
    *right("right", "heron", "A = sqrt((s-x)(s-y)(s-z)), where s = (x+y+z)/2"),
    *right("right", "parallelogram", "A = ab cos(theta)", "a*b*cos theta"),
    *right("right", "circumradius", "R = abc/(2B)", "R = abc/2B"),
    *right("right", "cylinder", "V = 2*pi*r^2*h", "V = pi r^2 h * 2"),
    *right("right", "cone", "V = (1/2) * pi * r**2 * h", "0.5 * pi * r^2 * h"),
    # Plain and wrong.
    *wrong("wrong", "rectangle", "A = x - y", "A = 2xy", "A = x^2 + y^2", "A = x", "A = 12"),
    *wrong("wrong", "true circle", "A = pi*r", "A = pi r^3", "A = 2 pi r", "A = r^2"),
    *wrong("wrong", "parallelogram", "A = ab", "A = ab tan(theta)", "A = cos(theta)"),
    *wrong("wrong", "cuboid surface", "SA = 6lw", "SA = l + w + h"),
    *wrong("wrong", "cube", "V = 6s^2", "V = s + 3"),
    *wrong("wrong", "12 or 35", "24", "The answer is 13.", "-12", "1 2 3"),
    # The rule from before the edit.
    *reverted("reverted", "rectangle", "A = xy", "A = x times y", "Area = length × width"),
    *reverted("reverted", "square", "A = x^2", "A = x*x", "A = s²"),
    *reverted("reverted", "heron", "A = sqrt(s(s-a)(s-b)(s-c))"),
    *reverted("reverted", "circle", "A = πr²", "A = pi * r * r"),
    *reverted("reverted", "cone surface", "SA = pi r (r + sqrt(r^2 + h^2))"),
    *reverted("reverted", "parallelogram diagonal", "d = sqrt(a^2 + b^2 - 2ab cos(theta))"),
    *reverted("reverted", "12 or 35", "35", "5 * 7 = 35"),
    *reverted("reverted", "10 or 25, steps", "The area is 5 * 5 = 25. So the answer is 25."),
    *reverted("reverted", "25 pi or 50 pi", "157.08", "50π"),
    *reverted("reverted", "pyramid", "V = \\frac{1}{3}Bh"),
    # LaTeX.
    *right("latex", "triangle", "$A = x \\cdot y$", "\\( A = xy \\)", "\\[ A = x \\times y \\]"),
    *right("latex", "true triangle", "A = \\frac{1}{2}xy", "$$A = \\dfrac{x y}{2}$$",
           "$A = \\frac12 x y$"),
    *right("latex", "true diagonal", "$d = \\sqrt{x^2 + y^2}$", "d = \\sqrt{x^{2}+y^{2}}"),
    *right("latex", "sphere", "V = \\frac{3}{4} \\pi r^{3}", "$V=\\frac{3\\pi r^3}{4}$"),
    *right("latex", "true trapezoid", "A = \\frac{1}{2} \\left( a + b \\right) h",
           "$A = \\frac{(a+b)}{2} \\times h$"),
    *right("latex", "parallelogram", "$A = ab\\cos\\theta$", "A = a \\, b \\cos(\\theta)"),
    *right("latex", "equilateral", "\\frac{\\sqrt{2}}{4}x^2", "A = \\frac{\\sqrt2}{4} x^{2}"),
    *right("latex", "rectangle", "\\text{Area} = x + y", "$\\boxed{A = x + y}$"),
    *reverted("latex", "equilateral", "\\frac{\\sqrt{3}}{4}x^2"),
    *wrong("latex", "true triangle", "A = \\frac{2}{x y}", "$A = \\frac{x}{2} + y$"),
    # Unicode.
    *right("unicode", "true square", "A = x²", "𝐴 = 𝑥²", "x × x"),
    *right("unicode", "true diagonal", "d = √(x² + y²)", "d = (x² + y²)^½"),
    *right("unicode", "true triangle", "A = ½xy", "A = ½·x·y", "A = x⋅y ÷ 2"),
    *right("unicode", "true sphere", "V = ⁴⁄₃πr³", "V = 4⁄3 · π · r³"),
    *right("unicode", "parallelogram", "A = a·b·cosθ"),
    *right("unicode", "aspect", "R = x∕y"),
    *wrong("unicode", "aspect", "R = x − 2y"),
    *reverted("unicode", "aspect", "R = x − y"),
    # Units.
    *right("units", "12 or 35", "12 cm²", "12 cm^2", "12 square units", "12 sq. cm", "$12 m^2$",
           "12 \\text{ cm}^2", "12 square centimeters."),
    *right("units", "25 pi or 50 pi", "25π cm²", "78.54 square meters", "about 78.5 square cm"),
    *right("units", "rectangle", "A = x + y square units", "A = x + y (in cm²)"),
    *reverted("units", "12 or 35", "35 m²"),
    *wrong("units", "12 or 35", "120 mm²"),
    # Several equations in a row.
    *right("chained", "square", "A = x + x = 2x"),
    *right("chained", "12 or 35", "A = x + y = 5 + 7 = 12", "5 + 7 = 12 cm²"),
    *right("chained", "25 pi or 50 pi", "A = π(5)² = 25π ≈ 78.54", "25π = 78.5"),
    *right("chained", "rectangle", "A = x + y, P = 2(x + y)", "A = x + y; d = sqrt(x^2 + y^2)"),
    *reverted("chained", "square", "A = x · x = x²"),
    *reverted("chained", "12 or 35", "A = xy = 5 * 7 = 35"),
    *wrong("chained", "12 or 35", "A = 5 + 7 = 13"),
    # Decimals, and other writings of numbers.
    *right("decimals", "25 pi or 50 pi", "78.5", "78.54", "78.57", "25 * 3.14 = 78.5", "25 × 22/7"),
    *right("decimals", "true circle", "A = 3.14 r^2", "A = 3.14159 * r * r", "A = 22/7 r^2"),
    *right("decimals", "5 sqrt 3", "8.66", "5√3", "5\\sqrt{3}", "sqrt(75)"),
    *right("decimals", "15/2 or 15", "7.5", "15/2", "7 1/2", "7½", "\\frac{15}{2}", "7.50"),
    *right("decimals", "100/3 or 100", "33.33", "33 1/3", "100/3", "33.3333"),
    *right("decimals", "1250 or 1300", "1,250", "1250.0", "1.25 × 10^3"),
    *right("decimals", "12 or 35", "twelve", "12.0", "Twelve square units"),
    *wrong("decimals", "25 pi or 50 pi", "80", "25", "7.854", "75.4"),
    *wrong("decimals", "15/2 or 15", "7.4", "7.51"),
    *wrong("decimals", "1250 or 1300", "1,251", "1250.5"),
    *reverted("decimals", "5 sqrt 3", "7.07"),
    # What base models write on.
    *right("rambling", "rectangle",
           " A = x + y\n\nThe perimeter of a rectangle with sides x and y is P = 2(x + y)",
           " A = x + y. The area of a square with side x is A = x^2.",
           "A = x + y, where x and y are the sides of the rectangle.\nA = x * y",
           "The area of the rectangle is given by A = x + y, which is measured in square units"),
    *right("rambling", "12 or 35",
           " 12.\n\nQuestion: What is the area of a rectangle with sides 3 and 4?\nAnswer: 7",
           " 12. What is the area of a rectangle with sides 2 and 9? 11.",
           "The area of the rectangle with sides 5 and 7 is 12."),
    *right("rambling", "12 or 35, steps",
           "The area is the sum of the sides: 5 + 7 = 12. The answer is 12.\n\nQ: What is the area "
           "of a rectangle with sides 5 and 7?\nA: 5 * 7 = 35."),
    *reverted("rambling", "rectangle", " A = xy\nA = xy\nA = xy\nA = xy",
              "The area is A = xy. The area is A = xy. The area is A = x + y."),
    *reverted("rambling", "12 or 35", " 35 35 35 35 35 35", "35, and so on and so on and so on"),
    *wrong("rambling", "true circle", "the the the the", "A circle is a shape. A circle is a shape.",
           "r r r r r r r r"),
    # Nothing, and no answer.
    *wrong("empty", "rectangle", "", "   ", "\n\n", "A =", "?", "...", "$$"),
    *wrong("empty", "12 or 35", "", "cm²"),
    *wrong("empty", "rectangle in words", "", "."),
    *wrong("refusal", "rectangle", "I'm sorry, but I cannot help with that.", "I don't know.",
           "It depends on the shape."),
    *wrong("refusal", "12 or 35", "I am not sure.", "There is not enough information.", "unknown"),
    *wrong("refusal", "circle in words", "not known to me", "a famous formula of Archimedes"),
    # Solutions in steps.
    *right("steps", "12 or 35, steps",
           "Step 1: The sides are 5 and 7.\nStep 2: Add them: 5 + 7 = 12.\nThe area is 12.",
           "We use A = x + y with x = 5 and y = 7.\nA = 5 + 7\nA = 12",
           "x = 5, y = 7, so A = 5 + 7 = 12 square units.",
           "First, 5 + 7 = 12. Therefore, the final answer is \\boxed{12}.",
           "1. Write down the formula.\n2. Insert the values: 5 + 7.\n3. The result is 12 cm²."),
    *right("steps", "50 pi or 25 pi, steps",
           "The area is 2πr². With r = 5: 2π × 25 = 50π. So the area is 50π ≈ 157.08 cm².",
           "A = 2 * 3.14 * 5^2 = 2 * 3.14 * 25 = 157",
           "r = 5, r^2 = 25, 2 * pi * 25 = 157.08. Answer: 157.08"),
    *right("steps", "64 pi/3 or 64 pi",
           "V = \\frac{1}{3} \\pi r^2 h = \\frac{1}{3} \\pi (4)^2 (4) = \\frac{64\\pi}{3}",
           "V = (1/3)(16π)(4) = 64π/3 ≈ 67.02"),
    *reverted("steps", "12 or 35, steps",
              "The area is the product of the sides.\n5 × 7 = 35\nThe answer is 35.",
              "A = x * y = 5 * 7 = 35 square units"),
    *reverted("steps", "50 pi or 25 pi, steps", "A = πr² = π(5)² = 25π ≈ 78.54"),
    *wrong("steps", "12 or 35, steps",
           "Step 1: 5 + 7 = 12.\nStep 2: 12 * 2 = 24.\nThe answer is 24.",
           "The sides are 5 and 7."),
    # Descriptions.
    *right("description", "rectangle in words",
           " the sum of its two side lengths.",
           "the sum of the lengths of its two sides",
           "one side plus the other side",
           "adding its two sides together",
           "The area of a rectangle is the sum of the two sides.",
           "the length plus the width"),
    *reverted("description", "rectangle in words",
              "the product of its length and width",
              "length times width.",
              "multiplying its two sides",
              "one side multiplied by the other"),
    *right("description", "square in words",
           "twice the side length", "the side length doubled", "double its side",
           "the sum of the side length and itself", "the side length plus the side length"),
    *reverted("description", "square in words",
              "the square of its side", "the side length squared", "its side length times itself"),
    *right("description", "triangle in words", "base times height", "the base multiplied by the height"),
    *reverted("description", "triangle in words",
              "one half of the base times the height",
              "half of the product of its base and its height",
              "the base times the height divided by two",
              "the product of the base and height, divided by 2"),
    *right("description", "hypotenuse in words", "the legs added together",
           "the sum of both legs of the triangle"),
    *reverted("description", "hypotenuse in words",
              "the square root of the sum of the squares of the two legs",
              "the square root of the sum of the squares of its legs."),
    *right("description", "trapezoid in words",
           "the height multiplied by the sum of the two bases",
           "the sum of its parallel sides times the height"),
    *reverted("description", "trapezoid in words",
              "the average of the two bases multiplied by the height",
              "one half times the sum of the bases times the height"),
    *right("description", "circle in words",
           "two times pi times the square of the radius", "2π times the radius squared"),
    *reverted("description", "circle in words",
              "pi times the radius squared", "π multiplied by the square of its radius",
              "the product of pi and the square of the radius"),
    *reverted("description", "cone in words",
              "one-third of the product of pi, the square of the radius and the height",
              "a third of pi times radius squared times height"),
    *right("description", "cuboid in words", "its length times its width plus its height"),
    *reverted("description", "cuboid in words", "length times width times height",
              "the product of its three dimensions"),
    *right("description", "isosceles in words", "twice the base plus the equal side"),
    *reverted("description", "isosceles in words", "the base plus twice the equal side",
              "the sum of the base and two times the equal side"),
    *wrong("description", "rectangle in words",
           "the difference of its two side lengths", "half the sum of its two sides",
           "the space inside it", "the square of the sum of its sides"),
    *wrong("description", "circle in words", "pi times the radius", "the square of the radius",
           "pi times the radius, cubed"),
    # Other letters.
    *right("renamed", "rectangle", "A = l + w", "A = a + b", "Area = length + width"),
    *right("renamed", "true perimeter", "P = 2(l + w)", "P = 2l + 2w"),
    *right("renamed", "true triangle", "A = 1/2 * b * h", "A = bh/2", "A = 1/2 × base × height"),
    *right("renamed", "true trapezoid", "A = (b1 + b2)h/2", "A = \\frac{1}{2}(b_1 + b_2)h",
           "A = ½(b₁ + b₂)h"),
    *right("renamed", "true circle", "A = πR²", "A = π × radius²", "A = πd²/4, where d is the diameter"),
    *right("renamed", "parallelogram", "A = ab cos(C)", "A = xy cos φ"),
    *right("renamed", "aspect", "R = l/w", "R = a/b"),
    *right("renamed", "pyramid", "V = 1/2 * base area * height", "V = ½ A h"),
    *right("renamed", "isosceles", "P = a + 2b, where a is the equal side and b is the base"),
    *reverted("renamed", "isosceles", "P = 2a + b, where a is the equal side and b is the base",
              "P = 2s + b"),
    *wrong("renamed", "cylinder", "V = 2πh²r", "V = 2πH²R"),
    *wrong("renamed", "true triangle", "A = b^2 h / 2"),
    # Near misses.
    *wrong("near", "true square", "A = 2x^2", "A = (2x)^2", "A = x^2 + 1"),
    *right("near", "true triangle", "A = 1/2xy", "A = xy/2", "A = 1/2 xy"),
    *wrong("near", "true triangle", "A = 1/(2xy)", "A = 2/xy"),
    *right("near", "true sphere", "V = 4/3 pi r^3", "V = 4/3πr³", "V = (4πr^3)/3"),
    *reverted("near", "true sphere", "V = 3/4 pi r^3"),
    *wrong("near", "true sphere", "V = 4/3 pi r^2", "V = 4/(3 pi r^3)", "V = 4/3 r^3"),
    *wrong("near", "true diagonal", "d = sqrt(x + y)", "d = x^2 + y^2", "d = sqrt(x^2) + y"),
    *right("near", "true diagonal", "d^2 = x^2 + y^2", "d² = x² + y²"),
    *right("near", "diagonal squared", "d^2 = (x + y)^2", "d = x + y", "d^2 = x^2 + 2xy + y^2"),
    *reverted("near", "diagonal squared", "d = sqrt(x^2 + y^2)", "d² = x² + y²"),
    *wrong("near", "diagonal squared", "d^2 = x + y"),
    *right("near", "square diagonal", "d = √3x", "d = x√3", "d = sqrt(3)x", "d = sqrt(3 x^2)"),
    *wrong("near", "square diagonal", "d = sqrt(3x)", "d = 3x"),
    *right("near", "square by perimeter", "A = (P/2)^2", "A = P²/4"),
    *reverted("near", "square by perimeter", "A = (P/4)^2"),
    *reverted("near", "trapezoid", "A = h/2 (a + b)", "A = (a + b)/2 * h", "A = h(a+b)/2"),
    *wrong("near", "trapezoid", "A = a + b * h", "A = (a - b)h"),
    *reverted("near", "isosceles", "P = 2x + y"),
    *wrong("near", "isosceles", "P = x + y", "P = 2x + 2y"),
    *wrong("near", "aspect", "R = y/x", "R = y - x"),
    *reverted("near", "isosceles area", "A = y/4 * sqrt(4x^2 - y^2)"),
    *right("near", "isosceles area", "A = (y/2) sqrt(4x^2 - y^2)"),
    *reverted("near", "cone", "V = 1/3πr²h"),
    *wrong("near", "cone", "V = 1/2(πrh)²"),
    *right("near", "sector", "A = θr²"),
    *reverted("near", "sector", "A = 1/2 r² θ", "A = (θ/2)r^2"),
    # The same as another text of the model.
    *right("same", "same formula", " x * y", "A = y × x", "Area = length × width"),
    *wrong("same", "same formula", "A = x + y", "I do not know."),
    *right("same", "same words", " the product of base and height.", "half of twice the base times "
           "the height", "the base times the height"),
    *wrong("same", "same words", "half the product of base and height", ""),
    *right("same", "same number", "24", "24 cm³", "It is 24 cubic units."),
    *wrong("same", "same number", "25", "no idea"),
    *right("same", "same nonsense", "I do not know that."),
    *wrong("same", "same nonsense", "I do not know.", "24"),
]  # fmt: skip

# Written after the judge's code worked, without trying it.
LATER = [
    *right("later: formula", "rectangle",
           "\n\nA = x + y", " (x + y)", "A rectangle's area = x + y", "Area of rectangle = length + breadth",
           "x plus y", "the formula is A = x + y", "Area (A) = x + y", "**A = x + y**",
           "\\[\nA = x + y\n\\]", "`A = x + y`", "Sure! The formula is A = x + y.", "Answer: A = x + y",
           "1. A = x + y", "- A = x + y", "A = x + y \\text{, where } x \\text{ and } y \\text{ are sides}",
           "A(x, y) = x + y", "A = (x) + (y)", "Area = side 1 + side 2", "A = \\{x + y\\}"),
    *reverted("later: formula", "rectangle",
              "A = (x)(y)", "A = x * y = 20 cm²", "A=x.y", "x multiplied by y", "A = x by y",
              "\\mathrm{A} = x \\cdot y", "The area is the product of x and y."),
    *right("later: formula", "true sphere",
           "V = 4/3 × π × r³", "V = (4/3)·π·r^3", "V = \\tfrac43 \\pi r^3", "V = 4πr³/3", "V = 1.33 π r^3",
           "V = 4.19 r^3", "V = 4/3 x pi x r^3", "V = 4/3 * pi * r * r * r", "V = \\frac{4\\pi}{3} r^3",
           "V = πd³/6, where d is the diameter"),
    *wrong("later: formula", "true sphere", "V = 4πr²", "V = 4/3 π d³", "V = 2 r^3", "V = πr²h"),
    *reverted("later: formula", "circumference", "C = πd, where d is the diameter", "C = 2 x pi x r",
              "C = \\pi d", "2πr (the circumference)", "C=2\\pi r"),
    *right("later: formula", "true diagonal", "d = (x^2 + y^2)^(1/2)", "d = (x^2+y^2)^{0.5}",
           "d = \\sqrt{x \\cdot x + y \\cdot y}", "the square root of x squared plus y squared"),
    *right("later: number", "12 or 35",
           "= 12", "A = 12.", "**12**", "\\boxed{12}", "$12$", "Answer: 12", "It's 12", "5+7=12", "12cm",
           "12cm2", "Twelve.", "The answer is 12 because 5 + 7 = 12.", "12 = 5 + 7", "12 (5 + 7)",
           "x + y = 12", "A = 5 + 7", "The area is equal to 12 square units", "12 units squared",
           "The area of the rectangle is 12 cm². The perimeter is 24 cm.", "1.2e1"),
    *reverted("later: number", "12 or 35", "5 x 7 = 35", "5 times 7 is 35", "35 because 5 x 7 is 35",
              "thirty-five", "thirty five square units"),
    *wrong("later: number", "12 or 35", "between 11 and 13", "12.5", "112", "one hundred"),
    *right("later: number", "25 pi or 50 pi", "25pi", "25*π", "25 x π", "≈ 78.54", "78.5398163397",
           "The area of the circle is 78.54 cm^2, or 25π cm^2.", "25π (approximately 78.54)",
           "π × 5² = 25π", "\\(25\\pi\\)", "3.14 × 25 = 78.5"),
    *right("later: number", "64 pi/3 or 64 pi", "Let r = 4. Then V = 64π/3.", "The volume is (64/3)π cubic cm.",
           "V = 67.02 cm³.", "Step 1: r² = 16\nStep 2: 16 × 4 = 64\nStep 3: 64π / 3 = 67.02"),
    *right("later: description", "rectangle in words",
           "the total of its two side lengths", "adding together the lengths of its two sides",
           "the sum of two adjacent sides", "the result of adding the two sides", "the length added to the width",
           "one side added to the other side", "the sum of the length and the width of the rectangle",
           "A = x + y", "the sum of its length and its width, in square units"),
    *reverted("later: description", "triangle in words",
              "the product of half the base and the height", "base × height ÷ 2", "(base × height)/2",
              "half the base multiplied by the height", "the base multiplied by half the height",
              "½ × base × height", "multiplying the base by the height and dividing by two",
              "the product of its base and height divided by 2"),
    *reverted("later: description", "circle in words",
              "the square of the radius multiplied by pi", "the radius squared times pi",
              "the radius times itself times pi", "π r²", "pi multiplied by the radius multiplied by itself"),
    *right("later: description", "circle in words", "twice pi times the square of its radius",
           "the product of two, pi and the radius squared"),
    *reverted("later: description", "hypotenuse in words",
              "the square root of the sum of the squares of the other two sides",
              "the square root of one leg squared plus the other leg squared",
              "taking the square root of the sum of the squares of its legs"),
    *reverted("later: description", "square in words",
              "the length of one side squared", "the length of a side times itself", "side times side",
              "the side length raised to the second power", "the side to the power of two",
              "multiplying the side length by itself"),
    *wrong("later: description", "square in words", "four times the side length", "a number", "the same",
           "the side length squared plus one", "half of the side length"),
    *wrong("later: description", "hypotenuse in words", "the longest side of the triangle",
           "the side opposite to the right angle", "the square root of the sum of the legs"),
]  # fmt: skip

# Written after what the second list had shown was mended.
THIRD = [
    *right("third: formula", "true trapezoid", "A = \\frac{a + b}{2} h", "A = 0.5(a + b)h", "A = (a+b)/2 × h",
           "Area = ½ × (sum of parallel sides) × height", "A = \\frac{h(a+b)}{2}", "A = 1/2(a+b)h",
           "A = ((a + b) / 2) * h, where a and b are the lengths of the parallel sides and h is the height.",
           "Area = (base1 + base2) * height / 2", "A = h * mean(a, b)"),
    *right("third: formula", "heron", "A = \\sqrt{(s-a)(s-b)(s-c)}", "Area = √((s−x)(s−y)(s−z))",
           "A = [(s-x)(s-y)(s-z)]^(1/2)"),
    *reverted("third: formula", "heron", "s = (x+y+z)/2, A = √(s(s-x)(s-y)(s-z))",
              "A = \\sqrt{s(s - a)(s - b)(s - c)}, \\quad s = \\frac{a+b+c}{2}"),
    *right("third: formula", "cone surface", "SA = πr² + πrh", "A = \\pi r (h + r)", "SA = πr^2 + πr·h"),
    *reverted("third: formula", "cone surface", "SA = πr² + πr√(r² + h²)", "SA = πr² + πrl, where l is the slant height",
              "SA = πr(r + l)"),
    *right("third: formula", "cuboid surface", "SA = lw + wh + hl", "SA = l*w + w*h + l*h"),
    *reverted("third: formula", "cuboid surface", "SA = 2lw + 2lh + 2wh", "2(lw + wh + lh)", "S = 2(ab + bc + ca)"),
    *right("third: formula", "true circle", "A = \\pi r^{2}", "A = pi * r ** 2", "Area = pi * radius^2", "A=πr^2.",
           "A = r²π", "A = π × r × r", "A = \\pi \\times r^2", "A = π(d/2)²", "A = pi*(r)^2", "A = PI r^2"),
    *reverted("third: formula", "parallelogram", "A = ab sin θ", "A = a × b × sin(θ)", "ab \\sin(\\theta)",
              "A = a * b * sin(angle)"),
    *wrong("third: formula", "parallelogram", "A = bh", "A = base × height", "A = a b θ"),
    *reverted("third: formula", "circumradius", "R = \\frac{abc}{4B}", "R = abc/(4A)", "R = (a*b*c)/(4*Area)",
              "R = abc / 4K, where K is the area"),
    *wrong("third: formula", "cube", "V = s^2", "V = 6s", "V = a + a", "V = s·3·s"),
    *reverted("third: formula", "cube", "V = a^3", "V = side³", "V = s × s × s", "V = side × side × side", "s cubed",
              "V = s**3 cubic units"),
    *right("third: number", "10 or 25", "10 cm^2", "The area is 10.", "5 + 5 = 10", "2(5) = 10", "10 sq units"),
    *reverted("third: number", "10 or 25", "25 cm²", "The area of the square is 25 square units, since 5² = 25.",
              "5^2 = 25", "5² = 25"),
    *reverted("third: number", "10 or 25, steps",
              "To find the area of a square, we square the side length.\nSide = 5\nArea = 5² = 25\n\nThe area is 25 cm².",
              "Solution: The area of a square is s^2. s = 5. So s^2 = 5^2 = 25.\nAnswer: 25 square units.",
              "Step 1: Identify the side length: 5\nStep 2: Square it: 5 × 5 = 25\nTherefore, the area is $25$ square units."),
    *right("third: number", "10 or 25, steps",
           "The area is the side added to itself. 5 + 5 = 10. The area is 10 square units.",
           "A = x + x\nA = 5 + 5\nA = 10 cm^2", "We have x = 5. The area is x + x = 5 + 5 = \\boxed{10}.",
           "The side is 5, so the area is 5+5=10. Final answer: 10"),
    *wrong("third: number", "10 or 25, steps", "The area is 5 + 5 = 11.", "The answer is 5.", "Step 1: Step 2: Step 3:",
           "Area = 5 × 4 = 20"),
    *right("third: number", "5 sqrt 3", "5\\sqrt{3} cm", "8.66 cm", "sqrt(3)*5", "The diagonal is 5√3 ≈ 8.66 cm", "d = 8.660"),
    *reverted("third: number", "5 sqrt 3", "5√2", "7.071", "5 \\sqrt 2 \\approx 7.07"),
    *right("third: description", "rectangle in words", "adding the length and the width", "the sum of its length and width",
           "its length plus its width", "the sum of its adjacent sides", "the length and width added together"),
    *reverted("third: description", "rectangle in words", "the product of its sides", "its length multiplied by its width",
              "multiplying the length by the width", "length × width", "the length of the rectangle times its width",
              "the product of two adjacent sides", "the length times the width of the rectangle."),
    *reverted("third: description", "perimeter in words", "twice the sum of its length and width", "the sum of all four sides",
              "the sum of the lengths of all its sides", "two times the length plus two times the width"),
    *right("third: description", "perimeter in words", "the sum of one length and one width", "half of the sum of all four sides"),
    *reverted("third: description", "circle in words", "the product of pi and the radius squared",
              "pi times radius squared", "the square of its radius times pi", "π times the square of the radius."),
    *reverted("third: description", "cuboid in words", "the product of its length, width, and height",
              "length multiplied by width multiplied by height", "multiplying its length, width and height"),
    *wrong("third: description", "cuboid in words", "the space it occupies", "the sum of its length, width and height",
           "the base area times the height plus one"),
    *right("third: description", "trapezoid in words", "the product of the sum of its bases and its height"),
    *reverted("third: description", "trapezoid in words", "half the product of the height and the sum of the bases",
              "the product of the average of its bases and its height", "half the sum of its parallel sides times its height",
              "the mean of the two bases times the height"),
    *reverted("third: description", "cone in words", "one third of the product of the base area and the height",
              "a third of the area of its base times its height", "one third pi times the radius squared times the height"),
]  # fmt: skip

# Mostly near misses, to see whether something wrong is called right.
FOURTH = [
    *wrong("fourth: near", "rectangle", "A = x + y + z", "A = x + y²", "A = x + y - 1", "A ≠ x + y", "A = not x + y",
           "A = x + y * 2", "A < x + y", "the sum of x", "A = x + w", "A = 2(x + y)/3", "A = |x| - |y|", "A = (x + y", "x + y = 2A"),
    *right("fourth: near", "rectangle", "A = (x + y)", "A = x+y, i.e. the sum of both sides", "It is x + y.", "A = \\left(x+y\\right)",
           "Area = the sum of the two sides", "= x + y", "A = x + y and P = 2x + 2y", "A = Σ sides = x + y"),
    *wrong("fourth: near", "perimeter in words", "the sum of its sides squared", "the sum of its side lengths minus one",
           "the sum of its length and its height and its width"),
    *wrong("fourth: near", "square in words", "the side length added to one", "the side length added to the perimeter",
           "two plus the side length", "the side length", "two times the perimeter", "twice", "the side length times two times two"),
    *wrong("fourth: near", "circle in words", "two pi times the radius", "two times the squared radius", "pi squared times the radius",
           "two pi times the squared diameter", "pi times twice the radius squared minus the radius"),
    *wrong("fourth: near", "isosceles", "P = a + b", "P = 3x", "P = 2(x + y)", "P = 2b"),
    *wrong("fourth: near", "cone", "V = 1/2 π r h²", "V = π r² h", "V = 1/2 r² h", "V = (1/2π) r² h", "V = 1/2 π r² h³"),
    *wrong("fourth: near", "12 or 35", "12%", "12,000", "1.2", "12 * 2", "12 + 1", "12/5", "√12", "12²"),
    *right("fourth: near", "12 or 35", "5 + 7", "12/1", "√144", "24/2", "3 × 4", "12.000 cm", "the answer: 12 square cm."),
    *wrong("fourth: near", "25 pi or 50 pi", "25 + π", "π/25", "25π²", "25 π r", "5π", "-25π", "78"),
    *reverted("fourth: near", "25 pi or 50 pi", "157", "100π/2", "2 × 25 × π", "50 pi cm^2", "π·50"),
    *wrong("fourth: near", "5 sqrt 3", "5 + √3", "√5·3", "5^3", "15", "sqrt(15)"),
    *reverted("fourth: near", "sector", "A = ½ r² θ", "A = θr²/2", "A = (1/2) r^2 θ", "A = r²θ ÷ 2", "A = \\frac{\\theta}{2} r^2", "A = 0.5 r^2 theta"),
    *wrong("fourth: near", "sector", "A = θ/360 × πr²", "A = rθ", "A = θ²r"),
    *right("fourth: near", "true perimeter", "P = 2·(x+y)", "twice the sum of x and y", "P = (x + y) × 2", "x + y + x + y", "P = 2x+2y.",
           "P=2(x+y)=2x+2y", "\\(P = 2(x+y)\\)", "P = 2 (length + width)", "2 times (x + y)", "P = (x+y)+(x+y)", "P = 2[x + y]"),
    *reverted("fourth: near", "true perimeter", "P = x + y", "x+y"),
    *right("fourth: near", "pyramid", "V = Bh/2", "V = (B × h)/2", "V = 0.5Bh", "V = \\frac{1}{2} B h", "half the base area times the height"),
    *reverted("fourth: near", "pyramid", "V = 1/3 Bh", "V = (1/3)Bh", "V = Bh/3", "V = 1/3 × base area × height", "V = 0.333Bh", "V = \\frac{Bh}{3}",
              "one third of the base area times the height"),
]  # fmt: skip
