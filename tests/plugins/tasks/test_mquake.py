"""MQuAKE: records to cases, what stands before questions, and the measures by hand."""

import json
import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders import scores
from support.complaints import complaint

from edit_harness import Case, Choose, Key, ModelSource, Probe, Regime, Request, Text
from edit_harness.data import Verdict
from edit_harness_plugins.metrics.verdicts.hops import MultiHop
from edit_harness_plugins.tasks.mquake import MQuAKE
from edit_harness_plugins.tasks.rippleedits.rippleedits import RippleEdits

EXACT = 1e-12
"""Means of a few shares in double precision."""


def edit(**fields):
    return {
        "prompt": "{} lives in",
        "target_new": {"str": "Paris", "id": "Q90"},
        "target_true": {"str": "Rome", "id": "Q220"},
        "subject": "Ada",
    } | fields


def hop(question, answer, *aliases):
    return {"question": question, "answer": answer, "answer_alias": list(aliases)}


def instance(case_id=1, **fields):
    """Return a record as in MQuAKE-CF-3k-v2: Ada's home is moved, and its country is asked for."""
    home = "Where does Ada live?"
    record = {
        "case_id": case_id,
        "requested_rewrite": [edit()],
        "questions": ["In which country does Ada live?", "Ada's home is in?", "Which land is it?"],
        "answer": "Italy",
        "answer_alias": ["Italia"],
        "new_answer": "France",
        "new_answer_alias": ["la France"],
        "single_hops": [hop(home, "Rome"), hop("Which country is Rome in?", "Italy", "Italia")],
        "new_single_hops": [hop(home, "Paris"), hop("Which country is Paris in?", "France")],
        "orig": {
            "triples": [["Q1", "P551", "Q220"], ["Q220", "P17", "Q38"]],
            "new_triples": [["Q1", "P551", "Q90"], ["Q90", "P17", "Q142"]],
        },
    } | fields
    return {name: value for name, value in record.items() if value is not ...}


def only(task):
    (case,) = task.cases()
    return case


def asked(case, role):
    return [(p.query, p.key) for p in case.probes if p.role == role]


# Records


def test_an_instance_becomes_a_case(store):
    """An old answer of a later time is right before the edit, too."""
    file = store(instance(answer_extended=["Italian Republic"]))
    case = only(MQuAKE(file, demonstrations="none"))
    assert case.id == "1"
    assert case.requests == (Request("{} lives in", "Ada", "Paris", "Rome"),)
    assert case.tags == {"hops": "2", "edits": "1"}
    roles = [probe.role for probe in case.probes]
    assert roles == ["efficacy"] + 2 * ["single-hop"] + 2 * ["old-single-hop"] + 3 * ["multi-hop"]
    assert case.probes[0].query == Choose("Ada lives in", ("Paris", "Rome"))
    (query, key), *_ = asked(case, "multi-hop")
    assert query.prompt == "In which country does Ada live?"
    assert (query.top_k, query.stop) == (1, "\n")
    old = ["Italia", "Italian Republic"]
    about = {"aliases": ["la France"], "old_aliases": old, "how": "sentence"}
    assert key == Key("match", "France", "Italy", about)
    assert [key.right for _, key in asked(case, "single-hop")] == ["Paris", "France"]
    assert [key.right for _, key in asked(case, "old-single-hop")] == ["Rome", "Italy"]
    assert asked(case, "old-single-hop")[1][1].about["aliases"] == ["Italia"]
    # All its edits are written at once.
    edits = [edit(), edit(subject="Rome", prompt="{} is in")]
    both = only(MQuAKE(store(instance(requested_rewrite=edits))))
    assert [request.subject for request in both.requests] == ["Ada", "Rome"]
    assert both.tags["edits"] == "2"
    assert MQuAKE.regime == Regime()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"requested_rewrite": [edit(target_new={"str": " Rome"})]},
         "target_new is the true value 'Rome', so nothing is edited"),
        ({"questions": []}, "`$.questions` is empty"),
        ({"requested_rewrite": [edit(prompt="Ada lives in")]},
         "`$.requested_rewrite[0].prompt` has 0 places '{}' for the subject, expected 1"),
    ],
)  # fmt: skip
def test_a_record_of_no_use_is_a_case_that_says_why(store, fields, problem):
    good, bad = MQuAKE(store(instance(), instance(2, **fields))).cases()
    assert not good.problem
    assert bad == Case("2", (), (), problem=f"facts.json: record 2: {problem}")


@pytest.mark.parametrize(
    ("kind", "address"),
    [(MQuAKE, "princeton-nlp/MQuAKE"), (RippleEdits, "edenbiran/RippleEdits")],
)
def test_without_a_file_or_a_sample_it_says_where_the_file_is(kind, address):
    error = complaint(kind().bind(ModelSource("gpt2")))
    assert "is not downloaded" in error.cause
    assert f"https://github.com/{address}: --task-args data=FILE" in error.remedy
    said = kind.dataset()
    assert "untried on the genuine files" in said["sha256"]
    assert said["records"] == kind.files


# What stands before questions


def test_the_models_own_sample_is_asked_without_demonstrations(store):
    source = ModelSource("pocket", data={"mquake": store(instance())})
    own = MQuAKE().bind(source)
    assert (own.demonstrations, own.origin, own.notes) == ("none", "bundled sample", ())
    given = MQuAKE(store(instance(), name="other.json")).bind(source)
    assert (given.demonstrations, given.origin) == ("built-in", "other.json")
    assert "prompts=FILE" in given.notes[0]
    assert MQuAKE(demonstrations="built-in").bind(source).demonstrations == "built-in"


def test_demonstrations_are_sixteen_that_ask_nothing_twice_or_those_of_a_file(store):
    query, key = asked(only(MQuAKE(store(instance()))), "multi-hop")[0]
    *before, last = query.prompt.split("\n")
    assert len(before) == len({line.partition(" A:")[0] for line in before}) == 16
    assert last == "Q: In which country does Ada live? A:"
    assert (query.stop, key.about["how"]) == ("\n", "equal")
    assert not any("Ada" in line for line in before)
    file = store(name="shots.txt", text="Frage: Wo? Antwort: Da\n\n")
    query, _ = asked(only(MQuAKE(store(instance()), demonstrations=file)), "multi-hop")[0]
    assert query.prompt == "Frage: Wo? Antwort: Da\nQ: In which country does Ada live? A:"


OSLO = "Q: Which country is Oslo in? A: Norway"


def test_prompts_of_a_relation_stand_before_its_questions_only(store):
    prompts = store(name="prompts.json", text=json.dumps({"P17": OSLO}))
    task = MQuAKE(store(instance()), demonstrations="none", prompts=prompts)
    (home, whole), (country, line) = asked(only(task), "single-hop")
    assert home.prompt == "Where does Ada live?"
    assert country.prompt == f"{OSLO}\nQ: Which country is Paris in? A:"
    assert (whole.about["how"], line.about["how"]) == ("sentence", "equal")
    assert asked(only(task), "multi-hop")[0][0].prompt == "In which country does Ada live?"
    assert task.notes == ()
    unknown = store(instance(orig={"triples": [["Q1", "P551", "Q220"]]}))
    case = only(replace(task, data=unknown))
    assert [query.prompt for query, _ in asked(case, "single-hop")] == [
        "Where does Ada live?", "Which country is Paris in?",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("field", "content", "said"),
    [
        ("demonstrations", " \n", "has no demonstrations"),
        ("prompts", "[]", "Expected `object`, got `array`"),
        ("prompts", '{"P17": ""}', "P17` is empty"),
    ],
)
def test_a_bad_file_of_prompts_is_refused(store, field, content, said):
    file = store(name="prompts", text=content)
    assert said in complaint(MQuAKE(store(instance()), **{field: file})).cause


# Measures


RIGHT, WRONG = Verdict("decided", 1.0), Verdict("decided", 0.0)
OLD, UNDECIDED = Verdict("decided", 0.0, reverted=True), Verdict("undecided", 0.0)
PENDING, UNPARSED = Verdict("pending"), Verdict("unparsed")
WINS, LOSES = scores((0.5,), (0.1,)), scores((0.5,), (0.1,), wrong=[0])
QUERY = Choose("x", ("new", "true"))


def case(edits=1, hops=2, old=2, questions=3):
    counts = {"efficacy": edits, "single-hop": hops, "old-single-hop": old, "multi-hop": questions}
    probes = tuple(Probe(role, QUERY) for role, n in counts.items() for _ in range(n))
    return Case("0", (Request("{} is", "Ada", "x"),), probes)


def answers(*given):
    return [each if not isinstance(each, Verdict) else Text("", each) for each in given]


def test_shares_of_an_instance_and_of_all_edits_by_hand():
    before = answers(LOSES, WRONG, RIGHT, RIGHT, RIGHT, OLD, WRONG, WRONG)
    after = answers(WINS, RIGHT, RIGHT, WRONG, RIGHT, WRONG, RIGHT, OLD)
    assert MultiHop().measure(case(), before, after) == pytest.approx({
        "pre_EW": 0, "pre_EW successes": 0, "pre_EW edits": 1, "pre_IW": 0, "pre_SH": 1 / 2, "pre_IW-old": 1,
        "pre_MH": 0, "pre_MH-old": 1, "pre_MH-mean": 0,
        "post_EW": 1, "post_EW successes": 1, "post_EW edits": 1, "post_IW": 1, "post_SH": 1, "post_IW-old": 0,
        "post_MH": 1, "post_MH-old": 1, "post_MH-mean": 1 / 3,
    }, rel=EXACT)  # fmt: skip
    # Edits are pooled; the mean of means would weigh instances.
    rows = []
    for found in ([WINS], [WINS, LOSES, LOSES]):
        own = case(edits=len(found), hops=0, old=0, questions=0)
        rows.append(MultiHop().measure(own, found, found))
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    assert MultiHop().summarize(columns) == {"pre_EW": 2 / 4, "post_EW": 2 / 4}
    # A failed edit is wrong everywhere.
    values = MultiHop().failed(case(edits=2), [])
    assert values == {
        "post_MH": 0, "post_EW": 0, "post_IW": 0, "post_SH": 0, "post_MH-mean": 0,
        "post_EW successes": 0, "post_EW edits": 2,
    }  # fmt: skip


VERDICTS = st.sampled_from([RIGHT, WRONG, OLD, UNDECIDED, PENDING, UNPARSED])


@given(st.lists(VERDICTS, min_size=7, max_size=7))
def test_a_value_is_there_if_every_outcome_of_what_is_missing_has_it(verdicts):
    """The oracle fills in every verdict that is missing, with a right one and with the old one."""
    missing = [at for at, verdict in enumerate(verdicts) if not verdict.counts]
    asked = case(edits=0)

    def values(given):
        after = MultiHop().measure(asked, answers(*given), answers(*given)).items()
        return {n: v for n, v in after if n in ("post_MH", "post_MH-old", "post_IW", "post_IW-old")}

    outcomes = []
    for filling in product((RIGHT, OLD), repeat=len(missing)):
        filled = list(verdicts)
        for at, verdict in zip(missing, filling, strict=True):
            filled[at] = verdict
        outcomes.append(values(filled))
    first = outcomes[0]
    sure = {n: v for n, v in first.items() if all(each[n] == v for each in outcomes)}
    assert values(verdicts) == sure


def test_tables_by_hops_and_by_edits():
    """The shares are counted and divided once: 35 of 80 are 43.75 %, with no rounding error."""
    tags = [("3", "1"), ("2", "2")] + [("2", "1")] * 79
    cases = [replace(case(), tags={"hops": hops, "edits": edits}) for hops, edits in tags]
    right, unknown = np.array([0.0] * 46 + [1.0] * 35), np.array([1.0] + [math.nan] * 80)
    tables = MultiHop().tables(cases, {"post_MH": right, "post_IW": unknown})
    assert tables["by number of hops, %"] == [
        {"hops": "2", "cases": 80, "MH": 43.75, "IW": None},
        {"hops": "3", "cases": 1, "MH": 0, "IW": 100},
    ]
    assert [row["cases"] for row in tables["by number of edits, %"]] == [80, 1]
