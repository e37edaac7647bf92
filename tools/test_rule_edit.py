"""The data of RULE-EDIT: mathematics and draws, each against something that knows neither.

Descriptions are read by the judge, in test_rule_edit_run.py.
"""

import json
import math
import random
import re
from fractions import Fraction

import pytest
from msgspec.structs import replace

from edit_harness import DataError

pytest.importorskip("sympy")

from edit_harness_plugins.judges.symbolic.rule import read_key
from tools.rule_edit import __main__ as build
from tools.rule_edit import rules
from tools.rule_edit.rules import SOURCE, load

SHIPPED = {
    wording: json.loads(path.read_text(encoding="utf-8")) for wording, path in build.BUNDLED.items()
}
RECORDS = SHIPPED["paper"]
BY_ID = {record["id"]: record for record in RECORDS}
LINKS = [(record, link) for record in RECORDS for link in record["hierarchy"]]
RULES = load()
PLAIN = {"sqrt": math.sqrt, "sin": math.sin, "cos": math.cos, "pi": math.pi, "Min": min}
each_rule = pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["id"])
each_wording = pytest.mark.parametrize("wording", SHIPPED)


def value(formula, values=()):
    """Compute a formula of ours in plain floats."""
    return float(eval(formula, {"__builtins__": {}, **PLAIN}, dict(values)))


def in_radians(record, values):
    return {
        symbol: math.radians(number) if record["units"].get(symbol) == "degrees" else number
        for symbol, number in values.items()
    }


def instances(record):
    return [*record["instances"], *record["unseen"]]


def linked(record):
    return [each for link in record["hierarchy"] for each in link["instances"]]


def direct(record):
    return [e for e in (*instances(record), *linked(record)) if e["kind"] == "direct"]


def points(record, count=20):
    """Return points that respect what is known of a rule's symbols, by trying."""
    rng = random.Random(record["id"])
    found = []
    while len(found) < count:
        point = {symbol: rng.uniform(0.5, 9) for symbol in record["variables"]}
        if all(value(text, point) for text in record["constraints"]):
            point |= {symbol: value(text, point) for symbol, text in record["derived"].items()}
            found.append(point)
    return found


# The file


@each_wording
def test_the_shipped_records_are_those_of_the_shipped_rules(wording):
    built = build.Writer(RULES, wording).build()
    assert build.dumps(built).encode() == build.BUNDLED[wording].read_bytes()


def test_wordings_differ_in_words_alone():
    asked = r'"(subject|(\w+_)?prompt|rephrasing)": ".*"|"\w+_rephrasings": \[[^]]*\]'
    paper, named = (re.sub(asked, "", path.read_text("utf-8")) for path in build.BUNDLED.values())
    assert paper == named


def test_what_the_paper_has_is_there_and_marked():
    published = {r["id"]: r["formula_new"] for r in RECORDS if r["counterfactual"] == "published"}
    assert published == {"square_area": "x + x", "rectangle_perimeter": "x + y"}
    links = {link["rule"]: link["formula_new"] for _, link in LINKS if link["link"] == "published"}
    assert links == {"cube_base_area": "2*s", "cube_surface_area": "12*s"}
    assert {r.id for r in RULES.rules.values() if r.paper_formula} == {
        "triangle_heron", "trapezoid_isosceles_diagonal",
    }  # fmt: skip
    record, sentence = BY_ID["rectangle_area"], "A rectangle has length x and width y. Its area"
    assert record["formula_prompt"] == f"{sentence} can be calculated by the formula:"
    assert record["description_prompt"] == f"{sentence} can be described as"


# Prompts


def prompts(record, form):
    return [record[f"{form}_prompt"], *record[f"{form}_rephrasings"]]


def numbers(record):
    """Yield what is asked of each instance, with its values and their units."""
    for each in instances(record):
        units = {symbol: f" {unit}" for symbol, unit in record["units"].items()}
        values = {s: f"{value}{units.get(s, '')}" for s, value in each["values"].items()}
        yield from ((text, values) for n in ("prompt", "rephrasing") if (text := each.get(n)))


@each_wording
def test_there_are_as_many_prompts_as_the_multiples_of_the_paper_imply(wording):
    """Gen in 1/81 where rules are written, in 1/162 where their instances are; ours are 80 rules."""
    records = SHIPPED[wording]
    per_rule = {"paper": 1, "named": 2}[wording]
    for form in ("formula", "description"):
        assert sum(len(r[f"{form}_rephrasings"]) for r in records) == 80 * per_rule
        asked = [text for r in records for text in prompts(r, form)]
        assert len(set(asked)) == len(asked) == 80 * (1 + per_rule)
    written = [e for r in records for e in r["instances"] if e["kind"] == "direct"]
    assert len(written) == len({e["rephrasing"] for e in written}) == 160


@each_wording
def test_a_subject_stands_once_in_all_that_is_asked(wording):
    """As a word of its own: the squared diagonal of a square has one square."""
    for record in SHIPPED[wording]:
        texts = [*prompts(record, "formula"), *prompts(record, "description")]
        for text in (*texts, *(text for text, _ in numbers(record))):
            assert len(re.findall(rf"\b{record['subject']}\b", text)) == 1, text


@each_rule
def test_prompts_are_of_the_figure_and_say_all_that_is_given(record):
    figure = f"{'an' if record['subject'][0] in 'aeiou' else 'a'} {record['subject']}"
    for form in ("formula", "description"):
        assert record[f"{form}_prompt"].startswith(f"A{figure[1:]} has ")
        for symbol, quantity in record["variables"].items():
            assert all(f"{quantity} {symbol}" in text for text in prompts(record, form))
    for text, values in numbers(record):
        for symbol, quantity in record["variables"].items():
            assert f"{quantity} {values[symbol]}" in text
        assert text.startswith((f"A{figure[1:]} has ", f"Given {figure} with "))
    record = next(each for each in SHIPPED["named"] if each["id"] == record["id"])
    for symbol, quantity in record["variables"].items():
        assert all(f"{quantity} {symbol}" in text for text in prompts(record, "formula"))
        assert all(f"the {quantity} is {v[symbol]}" in text for text, v in numbers(record))
        if "angle" in quantity:
            assert record["units"][symbol] in ("degrees", "radians")


@each_rule
def test_formulas_are_the_targets_can_be_read_and_differ(record):
    for name in ("", "_new"):
        lhs, _, right = record[f"equation{name}"].partition(" = ")
        assert right.replace("^", "**").replace("min(", "Min(") == record[f"formula{name}"]
        assert lhs == {"d2": "d^2"}.get(record["lhs"], record["lhs"])
    for text in (record["formula"], record["formula_new"], *record["derived"].values()):
        read_key(text, record["variables"])
    for point in points(record):
        assert not math.isclose(
            value(record["formula"], point), value(record["formula_new"], point)
        )


# Mathematics


def shoelace(*corners):
    following = (*corners[1:], corners[0])
    return abs(sum(x * v - u * y for (x, y), (u, v) in zip(corners, following, strict=True))) / 2


def third_corner(a, b, c):
    """Return the corner whose distances from (0, 0) and (c, 0) are b and a."""
    x = (b * b + c * c - a * a) / (2 * c)
    return x, math.sqrt(b * b - x * x)


def triangle(a, b, c):
    return shoelace((0, 0), (c, 0), third_corner(a, b, c))


def circumradius(a, b, c):
    """Return the distance of (0, 0) from the point that is as far from all three corners."""
    x, y = third_corner(a, b, c)
    up = (x * x + y * y - c * x) / (2 * y)
    return math.dist((0, 0), (c / 2, up))


def integral(function, end, steps=20_000):
    """Integrate from 0 by the midpoint rule, exact to 1e-6 for what is integrated here."""
    width = end / steps
    return width * math.fsum(function((i + 0.5) * width) for i in range(steps))


def cone_side(r, h):
    """Integrate circumferences along the slant."""
    slant = math.dist((0, 0), (r, h))
    return integral(lambda s: 2 * math.pi * r * s / slant, slant)


GEOMETRY = {
    "rectangle_diagonal": lambda x, y: math.dist((0, 0), (x, y)),
    "square_diagonal": lambda x: math.dist((0, 0), (x, x)),
    "square_perimeter_area": lambda P: (P / 4) * (P / 4),
    "triangle_area_height": lambda x, y: shoelace((0, 0), (x, 0), (x / 3, y)),
    "triangle_right_area": lambda x, y: shoelace((0, 0), (x, 0), (0, y)),
    "triangle_hypotenuse": lambda x, y: math.dist((x, 0), (0, y)),
    "triangle_equilateral_area": lambda x: triangle(x, x, x),
    "triangle_isosceles_height": lambda x, y: third_corner(x, x, y)[1],
    "triangle_isosceles_area": lambda x, y: triangle(x, x, y),
    "triangle_heron": lambda x, y, z, s: triangle(x, y, z),
    "triangle_circumradius": lambda a, b, c, B: circumradius(a, b, c),
    "parallelogram_area": lambda x, y: shoelace((0, 0), (x, 0), (x + 2, y), (2, y)),
    "parallelogram_diagonal": lambda a, b, theta: math.dist(
        (a, 0), (b * math.cos(theta), b * math.sin(theta))
    ),
    "parallelogram_area_angle": lambda a, b, theta: shoelace(
        (0, 0), (a, 0), (a + b * math.cos(theta), b * math.sin(theta)),
        (b * math.cos(theta), b * math.sin(theta)),
    ),
    "diamond_area_diagonals": lambda p, q: shoelace((p / 2, 0), (0, q / 2), (-p / 2, 0), (0, -q / 2)),
    "diamond_area_angle": lambda x, theta: 2 * shoelace(
        (0, 0), (x, 0), (x * math.cos(theta), x * math.sin(theta))
    ),
    "diamond_perimeter_diagonals": lambda p, q: 4 * math.dist((p / 2, 0), (0, q / 2)),
    "diamond_side_from_diagonals": lambda p, q: math.dist((p / 2, 0), (0, q / 2)),
    "trapezoid_area": lambda a, b, h: shoelace((0, 0), (a, 0), (b + 1, h), (1, h)),
    "trapezoid_midsegment": lambda a, b: math.dist((0.5, 1), ((a + b + 1) / 2, 1)),
    "trapezoid_isosceles_diagonal": lambda a, b, c: math.dist(
        (0, 0), ((a + b) / 2, math.sqrt(c**2 - ((a - b) / 2) ** 2))
    ),
    "circle_area": lambda r: integral(lambda s: 2 * math.pi * s, r),
    "circle_area_diameter": lambda d: integral(lambda s: 2 * math.pi * s, d / 2),
    "sector_area": lambda r, theta: integral(lambda s: s * theta, r),
    "cuboid_space_diagonal": lambda l, w, h: math.dist((0, 0, 0), (l, w, h)),
    "cuboid_circumradius": lambda l, w, h: math.dist((0, 0, 0), (l / 2, w / 2, h / 2)),
    "cube_space_diagonal": lambda s: math.dist((0, 0, 0), (s, s, s)),
    "cube_circumradius": lambda s: math.dist((0, 0, 0), (s / 2, s / 2, s / 2)),
    "prism_triangular_volume": lambda s, h: triangle(s, s, s) * h,
    "pyramid_volume": lambda B, h: integral(lambda y: B * (y / h) ** 2, h),
    "pyramid_square_volume": lambda s, h: integral(lambda y: (s * y / h) ** 2, h),
    "cone_volume": lambda r, h: integral(lambda y: math.pi * (r * y / h) ** 2, h),
    "cone_lateral_surface_area": cone_side,
    "cone_surface_area": lambda r, h: cone_side(r, h) + math.pi * r * r,
    "sphere_volume": lambda r: 2 * integral(lambda y: math.pi * (r * r - y * y), r),
    "sphere_surface_area": lambda r: 2 * integral(lambda y: 2 * math.pi * r, r),
}  # fmt: skip


@pytest.mark.parametrize("name", GEOMETRY)
def test_a_formula_is_that_of_geometry(name):
    """Coordinates and integrals instead of formulas; the integrals are exact to 1e-6.

    Rules that are sums of others are left to their descriptions, which the judge reads.
    """
    record, printed = BY_ID[name], RULES.rules[name].paper_formula
    for point in points(record, 5):
        expected = GEOMETRY[name](**point)
        assert value(record["formula"], point) == pytest.approx(expected, rel=1e-6)
        if printed:  # where the paper is wrong, it is wrong
            assert value(printed, point) != pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("sides", [(3, 4, 5), (13, 14, 15), (2, 3, 4)])
def test_the_inradius_is_the_height_at_which_bisectors_meet(sides):
    a, b, c = sides
    height = c * third_corner(a, b, c)[1] / (a + b + c)
    values = {"B": triangle(a, b, c), "s": (a + b + c) / 2}
    assert value(BY_ID["triangle_inradius"]["formula"], values) == pytest.approx(height)
    assert value(RULES.rules["triangle_inradius"].constraints[0], values)


# Draws


@each_rule
def test_answers_follow_from_values_that_respect_what_is_known_of_them(record):
    """In plain floats; 1e-12 is what a few roundings amount to."""
    for each in instances(record):
        values = in_radians(record, each["values"])
        for formula, answer in (("formula", "answer_true"), ("formula_new", "answer_new")):
            expected = value(record[formula], values)
            assert value(each[answer]) == pytest.approx(expected, rel=1e-12)
            read_key(each[answer], ())
    for link in record["hierarchy"]:
        old, new = BY_ID[link["rule"]]["formula"], link["formula_new"]
        for each in link["instances"]:
            for formula, answer in ((old, "answer_true"), (new, "answer_new")):
                expected = value(formula, each["values"])
                assert value(each[answer]) == pytest.approx(expected, rel=1e-12)
    for each in instances(record):
        values = in_radians(record, each["values"])
        assert values.keys() == record["variables"].keys()
        for text in record["constraints"]:
            assert value(text, values), (text, values)
        for symbol, text in record["derived"].items():
            assert value(text, values) == pytest.approx(values[symbol], rel=1e-12)
    # A written number is the answer: exact where it can be, and to half a unit of the second digit where not.
    for each in direct(record):
        given = [Fraction(str(number)) for number in each["values"].values()]
        for answer, target in (("answer_true", "target_true"), ("answer_new", "target_new")):
            if re.fullmatch(r"\d+(/\d+)?", each[answer]):
                assert Fraction(each[target]) == Fraction(each[answer])
                assert Fraction(each[answer]) not in given
            else:
                assert re.fullmatch(r"\d+\.\d\d", each[target])
                assert abs(float(each[target]) - value(each[answer])) <= 0.005 + 1e-9
                assert float(each[target]) >= 1


# Neighbours and what depends on a rule


@each_rule
def test_neighbours_are_rules_that_the_edit_leaves_alone(record):
    others = record["out_of_scope"]
    assert len({other["rule"] for other in others}) == len(others) == 4
    related = [set(g) for g in json.loads(SOURCE.read_text("utf-8"))["related"]]
    related += [{base["id"], link["rule"]} for base, link in LINKS]
    for other in others:
        pair = {record["id"], other["rule"]}
        assert len(pair) == 2
        assert not any(pair <= group for group in related), pair
        same = BY_ID[other["rule"]]["shape"] == record["shape"]
        assert other["kind"] == ("same_shape" if same else "other_shape")
        assert RULES.rules[other["rule"]].subject != RULES.rules[record["id"]].subject


def test_most_neighbours_of_a_shape_have_the_subject_of_the_edit():
    """The figures of the data card: an edit that writes at the subject meets them there."""
    pairs = [(r, BY_ID[other["rule"]]) for r in RECORDS for other in r["out_of_scope"]]
    assert sum(one["shape"] == other["shape"] for one, other in pairs) == 147
    assert sum(one["subject"] == other["subject"] for one, other in pairs) == 116
    assert len({record["subject"] for record in RECORDS}) == 21


SLANT = math.hypot
DEPENDENT = {
    "cube_base_area": lambda f, s: f(s),
    "cube_surface_area": lambda f, s: sum(f(s) for _ in range(6)),
    "cube_volume": lambda f, s: f(s) * s,
    "pyramid_square_volume": lambda f, s, h: f(s) * h / 3,
    "cuboid_base_area": lambda f, l, w: f(l, w),
    "cuboid_volume": lambda f, l, w, h: f(l, w) * h,
    "cuboid_surface_area": lambda f, l, w, h: sum(map(f, (l, l, w) * 2, (w, h, h) * 2)),
    "cuboid_lateral_surface_area": lambda f, l, w, h: sum(map(f, (l, w) * 2, (h, h) * 2)),
    "cylinder_base_area": lambda f, r: f(r),
    "cone_base_area": lambda f, r: f(r),
    "sphere_great_circle_area": lambda f, r: f(r),
    "cylinder_volume": lambda f, r, h: f(r) * h,
    "cylinder_lateral_surface_area": lambda f, r, h: f(r) * h,
    "cylinder_surface_area": lambda f, r, h: f(r) * h + 2 * math.pi * r**2,
    "cone_lateral_surface_area": lambda f, r, h: f(r) * SLANT(r, h) / 2,
    "cone_surface_area": lambda f, r, h: f(r) * SLANT(r, h) / 2 + math.pi * r**2,
    "prism_triangular_volume": lambda f, s, h: f(s) * h,
}
"""What the rule of space is made of, given the rule of the plane ``f`` as a function."""


@pytest.mark.parametrize(("base", "link"), LINKS, ids=[link["rule"] for _, link in LINKS])
def test_a_dependent_formula_follows_from_the_edited_one(base, link):
    target = BY_ID[link["rule"]]
    assert (base["dim"], target["dim"]) == ("2D", "3D")
    for formula, expected in ((base["formula"], target["formula"]),
                              (base["formula_new"], link["formula_new"])):  # fmt: skip

        def plane(*sides, formula=formula):
            return value(formula, dict(zip(base["variables"], sides, strict=True)))

        for point in points(target, 5):
            found = DEPENDENT[link["rule"]](plane, *point.values())
            assert value(expected, point) == pytest.approx(found, rel=1e-12)


def test_a_rule_without_instances_says_so(monkeypatch):
    monkeypatch.setattr(rules, "ATTEMPTS", 50)
    rule = replace(RULES.rules["rectangle_area"], constraints=("x > 100",))
    with pytest.raises(DataError, match="50 draws gave 0 of 6 instances"):
        rules.draw(rule, rule.formula_new, 6, random.Random(0))
