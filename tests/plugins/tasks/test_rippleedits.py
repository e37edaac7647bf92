"""RippleEdits: sentences cut into requests, tests to probes, and the measures by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.complaints import complaint

from edit_harness import Case, Choose, Generate, Key, Probe, Request, Text
from edit_harness.data import Verdict
from edit_harness_plugins.metrics.verdicts.ripples import Ripple
from edit_harness_plugins.tasks.rippleedits.ripple_wording import (
    Template,
    Worded,
    cut,
    target,
    templates,
)
from edit_harness_plugins.tasks.rippleedits.rippleedits import RippleEdits

ALIASES = {"Ada": "Dr Byron", "Bo": "Big Li", "Cy": "Young"}
OTHERS = ("Dan", "Di Fu", "Eli", "Flo")
HOME, MOTHER = "The home of {} is", "The name of the mother of {} is"


def answer(value, *aliases):
    return {"value": value, "aliases": list(aliases)}


def query(prompt, *answers, relation="CHILD", ids=None, subject_id="Q1"):
    return {
        "prompt": prompt,
        "answers": [answer(each) if isinstance(each, str) else each for each in answers],
        "query_type": "regular",
        "subject_id": subject_id,
        "relation": relation,
        "target_ids": ids or [f"Q{each}" for each in range(len(answers))],
    }


def trial(*queries, conditions=(), passes="OR"):
    return {
        "test_queries": list(queries),
        "test_condition": passes,
        "condition_queries": list(conditions),
    }


def example(name="Ada", new="Paris", old="Rome", **fields):
    """Return a record as in popular.json: the home of somebody is moved."""
    mother = query(MOTHER.format(name), "Eve", relation="MOTHER")
    record = {
        "example_type": "popular",
        "edit": {
            "prompt": f"{HOME.format(name)} {new}.",
            "subject_id": "Q1",
            "relation": "HOME",
            "target_id": "Q90",
            "original_fact": {"prompt": f"{HOME.format(name)} {old}.", "relation": "HOME"},
        },
        "Relation_Specificity": [trial(mother, conditions=[mother])],
        "Logical_Generalization": [],
        "Subject_Aliasing": [trial(
            query(HOME.format(ALIASES[name]), answer(new, "Paname"), relation="HOME", ids=["Q90"])
        )],
        "Compositionality_I": [],
        # Nothing is asked here, but it tells how homes are worded.
        "Compositionality_II": [trial(conditions=[
            query(HOME.format(other), relation="HOME", subject_id=other) for other in OTHERS
        ] + [query("Home of his aunt:", relation="HOME") | {"query_type": "two_hop"}])],
        "Forgetfulness": [],
    }  # fmt: skip
    return record | fields


def cases(file):
    return list(RippleEdits(file).cases())


# Sentences

NAMES = st.sampled_from(["Ada", "Bo Li", "The Hague", "Is", "a b c", "of"])


@given(st.lists(NAMES, min_size=2, max_size=4, unique=True), st.sampled_from(["Paris", "New York"]))
def test_a_sentence_is_cut_as_it_was_made(names, new):
    """The oracle is the template that the sentences are made of."""
    everybody = [*names, "Eve Doe", "Zoe", "Max"]
    wording = templates(Worded("HOME", name, HOME.format(name)) for name in everybody)
    for name in names:
        parts = cut(f"{HOME.format(name)} {new}.", wording["HOME"])
        assert parts == Request(HOME, name, new)


IS = Template(("The", "home", "of"), ("is",))
MANY = ("Ada", "Bo Li", "Cy", "Di", "Eve Doe")


def worded(prompts):
    return [Worded("R", prompt, prompt) for prompt in prompts]


SLIP = [*(f"The home of Ada{i} is" for i in range(30)), "Where does Ada live?"]


@pytest.mark.parametrize(
    ("prompts", "found"),
    [
        (["The home of Ada is"], None),
        ([f"Who is {name}?" for name in MANY], None),  # nothing follows the subject
        ([*(f"The home of {name} is" for name in MANY), "The home of is"], None),  # no subject
        ([f"{name} follows" for name in MANY], Template((), ("follows",))),
        ([f"The home of {name} is" for name in MANY], IS),
        ([f"The home of {name} is" for name in MANY[:4]], None),
        ([f"The home of Claude de {name} is" for name in MANY], IS),
        ([f"The home of {name} Monet is" for name in MANY], IS),
        (SLIP, IS),  # one slip among many
        (SLIP[25:], None),
    ],
)
def test_a_template_is_what_prompts_share(prompts, found):
    assert templates(worded(prompts)).get("R") == found


def test_a_template_rests_on_different_subjects():
    """Five names of one are not enough; the edits' own sentences count."""
    names = [f"The home of {name} is" for name in MANY]
    assert templates(Worded("R", "Q1", name) for name in names) == {}
    edits = [Worded("R", f"Q{name}", f"The home of {name} is Rome.") for name in "vwxyz"]
    assert templates(worded(names[:2]), edits[:2]) == {}
    assert templates(worded(names[:2]), edits[:3]) == {"R": IS}
    others = [edit._replace(text=f"The house of {edit.subject} is Rome.") for edit in edits]
    assert templates(worded(names[:2]), others) == {}


@pytest.mark.parametrize(
    ("sentence", "known", "parts"),
    [
        ("The home of Ada is Paris.", {}, Request(HOME, "Ada", "Paris")),
        ("The home of Ada is Washington, D.C..", {}, Request(HOME, "Ada", "Washington, D.C.")),
        ("The home of Ada is .", {}, "does not tell"),
        ("The home of  is Paris.", {}, "does not tell"),
        ("The house of Ada is Paris.", {}, "is not worded as the other sentences"),
        ("The home of This is Us is Paris.", {}, "does not tell"),
        # Where two places would do, the names or the old fact decide.
        ("The home of This is Us is Rome.", {"names": ["Rome"]}, Request(HOME, "This is Us", "Rome")),
        ("The home of Ada is what is left.", {"original": "The home of Ada is Rome."},
         Request(HOME, "Ada", "what is left")),
    ],
)  # fmt: skip
def test_a_sentence_is_cut_or_says_why_not(sentence, known, parts):
    found = cut(sentence, IS, **known)
    assert found == parts if isinstance(parts, Request) else parts in found


@pytest.mark.parametrize(
    ("said", "old"), [("of Ada is Rome.", "Rome"), ("of Ada is .", ""), ("of Ada isn't Rome.", "")]
)
def test_the_old_object_is_what_follows_the_prompt(said, old):
    assert target(f"The home {said}", "The home of Ada is") == old


# Records


def test_an_example_becomes_a_case(store):
    case, _ = cases(store(example(), example("Bo")))
    assert case.requests == (Request(HOME, "Ada", "Paris", "Rome"),)
    assert case.tags == {"relation": "HOME", "type": "popular"}
    fact, efficacy, mother, condition, alias = case.probes
    about = {"aliases": ["Paname"], "old_aliases": [], "how": "within"}
    assert fact == Probe(
        "fact", Generate("The home of Ada is", max_new_tokens=30), {}, Key("match", "Paris", "Rome", about)
    )  # fmt: skip
    assert efficacy.query == Choose("The home of Ada is", ("Paris", "Rome"))
    assert (mother.role, condition.role) == ("relation-specificity", "condition")
    tags = {"axis": "relation-specificity", "test": "0", "passes": "any", "query": "0"}
    assert mother.tags == condition.tags == tags
    assert mother.key.right == "Eve"
    assert alias.query.prompt == "The home of Dr Byron is"


def test_every_answer_of_a_question_is_a_probe(store):
    both = query("The children of Ada are", "Ann", answer("Bob", "B", "Robert"))
    record = example(Compositionality_I=[trial(both, passes="AND")])
    case, _ = cases(store(record, example("Bo")))
    found = [probe for probe in case.probes if probe.role == "compositionality-1"]
    assert [probe.key.right for probe in found] == ["Ann", "Bob"]
    assert found[1].key.about["aliases"] == ["Robert"], "a single letter is no name"
    assert {probe.tags["passes"] for probe in found} == {"all"}
    assert len({probe.tags["query"] for probe in found}) == 1


def test_tests_without_a_named_answer_are_left_out_and_counted(store):
    nameless = [trial(query("x", "")), trial(query("x")), trial(query("x", "a"))]
    condition = trial(query("x", "Ann"), conditions=[query("y", "")])
    file = store(example(Forgetfulness=[*nameless, condition, trial()]), example("Bo"))
    task = RippleEdits(file)
    assert not [p for case in task.cases() for p in case.probes if p.role == "forgetfulness"]
    assert task.notes == ("4 of 8 tests ask for something without a name; left out",)
    assert RippleEdits(store(example(), example("Bo"))).notes == ()


def test_a_recent_fact_has_no_old_object(store):
    """The authors' code has another name for the old one, which is read too."""
    recent, named = example(), example("Bo")
    named["edit"]["previous_fact"] = named["edit"].pop("original_fact")
    del recent["edit"]["original_fact"], recent["Forgetfulness"]
    case, other = cases(store(recent, named))
    assert case.requests == (Request(HOME, "Ada", "Paris"),)
    assert not [probe for probe in case.probes if probe.role == "efficacy"]
    assert other.requests[0].target_true == "Rome"


def test_edits_of_no_use_say_why(store):
    other = example("Bo")
    other["edit"]["relation"] = "SPOUSE"
    good, same, unknown = cases(store(example(), example("Cy", "Rome", "Rome"), other))
    assert not good.problem
    assert same.problem.startswith("record 2: target_new is the true value 'Rome'")
    assert "the file does not tell how SPOUSE is worded" in unknown.problem
    (only,) = cases(store(example(Subject_Aliasing=[], Compositionality_II=[])))
    assert "the file does not tell how HOME is worded" in only.problem


@pytest.mark.parametrize(
    "fields",
    [
        {"edit": {"relation": "HOME", "prompt": "x"}},
        {"Forgetfulness": [trial(passes="XOR")]},
        {axis: ... for axis in example() if axis[0].isupper()},
    ],
)
def test_a_record_that_is_not_of_the_layout_is_named(store, fields):
    bad = {name: value for name, value in example(**fields).items() if value is not ...}
    file = store(example(), bad)
    cause = complaint(RippleEdits(file)).cause
    assert cause.startswith(f"{file}: record 2: ")
    assert next(iter(fields)) in cause


# Measures

RIGHT, WRONG = Verdict("decided", 1.0), Verdict("decided", 0.0)
UNDECIDED, PENDING = Verdict("undecided", 0.0), Verdict("pending")
ASK = Generate("x")
KEY = Key("match", "x", about={"how": "within"})


def probe(role, test=0, number=0, axis="", passes="any"):
    axis = axis or role
    tags = {"axis": axis, "test": str(test), "query": str(number), "passes": passes}
    return Probe(role, ASK, {} if role == "fact" else tags, KEY)


def measured(probes, before, after):
    case = Case("0", (Request("{} is", "Ada", "x"),), tuple(probes))
    sides = ([Text("", verdict) for verdict in side] for side in (before, after))
    return Ripple().measure(case, *sides)


LG, FG = "logical-generalization", "forgetfulness"
TWO_TESTS = [probe("fact"), probe(LG), probe("condition", axis=LG), probe(LG, 1), probe(FG, 2)]


def test_shares_of_a_case_by_hand():
    before = [WRONG, WRONG, RIGHT, RIGHT, RIGHT]
    after = [RIGHT, RIGHT, WRONG, WRONG, UNDECIDED]
    assert measured(TWO_TESTS, before, after) == {
        "LG tests": 2, "FG tests": 1, "LG executed": 2, "FG executed": 1, "pre_Executed": 1,
        "pre_LG": 1 / 2, "pre_FG": 1, "post_Excluded": 0,
        "LG counted": 2, "FG counted": 1, "LG passed": 1, "FG passed": 0,
        "post_LG": 1 / 2, "post_FG": 0,
    }  # fmt: skip
    untaken = measured(TWO_TESTS, before, [WRONG, *after[1:]])
    assert untaken == {
        "LG tests": 2, "FG tests": 1, "LG executed": 2, "FG executed": 1, "pre_Executed": 1,
        "pre_LG": 1 / 2, "pre_FG": 1, "post_Excluded": 1,
    }  # fmt: skip
    unmet = measured(TWO_TESTS, [WRONG, WRONG, WRONG, RIGHT, RIGHT], [RIGHT] * 5)
    assert (unmet["LG tests"], unmet["LG executed"], unmet["LG counted"]) == (2, 1, 1)
    assert (unmet["pre_Executed"], unmet["post_LG"]) == (2 / 3, 1)
    # A failed edit did not take.
    case = Case("0", (Request("{} is", "Ada", "x"),), tuple(TWO_TESTS))
    assert Ripple().failed(case, []) == {"post_Excluded": 1}


def test_verdicts_that_decide_are_enough():
    some = [probe("fact"), probe(LG), probe(LG, number=1)]
    passes = [probe("fact"), *(probe(LG, number=number, passes="all") for number in range(2))]
    conditions = [
        probe("fact"),
        probe(LG),
        *(probe("condition", axis=LG, number=n) for n in (0, 1)),
    ]
    both = [probe("fact"), probe(LG), probe(LG)]
    right, wrong = [RIGHT, RIGHT, PENDING], [RIGHT, WRONG, PENDING]
    assert measured(some, right, right)["post_LG"] == 1
    assert "post_LG" not in measured(some, wrong, wrong)
    assert measured(passes, wrong, wrong)["post_LG"] == 0
    assert "post_LG" not in measured(passes, right, right)
    assert measured(both, wrong, wrong)["post_LG"] == 0
    assert measured(conditions, [RIGHT, RIGHT, WRONG, PENDING], [RIGHT] * 4)["LG executed"] == 0
    assert measured(conditions, [RIGHT, RIGHT, PENDING, RIGHT], [RIGHT] * 4) == {"post_Excluded": 0}
    unknown = measured(TWO_TESTS, [RIGHT] * 5, [PENDING, *[RIGHT] * 4])
    assert not [name for name in unknown if name.startswith("post")]


def test_before_and_after_are_of_the_same_tests_and_cases():
    before, after = [WRONG, WRONG, RIGHT, RIGHT, RIGHT], [RIGHT, RIGHT, WRONG, PENDING, RIGHT]
    values = measured(TWO_TESTS, before, after)
    assert (values["pre_LG"], values["post_LG"]) == (0, 1), "the other test waits for its judge"
    columns = {"pre_LG": np.array([1.0, 0.5, 0.0]), "post_LG": np.array([1.0, 0.0, np.nan])}
    assert Ripple().summarize(columns) == {"pre_LG": 0.75, "post_LG": 0.5}
    assert Ripple().summarize({"pre_LG": columns["pre_LG"]}) == {"pre_LG": 0.5}
    # Case 0 passes 1 of 2, case 1 passes 1 of 1: the mean is 3/4, and 2 of 3 are passed.
    columns = {
        "post_LG": np.array([0.5, 1.0, np.nan]),
        "LG tests": np.array([2.0, 1.0, 2.0]),
        "LG executed": np.array([2.0, 1.0, 1.0]),
        "LG counted": np.array([2.0, 1.0, np.nan]),
        "LG passed": np.array([1.0, 1.0, np.nan]),
    }
    assert Ripple().summarize(columns) == {"post_LG": 0.75}
    assert list(Ripple().tables([], columns).values()) == [[{
        "axis": "LG", "cases": 3, "tests": 5, "executed": 4, "passed": "2 of 3", "%": 200 / 3
    }]]  # fmt: skip
    assert Ripple().tables([], {}) == {}
