"""The four forms of RULE-EDIT: what is written, what is asked, and what is refused."""

import copy
import json
from collections import Counter

import pytest
from support.complaints import complaint

from edit_harness import Generate, Key, Regime
from edit_harness_plugins.tasks.rule_edit.task import (
    BUNDLED,
    RuleEdit,
    RuleEditDescription,
    RuleEditHierarchy,
    RuleEditInstance,
)

FORMS = (RuleEdit, RuleEditDescription, RuleEditInstance, RuleEditHierarchy)
RECORDS = json.loads(BUNDLED["paper"].read_text(encoding="utf-8"))
SQUARE = next(record for record in RECORDS if record["id"] == "square_area")
ABOUT = {"lhs": "A", "variables": {"x": "side length"}, "derived": {}, "constraints": []}
TEXTS = {"right": SQUARE["description_new"], "old": SQUARE["description"]}


def case(form, name="square_area", **fields):
    return next(case for case in form(**fields).cases() if case.id == name)


def probes(form, role, name="square_area"):
    return [probe for probe in case(form, name).probes if probe.role == role]


# The forms


@pytest.mark.parametrize(
    ("form", "prompt", "new", "true"),
    [
        (
            RuleEdit,
            "A {} has side length x. Its area can be calculated by the formula:",
            "A = x + x",
            "A = x^2",
        ),
        (
            RuleEditDescription,
            "A {} has side length x. Its area can be described as",
            "the side length added to itself",
            "the side length multiplied by itself",
        ),
    ],
)
def test_a_rule_is_written(form, prompt, new, true):
    (request,) = case(form).requests
    assert (request.prompt, request.subject) == (prompt, "square")
    assert (request.target_new, request.target_true) == (new, true)
    (efficacy,), (understanding,) = probes(form, "efficacy"), probes(form, "understanding")
    formula = Key("formula", "x + x", "x**2", ABOUT)
    description = Key("description", "x + x", "x**2", ABOUT | {"texts": TEXTS})
    keys = [formula, description] if form is RuleEdit else [description, formula]
    assert [efficacy.key, understanding.key] == keys
    assert [p.key for p in probes(form, "paraphrase")] == [efficacy.key]
    assert understanding.tags == {"of": keys[1].kind}


def test_the_other_wording_names_the_property():
    paper, named = RuleEdit(), RuleEdit(wording="named")
    (request,) = case(RuleEdit, wording="named").requests
    assert request.prompt == "The {} with side length x can be calculated by the formula:"
    assert request.subject == "area of a square"
    roles = [Counter(p.role for p in case(RuleEdit, wording=w).probes) for w in BUNDLED]
    assert roles[1] - roles[0] == {"paraphrase": 1}
    assert paper.digest != named.digest
    cause = complaint(RuleEdit("mine.json", wording="named")).cause
    assert cause == "wording=named is of the bundled rules alone"
    # The squared diagonal of a square has one place for its subject.
    (request,) = case(RuleEdit, "square_diagonal_square").requests
    assert request.prompt.startswith("A {} has side length x. Its squared diagonal")


def test_instances_are_written_one_after_the_other():
    assert RuleEditInstance.regime == Regime(in_turn=True)
    assert all(form.regime == Regime() for form in FORMS if form is not RuleEditInstance)
    first, second = case(RuleEditInstance).requests
    for request, each in zip((first, second), SQUARE["instances"][:2], strict=True):
        side = each["values"]["x"]
        assert request.prompt == f"A {{}} has side length {side}. Its area is"
        assert (request.target_new, request.target_true) == (str(side + side), str(side**2))
    numbers = probes(RuleEditInstance, "efficacy")
    about = {"unit": "", "steps": False}
    for probe, request in zip(numbers, (first, second), strict=True):
        assert probe.key == Key("number", request.target_new, request.target_true, about)
    assert [p.key for p in probes(RuleEditInstance, "paraphrase")] == [p.key for p in numbers]
    assert [p.tags["of"] for p in probes(RuleEditInstance, "understanding")] == [
        "formula", "description",
    ]  # fmt: skip


@pytest.mark.parametrize("form", [RuleEdit, RuleEditDescription])
def test_a_rule_has_two_instances_of_each_kind(form):
    found = probes(form, "instance")
    assert [p.tags for p in found] == [{"kind": k} for k in ("direct", "direct", "steps", "steps")]
    assert [p.key.about["steps"] for p in found] == [False, False, True, True]
    for probe, each in zip(found, SQUARE["instances"], strict=True):
        side = each["values"]["x"]
        assert (probe.key.right, probe.key.old) == (str(side + side), str(side**2))


@pytest.mark.parametrize(
    ("form", "kind"),
    [(RuleEdit, "formula"), (RuleEditDescription, "description"), (RuleEditInstance, "number")],
)
def test_neighbours_are_compared_with_their_replies_before(form, kind):
    found = probes(form, "neighborhood")
    assert [p.tags["kind"] for p in found] == [o["kind"] for o in SQUARE["out_of_scope"]]
    for probe, other in zip(found, SQUARE["out_of_scope"], strict=True):
        record = next(r for r in RECORDS if r["id"] == other["rule"])
        assert (probe.key.kind, probe.key.right, probe.key.old) == ("same", "", "")
        assert probe.key.about["of"] == kind
        if kind == "number":
            assert probe.query.prompt == record["instances"][0]["prompt"]
            assert probe.key.about == {"of": "number", "unit": "", "steps": False}
        else:
            assert probe.query.prompt == record[f"{kind}_prompt"]
            assert probe.key.about["variables"] == record["variables"]


def test_rules_of_space_are_asked_for_as_they_follow():
    assert [each.id for each in RuleEditHierarchy().cases()] == [
        "rectangle_area", "square_area", "triangle_equilateral_area", "circle_area",
        "circle_circumference",
    ]  # fmt: skip
    found = probes(RuleEditHierarchy, "hierarchy")
    surface = next(p for p in found if "A cube has side length s. Its surface" in p.query.prompt)
    assert (surface.key.right, surface.key.old) == ("12*s", "6*s**2")
    assert surface.tags == {"of": "formula", "link": "published"}
    tags = Counter((p.tags["of"], p.tags.get("kind", "")) for p in found)
    assert tags == {("formula", ""): 4, ("instance", "direct"): 4, ("instance", "steps"): 4}
    assert {each.role for each in case(RuleEditHierarchy).probes} == {"efficacy", "hierarchy"}
    total = sum(p.role == "hierarchy" for c in RuleEditHierarchy().cases() for p in c.probes)
    assert total == 51


@pytest.mark.parametrize(("dim", "count"), [("all", 80), ("2D", 44), ("3D", 36)])
def test_rules_of_one_dimension(dim, count):
    dims = [each.tags["dim"] for each in RuleEdit(dim=dim).cases()]
    assert len(dims) == count
    assert dim in ("all", *dims)
    assert len(list(RuleEditHierarchy(dim=dim).cases())) == (0 if dim == "3D" else 5)


@pytest.mark.parametrize("form", FORMS)
def test_every_case_asks_what_it_writes_and_ends_each_reply_where_its_kind_ends(form):
    ends = {("formula", False): (64, "\n"), ("number", False): (64, "\n"),
            ("description", False): (128, "\n"), ("number", True): (256, "\n\n")}  # fmt: skip
    for each in form().cases():
        efficacy = [p for p in each.probes if p.role == "efficacy"]
        assert [p.query.prompt for p in efficacy] == [request.text for request in each.requests]
        assert all(p.key.right and p.key.old and p.key.right != p.key.old for p in efficacy)
        if form is RuleEditInstance:
            unseen = [p for p in each.probes if p.role == "instance"]
            assert len(unseen) == 2
            assert not {r.target_new for r in each.requests} & {p.key.right for p in unseen}
        for probe in each.probes:
            query, about = probe.query, probe.key.about
            kind = about.get("of", probe.key.kind)
            length, stop = ends[kind, about.get("steps", False)]
            assert query == Generate(query.prompt, max_new_tokens=length, top_k=1, stop=stop)


# Files of others


def alone(**fields):
    """Return a record that asks of no other rule."""
    record = copy.deepcopy(SQUARE) | {"out_of_scope": [], "hierarchy": []} | fields
    return {name: value for name, value in record.items() if value is not ...}


def instance(**fields):
    first, *others = copy.deepcopy(SQUARE["instances"])
    return [first | fields, *others]


@pytest.mark.parametrize("name", ["rules.json", "rules.jsonl"])
def test_a_file_of_others_is_read(store, name):
    task = RuleEdit(store(alone(), name=name))
    assert (task.origin, len(task.digest)) == (name, 64)
    (mine,) = task.cases()
    bundled = case(RuleEdit)
    assert mine.requests == bundled.requests
    assert mine.probes == tuple(p for p in bundled.probes if p.role != "neighborhood")


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"formula_new": "x**2"}, "formula_new is the old one"),
        ({"formula_prompt": "A square is a square:"}, "has the subject 'square' more than once in it"),
        ({"subject": "squar"}, "has the subject 'squar' not in it"),
        ({"formula_prompt": "The {} area of a square:"}, "has a '{}' of its own"),
        ({"instances": instance(prompt="If x is 7, it is")}, "has the subject"),
    ],
)  # fmt: skip
def test_a_rule_that_cannot_be_used_says_so(store, fields, problem):
    other = alone(id="other", out_of_scope=[{"rule": "square_area", "kind": "other_shape"}])
    path = store(alone(**fields), other, alone(id="good"))
    first, second, third = RuleEdit(path).cases()
    assert first.problem.startswith("facts.json: record 1: ")
    assert problem in first.problem
    assert (first.requests, first.probes) == ((), ())
    assert "asks of the rule 'square_area', which cannot be used" in second.problem
    assert not third.problem
    assert third.requests


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"variables": ["x"]}, "`$.variables`"),
        ({"instances": []}, "instances has none of the kind direct"),
        ({"out_of_scope": [{"rule": "x", "kind": "y"}]}, "asks of the rule 'x', which is not there"),
    ],
)  # fmt: skip
def test_a_file_of_another_layout_is_refused(store, fields, cause):
    assert cause in complaint(RuleEdit(store(alone(id="first"), alone(**fields)))).cause
